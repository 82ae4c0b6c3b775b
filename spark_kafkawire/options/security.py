"""Options of TLS and login to modern brokers, under the names that Kafka's Java clients have for them.

The module ``credentials`` reads their values. Only connections that are encrypted or log in import it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..errors import LOG, OptionError
from . import login_options
from .option import MODERN, Option, bad_value, capitals, option, string, word
from .raw import RawOptions


class TlsOptions(NamedTuple):
    """Options of TLS to one kind of peer."""

    trust_type: Option[str | None]
    trust_location: Option[str | None]
    trust_certificates: Option[str | None]
    key_type: Option[str | None]
    key_location: Option[str | None]
    key_certificates: Option[str | None]
    key_text: Option[str | None]
    key_password: Option[str | None]
    checks_host_name: Option[bool]

    @property
    def trusts(self) -> tuple[Option[str | None], ...]:
        """The options that say whom to trust."""
        return self[:3]


_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TRUST: Final = "kafka.ssl.truststore"
KEY: Final = "kafka.ssl.keystore"


def in_capitals(_: str, given: str) -> str:
    """A word in capitals."""
    return capitals(given)


def _protocol(name: str, given: str) -> str:
    protocol = capitals(given)
    if protocol not in _PROTOCOLS:
        raise bad_value(name, protocol, " or ".join(_PROTOCOLS))
    return protocol


def host_name_check(name: str, given: str) -> bool:
    """True if host names are checked: `https`; an empty value turns that off."""
    algorithm = word(given)
    if algorithm not in ("https", ""):
        raise bad_value(name, algorithm, "https, or nothing to give up the check of host names")
    return bool(algorithm)


PROTOCOL: Final = option(
    "kafka.security.protocol",
    _protocol,
    default="PLAINTEXT",
    generation=MODERN,
    meaning="`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`",
)
TRUST_TYPE: Final = option(
    f"{TRUST}.type", in_capitals, generation=MODERN, meaning="`PEM`, the only supported type"
)
TRUST_LOCATION: Final = option(
    f"{TRUST}.location",
    string,
    generation=MODERN,
    meaning="a PEM file of trusted authorities, on the driver; by default those of the system",
)
TRUST_CERTIFICATES: Final = option(
    f"{TRUST}.certificates", string, generation=MODERN, meaning="the same as text"
)
KEY_TYPE: Final = option(
    f"{KEY}.type", in_capitals, generation=MODERN, meaning="`PEM`, the only supported type"
)
KEY_LOCATION: Final = option(
    f"{KEY}.location",
    string,
    generation=MODERN,
    meaning="a PEM file of the client's key and certificates, on the driver",
)
KEY_TEXT: Final = option(f"{KEY}.key", string, generation=MODERN, meaning="the client's key as PEM text")
KEY_CERTIFICATES: Final = option(
    f"{KEY}.certificate.chain",
    string,
    generation=MODERN,
    meaning="the client's certificates as PEM text",
)
KEY_PASSWORD: Final = option(
    "kafka.ssl.key.password", string, generation=MODERN, meaning="the password of the client's key"
)
CHECKS_HOST_NAME: Final = option(
    "kafka.ssl.endpoint.identification.algorithm",
    host_name_check,
    default="https",
    generation=MODERN,
    meaning="an empty value turns off the check of host names",
)
MECHANISM: Final = option(
    "kafka.sasl.mechanism",
    in_capitals,
    generation=MODERN,
    meaning="`PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER` or `AWS_MSK_IAM`",
)
JAAS: Final = option(
    "kafka.sasl.jaas.config",
    string,
    generation=MODERN,
    meaning="the login module with its secrets, in the syntax of Java",
)
TOKEN_URL: Final = option(
    "kafka.sasl.oauthbearer.token.endpoint.url",
    string,
    generation=MODERN,
    meaning="the https URL of an authorization server that gives tokens; or `file:///path` of a token on "
    "each machine that connects, which each connection reads",
)
#: The options of TLS to brokers. Those of trust are for the server of tokens, too, with TLS or without.
TLS_OPTIONS: Final = TlsOptions(
    TRUST_TYPE,
    TRUST_LOCATION,
    TRUST_CERTIFICATES,
    KEY_TYPE,
    KEY_LOCATION,
    KEY_CERTIFICATES,
    KEY_TEXT,
    KEY_PASSWORD,
    CHECKS_HOST_NAME,
)
_SASL_OPTIONS: Final = (MECHANISM, JAAS, TOKEN_URL, *login_options.TOKEN_OPTIONS)


def used_layers(options: RawOptions) -> tuple[bool, bool]:
    """Read if connections are encrypted, and if they log in. Raises ``OptionError`` (fatal), which
    shows no secret."""
    protocol = options[PROTOCOL]
    with_tls, with_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    if not with_sasl and (login := options.given(*_SASL_OPTIONS)):
        # Java's clients connect without a login then, which ends in errors that do not mention it.
        raise OptionError(
            f"option {login[0]}: kafka.security.protocol={protocol} does not log in; set "
            "kafka.security.protocol=SASL_SSL, or SASL_PLAINTEXT where brokers take logins without TLS, or "
            "leave the options of the login out"
        )
    asking = options.given(TOKEN_URL, *login_options.CHOOSING_OPTIONS)
    asks_for_tokens = with_sasl and (
        options[MECHANISM] == "AWS_MSK_IAM" or (options[MECHANISM] == "OAUTHBEARER" and asking != [])
    )
    trusts = TLS_OPTIONS.trusts if asks_for_tokens else ()
    used = TLS_OPTIONS if with_tls else trusts
    if unused := options.given(*(option for option in TLS_OPTIONS if option not in used)):
        LOG.warning("kafka.security.protocol=%s does not use %s", protocol, ", ".join(unused))
    return with_tls, with_sasl
