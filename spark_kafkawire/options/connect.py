"""Options of connections to brokers of both generations: deadlines, retries, versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ..errors import LOG, OptionError
from ..model import WireFormat
from ..net.first_contact import Bootstrap
from ..net.retry import RetryPolicy
from ..net.settings import PLAINTEXT, ConnectionSettings, Security
from ..protocol.modern.minimum_versions import MinimumVersions
from .discovery import Discovery
from .option import (
    INT32_MAX,
    MODERN,
    V07,
    Option,
    bad_value,
    count,
    flag,
    kafka_name,
    mapped,
    option,
    seconds,
    string,
)
from .raw import RawOptions
from .security import delegates, used_layers

if TYPE_CHECKING:
    from ..net.sasl import Sasl

#: Most tries of one request. With the longest waits between them that takes three hours.
_RETRIES_MAX: Final = 1000


def _kafka_retries(name: str, given: str) -> int:
    """Kafka's producers try again without end, and are bounded by a deadline instead."""
    return min(count(0, INT32_MAX)(name, given), _RETRIES_MAX)


WIRE_FORMAT: Final = option(
    "wireFormat",
    mapped({"0.7": None, "proposal": WireFormat.PROPOSAL}),
    default="0.7",
    generation=V07,
    meaning="`proposal`: messages have the format that was proposed for 0.8, for brokers that support it; "
    "see [The New Wire Format Proposal](kafka-0.7.md#the-new-wire-format-proposal)",
)
REQUEST_TIMEOUT: Final = option(
    "requestTimeout",
    seconds(),
    default="30s",
    aliases=(kafka_name("kafka.request.timeout.ms", "requestTimeout", seconds()),),
    meaning="the deadline of each wait for a broker or for ZooKeeper",
)
BROKER_DOWN_TIMEOUT: Final = option(
    "brokerDownTimeout",
    seconds(zero=True),
    default="60s",
    meaning="the time to wait for a broker that restarts, whatever `retries` is; `120s` for streams, `0s` if "
    "only `retries` is set",
)
BOOTSTRAP_TIMEOUT: Final = option(
    "bootstrapTimeout",
    seconds(),
    default="20s",
    meaning="the time to wait for the first answer of a cluster; bounded by `brokerDownTimeout` or `retries` "
    "if only these are set; in `writeStream` only if set",
)
RETRIES: Final = option(
    "retries",
    count(0, _RETRIES_MAX),
    default="3",
    aliases=(kafka_name("kafka.retries", "retries", _kafka_retries),),
    meaning="the number of times that a failed request is tried again; a 0.7 write only connects again",
)
RETRY_BACKOFF: Final = option(
    "retryBackoff",
    seconds(),
    default="100ms",
    aliases=(kafka_name("kafka.retry.backoff.ms", "retryBackoff", seconds()),),
    meaning="the wait before the first retry; it doubles, up to 10 s",
)
CLIENT_ID: Final = option(
    "kafka.client.id",
    string,
    default="spark-kafkawire",
    generation=MODERN,
    meaning="the name of this client in the logs and quotas of brokers",
)
ASKS_FOR_VERSIONS: Final = option(
    "kafka.api.version.request",
    flag,
    default="true",
    generation=MODERN,
    meaning="`false`: do not ask brokers for their versions; all have `kafka.broker.version.fallback`",
)
RELEASE: Final = option(
    "kafka.broker.version.fallback",
    string,
    generation=MODERN,
    meaning="the version of brokers that do not answer with one: `0.8`, `0.9`, or an exact version, "
    "`0.8.2.2`",
)
INCLUDE_HEADERS: Final = option(
    "includeHeaders",
    flag,
    default="false",
    generation=MODERN,
    meaning="`true`: reads have a column `headers`; writes take that column in any case",
)


@dataclass(frozen=True, slots=True)
class NetOptions:
    """Connections to brokers, and retries."""

    connection: ConnectionSettings
    retry: RetryPolicy = RetryPolicy(RETRIES.value, RETRY_BACKOFF.value, BROKER_DOWN_TIMEOUT.value)

    @property
    def request_timeout_s(self) -> float:
        """The deadline of each wait for a broker, seconds."""
        return self.connection.timeout_s

    @property
    def discovery_timeout_s(self) -> float:
        """Seconds that ZooKeeper may take for all requests, including a restart if it has answered before."""
        bound_s = self.retry.bootstrap.bound_s
        return max(self.request_timeout_s, self.retry.retry_timeout_s) if bound_s is None else bound_s

    @property
    def request_retry(self) -> RetryPolicy:
        """Retries of a request that only one broker can answer: a coordinator, a controller or a leader may
        move for at least the time of one request."""
        return self.retry.lasting(self.request_timeout_s)

    @property
    def delegates(self) -> bool:
        """True if tasks log in with delegation tokens, which the driver gets."""
        return self.connection.security.delegates

    def with_token(self, token: Sasl | None) -> NetOptions:
        """The same for tasks, which log in with a delegation token; see ``Security.with_token``."""
        security = self.connection.security.with_token(token)
        return replace(self, connection=replace(self.connection, security=security))

    @property
    def known(self) -> NetOptions:
        """The same for work on a cluster that has answered while the work was planned."""
        return replace(self, retry=self.retry.known)

    @property
    def patient(self) -> NetOptions:
        """The same for work that may follow other work on the cluster: a first contact that fails is logged
        soon, and bounded by retries and brokerDownTimeout alone."""
        return replace(
            self,
            retry=replace(self.retry, bootstrap=replace(self.retry.bootstrap, timeout_s=None)),
        )

    def of_brokers(self, minimum: MinimumVersions) -> NetOptions:
        """The same for brokers that have answered, and offer so much at least."""
        return replace(self.known, connection=replace(self.connection, minimum_versions=minimum))


def parse_wire_format(options: RawOptions, contradictions: Mapping[Option[Any], str]) -> WireFormat | None:
    """The format of messages; None is the generation's own format.

    Raises ``OptionError`` (fatal) for options that contradict the proposal; ``contradictions`` says why.
    """
    wire_format = options[WIRE_FORMAT]
    given = [option for option in contradictions if options.given(option)]
    if wire_format is WireFormat.PROPOSAL and given:
        raise OptionError(
            f"option {given[0].name} cannot be combined with wireFormat=proposal: "
            f"{contradictions[given[0]]}; leave "
            "out one of the two"
        )
    return wire_format


def parse_net(options: RawOptions, discovery: Discovery) -> NetOptions:
    """Read the options of connections to brokers. Raises ``OptionError`` (fatal)."""
    connection = ConnectionSettings(
        discovery.generation,
        options[REQUEST_TIMEOUT],
        options[CLIENT_ID],
        _security(options),
        bootstrap_servers=discovery.bootstrap_servers,
        assumed_release=_assumed_release(options),
    )
    if connection.assumed_release is not None and connection.security.sasl is not None:
        raise OptionError(
            f"option {RELEASE.name}: brokers of {connection.assumed_release} support no login but Kerberos, "
            f"and a login to them is not supported; leave {ASKS_FOR_VERSIONS.name} out where they take "
            "kafka.sasl.mechanism"
        )
    bootstrap = Bootstrap(discovery.place, _bootstrap_timeout_s(options))
    retry = RetryPolicy(options[RETRIES], options[RETRY_BACKOFF], _retry_timeout_s(options), bootstrap)
    return NetOptions(connection, retry)


def _security(options: RawOptions) -> Security:
    """The encryption and the login. The modules that read them are imported only for them."""
    with_tls, with_sasl = used_layers(options)
    if not with_tls and not with_sasl:
        return PLAINTEXT
    from .credentials import sasl_of
    from .tls import tls_of

    return Security(
        tls_of(options) if with_tls else None,
        sasl_of(options) if with_sasl else None,
        delegates(options),
    )


def _retry_timeout_s(options: RawOptions) -> float:
    """A user who sets only the number of retries means it."""
    if options.given(RETRIES) and not options.given(BROKER_DOWN_TIMEOUT):
        return 0.0
    return options[BROKER_DOWN_TIMEOUT]


def _bootstrap_timeout_s(options: RawOptions) -> float | None:
    """A user who sets a time or a number of attempts means the first contact, too."""
    if options.given(BROKER_DOWN_TIMEOUT, RETRIES) and not options.given(BOOTSTRAP_TIMEOUT):
        return None
    return options[BOOTSTRAP_TIMEOUT]


def _assumed_release(options: RawOptions) -> str | None:
    """``0.8`` or ``0.9`` if the user says so, in the words of librdkafka; None if brokers are asked.

    Unlike in librdkafka, the release alone has no effect: a failed request is no proof of an older broker.
    """
    asks, text = options[ASKS_FOR_VERSIONS], options[RELEASE]
    match = re.fullmatch(r"(0\.[89])(?:\.[0-9]{1,3}){0,2}", (text or "").strip())
    if text is not None and not match:
        allowed = "0.8 or 0.9, with or without more numbers: brokers from 0.10 on tell their versions"
        raise bad_value(RELEASE.name, text, allowed)
    if match and not asks:
        return match[1]
    asking = ASKS_FOR_VERSIONS.name
    if not asks:
        raise OptionError(f"option {asking}: false needs {RELEASE.name}, 0.8 or 0.9: later brokers are asked")
    if match:
        LOG.warning(
            "option %s has no effect unless %s=false, because brokers report their versions themselves",
            RELEASE.name,
            asking,
        )
    return None
