"""From an address to a connection that is ready for its first request.

::

    TCP ─► (TLS) ─► ApiVersions ─► (SASL) ─► ready
                       │ no answer yet: DescribeGroups of none behind it
                       ├─► both are answered ─► ready
                       ├─► that alone is answered: proof ─► ready, in the versions of 0.9
                       │ the broker closes
                       ├─► TCP, (TLS) ─► Fetch 1 of nothing ─► as above, from ApiVersions on
                       │                    └─► answered as version 0, and so is Fetch 32767: proof
                       │                                                  ─► ready, in the versions of 0.8
                       │ nothing is answered
                       └─► TCP, (TLS) ─► as above, once more

Older versions are spoken on those two proofs (``protocol.modern.old_brokers``) and on the user's word alone;
each connection is proven anew, and what is known of the cluster must agree (``known_versions``). All else is
an error that may be tried again.

Everything happens before one deadline. A dialect without versions is ready at once, that of the proposal once
it was answered in (``proposal``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from ..errors import ConnectionLost, KafkaWireError, RequestTimedOut
from ..model import Broker, WireFormat
from ..protocol.connection import Connection, Reply
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
from .known_versions import KNOWN
from .settings import ConnectionSettings
from .transport import Deadline, Transport

#: How long one connection may take to tell versions, seconds, where the deadline is later than twice that:
#: another connection may do better.
API_VERSIONS_WAIT_S: Final = 10.0
#: How long ApiVersions alone is waited for, seconds. A broker 0.9.0 ignores it, and would never answer; one
#: that is only slow answers the question behind it, too.
API_VERSIONS_ALONE_S: Final = 2.0
#: The part of a login's lifetime after which a connection is not taken again. The broker closes it
#: on the first request after all of it (KIP-368).
LIFETIME_USED: Final = 0.85


def open_channel(broker: Broker, settings: ConnectionSettings, deadline: Deadline) -> Channel:
    """A channel to the broker, ready for the first request.

    Raises ``ConnectFailed`` or another ``TransportError`` (retriable), ``AuthenticationError``,
    ``ProtocolError``, ``BrokerError`` (fatal).
    """
    return _OPENING[settings.spoken](broker, settings, deadline)


def _open_modern(broker: Broker, settings: ConnectionSettings, deadline: Deadline) -> Channel:
    channel = _negotiated(broker, settings, deadline)
    if settings.security.sasl is not None:
        from .sasl import log_in

        with _closed_on_error(channel):
            lifetime_s = log_in(channel, settings.security.sasl, deadline)
        if lifetime_s is not None:
            channel.expires_in(lifetime_s * LIFETIME_USED)
    return channel


def _negotiated(broker: Broker, settings: ConnectionSettings, deadline: Deadline) -> Channel:
    """A channel on which both sides know which versions to speak."""
    if settings.assumed_release is not None:
        versions = KNOWN.assume(broker, settings)
        channel = _open(broker, settings, deadline)
    else:
        channel, versions = _channel_and_versions(broker, settings, deadline)
        with _closed_on_error(channel):
            KNOWN.learn(broker, settings, versions)
    connection = Connection(settings.dialect, settings.client_id)
    connection.negotiated(versions)
    channel.continue_with(connection)
    return channel


def _channel_and_versions(
    broker: Broker, settings: ConnectionSettings, deadline: Deadline
) -> tuple[Channel, BrokerVersions]:
    """A channel, and the versions that its broker offers, by its own answer or by proof."""
    begins_with_fetch = _may_be_old(broker, settings) and KNOWN.old_release(broker) == "0.8"
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
    """Whether the broker may turn out to be older than ApiVersions. With a login it cannot: Kerberos was
    the only one, and later brokers close on all other questions before it."""
    return settings.security.sasl is None and not KNOWN.speaks_api_versions(broker, settings)


def _ask_for_versions(
    broker: Broker, settings: ConnectionSettings, deadline: Deadline, *, with_fetch: bool
) -> tuple[Channel, BrokerVersions]:
    """Connect, and ask for versions; ``with_fetch`` asks first whether the broker reads any."""
    channel = _open(broker, settings, deadline)
    with _closed_on_error(channel):
        if with_fetch and _ignores_versions(channel, deadline):
            return channel, OLD_RELEASES["0.8"]
        return channel, _offered_versions(channel, deadline, _api_versions_alone_s(broker, settings))


def _ignores_versions(channel: Channel, deadline: Deadline) -> bool:
    """Whether the broker answers in version 0 what it was asked in another one, and in one that is none."""
    return all(
        channel.ask(question, deadline).ignores_version
        for question in (FETCH_OF_NOTHING, FETCH_IN_NO_VERSION)
    )


def _api_versions_alone_s(broker: Broker, settings: ConnectionSettings) -> float | None:
    """How long to wait for ApiVersions alone; None where nothing else is asked."""
    if not _may_be_old(broker, settings):
        return None
    was_old = KNOWN.old_release(broker) == "0.9" or settings.floor.fetch == 0
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


#: How connections of each wire format begin.
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
    """What the broker offers; one that refuses the request's version is asked once more."""
    request = ApiVersionsRequest(client_software_version=VERSION)
    channel.send(request, deadline)
    reply = None if alone_s is None else _early_reply(channel, deadline, alone_s)
    reply = reply or channel.receive(deadline)
    if reply.request is GROUPS_OF_NOTHING:
        return OLD_RELEASES["0.9"]
    while channel.in_flight:
        channel.receive(deadline)
    answer = reply.body
    versions = offered(answer)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        channel.negotiated(versions)
        answer = channel.ask(request, deadline)
        versions = offered(answer)
    if answer.error_code != ErrorCode.NONE:
        raise broker_error(answer.error_code, "ApiVersions")
    return versions


def _early_reply(channel: Channel, deadline: Deadline, alone_s: float) -> Reply | None:
    """The answer that comes soon; else None, and another question is on its way behind the first."""
    if alone_s:
        with suppress(RequestTimedOut):
            return channel.receive(deadline.sooner(min(alone_s, deadline.remaining_s() / 2)))
    channel.send(GROUPS_OF_NOTHING, deadline)
    return None


def _advised(error: KafkaWireError, broker: Broker, settings: ConnectionSettings) -> KafkaWireError:
    """What else such an error may mean, and the option of those who know better."""
    wrong = "does this port want another kafka.security.protocol, or is it no broker of Kafka"
    if KNOWN.speaks_api_versions(broker, settings):
        return error.advised(
            "a broker of this cluster has told its versions before, so it is not taken for one of 0.8 or 0.9"
        )
    if settings.security.sasl is not None:
        return error.advised(f"{wrong} 0.10 or later? Older ones know no login but Kerberos")
    return error.advised(
        f"{wrong} 0.8 or later (0.7 is found by zookeeper.connect)? Where all brokers are of 0.8 or 0.9, "
        "kafka.api.version.request=false and kafka.broker.version.fallback=0.9.0 say so"
    )
