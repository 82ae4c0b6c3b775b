"""From an address to a connection that is ready for its first request.

::

    TCP ─► (TLS) ─► ApiVersions ─► (SASL) ─► ready
                       │ the broker closes, or stays silent: is it older than 0.10?
                       └─► TCP, (TLS) ─► a fetch of nothing, ApiVersions ─► (SASL) ─► ready
                                            │ it answers the one and not the other: it is older
                                            └─► TCP, (TLS) ─► ready, in the versions of 0.8 and 0.9

Everything happens before one deadline. A dialect without versions is ready at once.
"""

from __future__ import annotations

import functools
import importlib.metadata
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ..errors import ConnectionLost, KafkaWireError, RequestTimedOut
from ..model import Broker
from ..protocol.connection import Connection
from ..protocol.modern import API_VERSIONS, BEFORE_API_VERSIONS
from ..protocol.modern.api_versions import ApiVersionsRequest, offered
from ..protocol.modern.error_codes import ModernErrorCode, broker_error
from ..protocol.modern.fetch import FetchRequest
from ..protocol.versions import BrokerVersions
from .channel import Channel
from .sasl import log_in
from .settings import ConnectionSettings
from .tls import TlsTransport
from .transport import Deadline, Transport

#: How long the answer to ApiVersions is waited for, seconds, where the deadline is later than twice
#: that. Brokers 0.9.0 ignore the request and keep the connection (librdkafka's INTRODUCTION.md).
API_VERSIONS_WAIT_S: Final = 10.0
#: And how long a second time, seconds, by a broker that has just answered another request.
AGAIN_WAIT_S: Final = 2.0
#: For how long a broker is known to be older than 0.10, seconds. It may be upgraded meanwhile.
OLD_BROKER_S: Final = 300.0
#: The part of a login's lifetime after which a connection is not taken again. The broker closes it
#: on the first request after all of it (KIP-368).
LIFETIME_USED: Final = 0.85
#: Asks for no partition, so every broker from 0.8.0 to 3.x answers it at once.
_FETCH_OF_NOTHING: Final = FetchRequest(max_wait_ms=0, min_bytes=0, topics=())
#: What is spoken to a broker of which that is not known.
_OLD_OR_NOT: Final = BrokerVersions({**BEFORE_API_VERSIONS.ranges, API_VERSIONS.key: API_VERSIONS.versions})

#: Addresses of brokers older than 0.10, and until when that is believed (monotonic clock).
_old_brokers: Final[dict[tuple[str, int], float]] = {}


def connected(broker: Broker, settings: ConnectionSettings, deadline: Deadline) -> Channel:
    """A channel to the broker, ready for the first request.

    Raises ``ConnectFailed`` or another ``TransportError`` (retriable), ``AuthenticationError``,
    ``ProtocolError``, ``BrokerError`` (fatal).
    """
    if not settings.dialect.correlates:
        return _open(broker, settings, deadline)
    channel = _speaking(broker, settings, deadline)
    if settings.security.sasl is not None:
        with _closed_on_error(channel):
            lifetime_s = log_in(channel, settings.security.sasl, deadline)
        if lifetime_s is not None:
            channel.expires_in(lifetime_s * LIFETIME_USED)
    return channel


def _speaking(broker: Broker, settings: ConnectionSettings, deadline: Deadline) -> Channel:
    """A channel on which both sides know which versions to speak."""
    address = broker.host, broker.port
    if time.monotonic() < _old_brokers.get(address, 0.0):
        return _open_old(broker, settings, deadline)
    try:
        return _negotiated(broker, settings, deadline)
    except (ConnectionLost, RequestTimedOut) as error:
        channel = _asked_again(broker, settings, deadline, error)
    if channel is not None:
        return channel
    _old_brokers[address] = time.monotonic() + OLD_BROKER_S
    return _open_old(broker, settings, deadline)


def _open(broker: Broker, settings: ConnectionSettings, deadline: Deadline) -> Channel:
    transport = Transport.connect(broker, deadline)
    if settings.security.tls is not None:
        transport = TlsTransport.over(transport, settings.security.tls, broker.host, deadline)
    return Channel(Connection(settings.dialect, settings.client_id), transport)


def _negotiated(broker: Broker, settings: ConnectionSettings, deadline: Deadline) -> Channel:
    channel = _open(broker, settings, deadline)
    with _closed_on_error(channel):
        half_s = deadline.remaining_s() / 2
        _ask_versions(channel, deadline.sooner(min(half_s, API_VERSIONS_WAIT_S)))
    return channel


@contextmanager
def _closed_on_error(channel: Channel) -> Iterator[None]:
    try:
        yield
    except BaseException:
        channel.close()
        raise


def _ask_versions(channel: Channel, deadline: Deadline) -> None:
    """Learn what the broker offers; one that refuses the request's version is asked once more."""
    request = ApiVersionsRequest(client_software_version=_software_version())
    reply = channel.ask(request, deadline)
    channel.negotiated(offered(reply))
    if reply.error_code == ModernErrorCode.UNSUPPORTED_VERSION:
        reply = channel.ask(request, deadline)
        channel.negotiated(offered(reply))
    if reply.error_code != ModernErrorCode.NONE:
        raise broker_error(reply.error_code, "ApiVersions")


@functools.cache
def _software_version() -> str:
    """This package's version, where it is installed and brokers take it. Source: KIP-511."""
    try:
        version = importlib.metadata.version("spark-kafkawire")
    except importlib.metadata.PackageNotFoundError:  # shipped as plain files
        version = ""
    return version if re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?", version) else "unknown"


def _asked_again(
    broker: Broker, settings: ConnectionSettings, deadline: Deadline, error: KafkaWireError
) -> Channel | None:
    """A channel to a broker that answers ApiVersions this time; None where it is too old to know it.

    A broker that restarts or is slow, or a listener that wants something else, must not be taken
    for an old one, to which neither headers nor timestamps can be written: an old one answers a
    request of its time, and not ApiVersions right after that. Raises ``error`` where it answers
    neither.
    """
    try:
        channel = _open(broker, settings, deadline)
        with _closed_on_error(channel):
            channel.negotiated(_OLD_OR_NOT)
            channel.ask(_FETCH_OF_NOTHING, deadline)
    except KafkaWireError:
        raise _explained(error) from error
    try:
        with _closed_on_error(channel):
            _ask_versions(channel, deadline.sooner(min(deadline.remaining_s() / 2, AGAIN_WAIT_S)))
        return channel
    except (ConnectionLost, RequestTimedOut):
        return None


def _open_old(broker: Broker, settings: ConnectionSettings, deadline: Deadline) -> Channel:
    channel = _open(broker, settings, deadline)
    channel.negotiated(BEFORE_API_VERSIONS)
    return channel


def _explained(error: KafkaWireError) -> KafkaWireError:
    return type(error)(
        f"{error}; does this port want another kafka.security.protocol, or is it no broker of Kafka 0.8 or "
        "later (0.7 is found by zookeeper.connect)?"
    )
