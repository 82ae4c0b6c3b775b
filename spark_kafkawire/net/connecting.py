"""Opens connections: from the address of a broker of any Kafka version to a channel that is ready for the
first request.

::

    TCP ─► (TLS) ─► ApiVersions ─► (SASL) ─► ready
                       │ no response yet: send an empty DescribeGroups after it
                       ├─► responses to both ─► ready
                       ├─► a response to DescribeGroups alone: proof of 0.9 ─► ready, in its versions
                       │ the broker closes
                       ├─► TCP, (TLS) ─► empty Fetch 1 ─► as above, from ApiVersions on
                       │                    └─► the response is of version 0, and so is that to
                       │                        Fetch 32767: proof of 0.8 ─► ready, in its versions
                       │ no response at all
                       └─► TCP, (TLS) ─► as above, once more

The client uses the versions of 0.8 or 0.9 only on one of these two proofs (``protocol.modern.old_brokers``)
or if an option names the release. Each connection needs its own proof, which must agree with the known
versions of the cluster (``known_versions``). All other cases are errors that may be retried.

One deadline bounds all steps. A connection of 0.7 is ready at once, and one of the proposal after its first
response (``proposal``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from ..errors import ConnectionLost, KafkaWireError, RequestTimedOut
from ..model import Broker, WireFormat
from ..protocol.connection import Connection, Response
from ..protocol.modern.api_versions import ApiVersionsRequest, offered
from ..protocol.modern.error_codes import ErrorCode, broker_error
from ..protocol.modern.old_brokers import (
    ASKING,
    FETCH_IN_NO_VERSION,
    FETCH_OF_NOTHING,
    GROUPS_OF_NOTHING,
    OLD_RELEASES,
)
from ..protocol.versions import BrokerVersions
from ..version import VERSION
from .channel import Channel
from .known_versions import BROKER_VERSIONS
from .settings import ConnectionSettings
from .transport import Deadline, Transport

if TYPE_CHECKING:
    from .sasl import Sasl

#: Time for one connection to receive versions, seconds, if the deadline is later than twice that: another
#: connection may be faster.
API_VERSIONS_WAIT_S: Final = 10.0
#: Time for a response to ApiVersions before DescribeGroups follows, seconds. A broker 0.9.0 ignores
#: ApiVersions and never responds. A broker that is only slow responds to both.
API_VERSIONS_ALONE_S: Final = 2.0
#: Time between two logins with a delegation token that a broker may not know yet, seconds.
TOKEN_WAIT_S: Final = 0.25


def open_channel(broker: Broker, settings: ConnectionSettings, deadline: Deadline) -> Channel:
    """A channel to the broker, ready for the first request.

    Raises ``ConnectFailed`` or another ``TransportError`` (retriable), ``AuthenticationError``,
    ``ProtocolError``, ``BrokerError`` (fatal).
    """
    return _OPENING[settings.spoken](broker, settings, deadline)


def _open_modern(broker: Broker, settings: ConnectionSettings, deadline: Deadline) -> Channel:
    if settings.security.sasl is None:
        return _negotiated(broker, settings, deadline)
    from .logins.delegation_token import DelegationToken
    from .sasl import TokenRefused

    credentials = settings.security.sasl.credentials
    while True:
        try:
            return _open_logged_in(broker, settings, settings.security.sasl, deadline)
        except TokenRefused:
            # Brokers learn of a new token one after the other.
            assert isinstance(credentials, DelegationToken)
            if not credentials.may_be_unknown(time.time()) or deadline.left_s <= TOKEN_WAIT_S:
                raise
            time.sleep(TOKEN_WAIT_S)


def _open_logged_in(broker: Broker, settings: ConnectionSettings, sasl: Sasl, deadline: Deadline) -> Channel:
    from .sasl import log_in

    channel = _negotiated(broker, settings, deadline)
    with _closed_on_error(channel):
        log_in(channel, sasl, broker.host, deadline)
    return channel


def _negotiated(broker: Broker, settings: ConnectionSettings, deadline: Deadline) -> Channel:
    """A channel whose versions are negotiated."""
    if settings.assumed_release is not None:
        versions = BROKER_VERSIONS.assume(broker, settings)
        channel = _open(broker, settings, deadline)
    else:
        channel, versions = _channel_and_versions(broker, settings, deadline)
        with _closed_on_error(channel):
            BROKER_VERSIONS.learn(broker, settings, versions)
    connection = Connection(settings.dialect, settings.client_id)
    connection.negotiated(versions)
    channel.continue_with(connection)
    return channel


def _channel_and_versions(
    broker: Broker, settings: ConnectionSettings, deadline: Deadline
) -> tuple[Channel, BrokerVersions]:
    """A channel and the versions of its broker, from its response or by proof."""
    begins_with_fetch = _may_be_old(broker, settings) and BROKER_VERSIONS.old_release(broker) == "0.8"
    share = deadline.sooner(min(deadline.remaining_s() / 2, API_VERSIONS_WAIT_S))
    try:
        return _ask_for_versions(broker, settings, share, with_fetch=begins_with_fetch)
    except (ConnectionLost, RequestTimedOut) as error:
        closed = isinstance(error, ConnectionLost)
        with_fetch = closed and not begins_with_fetch and _may_be_old(broker, settings)
        try:
            return _ask_for_versions(broker, settings, deadline, with_fetch=with_fetch)
        except KafkaWireError as again:
            raise (_advised(error, broker, settings) if again.retriable else again) from error


def _may_be_old(broker: Broker, settings: ConnectionSettings) -> bool:
    """True if the broker can be older than ApiVersions. It cannot with a login: before 0.10 Kerberos was the
    only one, and later brokers close the connection on any other request before the login."""
    return settings.security.sasl is None and not BROKER_VERSIONS.speaks_api_versions(broker, settings)


def _ask_for_versions(
    broker: Broker, settings: ConnectionSettings, deadline: Deadline, *, with_fetch: bool
) -> tuple[Channel, BrokerVersions]:
    """Connect and request the versions; ``with_fetch`` first tests if the broker ignores them."""
    channel = _open(broker, settings, deadline)
    with _closed_on_error(channel):
        if with_fetch and _ignores_versions(channel, deadline):
            return channel, OLD_RELEASES["0.8"]
        return channel, _offered_versions(channel, deadline, _api_versions_alone_s(broker, settings))


def _ignores_versions(channel: Channel, deadline: Deadline) -> bool:
    """True if the broker answers in version 0 both requests, of another version and of one that does not
    exist."""
    return all(
        channel.ask(question, deadline).ignores_version
        for question in (FETCH_OF_NOTHING, FETCH_IN_NO_VERSION)
    )


def _api_versions_alone_s(broker: Broker, settings: ConnectionSettings) -> float | None:
    """Seconds to wait for ApiVersions before DescribeGroups follows; None if it never does."""
    if not _may_be_old(broker, settings):
        return None
    was_old = BROKER_VERSIONS.old_release(broker) == "0.9" or settings.minimum_versions.fetch == 0
    return 0.0 if was_old else API_VERSIONS_ALONE_S


def _open(broker: Broker, settings: ConnectionSettings, deadline: Deadline) -> Channel:
    transport = Transport.connect(broker, deadline)
    if settings.security.tls is not None:
        from .tls import TlsTransport

        transport = TlsTransport.over(transport, settings.security.tls, broker.host, deadline)
    dialect = ASKING if settings.dialect.negotiates else settings.dialect
    return Channel(Connection(dialect, settings.client_id), transport)


def _open_proposed(broker: Broker, settings: ConnectionSettings, deadline: Deadline) -> Channel:
    from .proposal import answered_in_proposal

    return answered_in_proposal(lambda asked: _open(broker, asked, deadline), settings, deadline)


#: Functions that open a connection, by wire format.
_OPENING: Final[Mapping[WireFormat, Callable[[Broker, ConnectionSettings, Deadline], Channel]]] = {
    WireFormat.V07: _open,
    WireFormat.PROPOSAL: _open_proposed,
    WireFormat.MODERN: _open_modern,
}


@contextmanager
def _closed_on_error(channel: Channel) -> Iterator[None]:
    try:
        yield
    except BaseException:
        channel.close()
        raise


def _offered_versions(channel: Channel, deadline: Deadline, alone_s: float | None) -> BrokerVersions:
    """The versions that the broker offers. If it rejects the version of the request, ask once more."""
    request = ApiVersionsRequest(client_software_version=VERSION)
    channel.send(request, deadline)
    response = None if alone_s is None else _early_response(channel, deadline, alone_s)
    response = response or channel.receive(deadline)
    if response.request is GROUPS_OF_NOTHING:
        return OLD_RELEASES["0.9"]
    while channel.in_flight:
        channel.receive(deadline)
    answer = response.body
    versions = offered(answer)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        channel.negotiated(versions)
        answer = channel.ask(request, deadline)
        versions = offered(answer)
    if answer.error_code != ErrorCode.NONE:
        raise broker_error(answer.error_code, "ApiVersions")
    return versions


def _early_response(channel: Channel, deadline: Deadline, alone_s: float) -> Response | None:
    """The response if it comes soon; else None, after DescribeGroups was sent."""
    if alone_s:
        with suppress(RequestTimedOut):
            return channel.receive(deadline.sooner(min(alone_s, deadline.remaining_s() / 2)))
    channel.send(GROUPS_OF_NOTHING, deadline)
    return None


def _advised(error: KafkaWireError, broker: Broker, settings: ConnectionSettings) -> KafkaWireError:
    """The error with its other possible causes and the options that exclude them."""
    wrong = "does this port need another kafka.security.protocol, or is the server not a broker of Kafka"
    if BROKER_VERSIONS.speaks_api_versions(broker, settings):
        return error.advised(
            "a broker of this cluster has sent its versions before, so this one is not treated as 0.8 or 0.9"
        )
    if settings.security.sasl is not None:
        return error.advised(f"{wrong} 0.10 or later? Older brokers support no login except Kerberos")
    return error.advised(
        f"{wrong} 0.8 or later (for 0.7, set zookeeper.connect)? If all brokers run 0.8 or 0.9, set "
        "kafka.api.version.request=false and kafka.broker.version.fallback=0.9.0"
    )
