"""A connection to one broker: requests out, responses in, in order, several in flight.

    client = Client.connect(broker, ConnectionSettings(Generation.V07, timeout_s=30))
    response = client.request(OffsetsRequest("t", 0, -1, 1))

A client that failed is closed and never used again: make a new one.

Opens connections: from the address of a broker of any Kafka version to a channel that is ready for the
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

The client uses the versions of 0.8 or 0.9 only on one of these two proofs (``protocol.modern.negotiation``)
or if an option names the release. Each connection needs its own proof, which must agree with the known
versions of the cluster (``known_versions``). All other cases are errors that may be retried.

One deadline bounds all steps. A connection of 0.7 is ready at once, and one of the proposal after its first
response (``proposal``).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from types import TracebackType
from typing import Any, Final

from ..errors import AuthenticationError, ConnectionLost, KafkaWireError, RequestTimedOut
from ..model import Broker, WireFormat
from ..protocol.api import Api, BrokerVersions
from ..protocol.connection import Connection, Response
from ..protocol.modern.error_codes import ErrorCode, broker_error
from ..protocol.modern.negotiation import (
    ASKING,
    FETCH_IN_NO_VERSION,
    FETCH_OF_NOTHING,
    GROUPS_OF_NOTHING,
    OLD_RELEASES,
    ApiVersionsRequest,
    list_offered,
)
from ..version import VERSION
from .channel import Channel
from .known_versions import BROKER_VERSIONS
from .retry import Spent
from .settings import ConnectionSettings
from .transport import Deadline, Transport

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
        return _negotiate(broker, settings, deadline)
    from .logins.passwords import DelegationToken
    from .sasl import TokenRefused, log_in

    credentials = settings.security.sasl.credentials
    while True:
        try:
            channel = _negotiate(broker, settings, deadline)
            with _close_on_error(channel):
                log_in(channel, settings.security.sasl, broker.host, deadline)
            return channel
        except TokenRefused:
            # Brokers learn of a new token one after the other.
            assert isinstance(credentials, DelegationToken)
            if not credentials.may_be_unknown(time.time()) or deadline.left_s <= TOKEN_WAIT_S:
                raise
            time.sleep(TOKEN_WAIT_S)


def _negotiate(broker: Broker, settings: ConnectionSettings, deadline: Deadline) -> Channel:
    """A channel whose versions are negotiated."""
    if settings.assumed_release is not None:
        versions = BROKER_VERSIONS.assume(broker, settings)
        channel = _open(broker, settings, deadline)
    else:
        channel, versions = _channel_and_versions(broker, settings, deadline)
        with _close_on_error(channel):
            BROKER_VERSIONS.learn(broker, settings, versions)
    connection = Connection(settings.dialect, settings.client_id)
    connection.use_versions(versions)
    channel.connection = connection
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
            raise (_advise(error, broker, settings) if again.retriable else again) from error


def _may_be_old(broker: Broker, settings: ConnectionSettings) -> bool:
    """True if the broker can be older than ApiVersions. It cannot with a login: before 0.10 Kerberos was the
    only one, and later brokers close the connection on any other request before the login."""
    return settings.security.sasl is None and not BROKER_VERSIONS.speaks_api_versions(broker, settings)


def _ask_for_versions(
    broker: Broker, settings: ConnectionSettings, deadline: Deadline, *, with_fetch: bool
) -> tuple[Channel, BrokerVersions]:
    """Connect and request the versions; ``with_fetch`` first tests if the broker ignores them."""
    channel = _open(broker, settings, deadline)
    with _close_on_error(channel):
        # 0.8 answers in version 0 both requests, of another version and of one that does not exist.
        questions = (FETCH_OF_NOTHING, FETCH_IN_NO_VERSION)
        if with_fetch and all(channel.ask(question, deadline).ignores_version for question in questions):
            return channel, OLD_RELEASES["0.8"]
        cluster_id, node_id = BROKER_VERSIONS.meant(broker, settings)
        request = ApiVersionsRequest(client_software_version=VERSION, cluster_id=cluster_id, node_id=node_id)
        return channel, _ask_versions(channel, request, deadline, _api_versions_alone_s(broker, settings))


def _api_versions_alone_s(broker: Broker, settings: ConnectionSettings) -> float | None:
    """Seconds to wait for ApiVersions before DescribeGroups follows; None if it never does."""
    if not _may_be_old(broker, settings):
        return None
    was_old = BROKER_VERSIONS.old_release(broker) == "0.9" or settings.minimum_versions.fetch == 0
    return 0.0 if was_old else API_VERSIONS_ALONE_S


def _open(broker: Broker, settings: ConnectionSettings, deadline: Deadline) -> Channel:
    transport = Transport.connect(settings.target(broker), deadline)
    if settings.security.tls is not None:
        from .tls import TlsTransport

        transport = TlsTransport.over(transport, settings.security.tls, broker.host, deadline)
    dialect = ASKING if settings.dialect.negotiates else settings.dialect
    return Channel(Connection(dialect, settings.client_id), transport)


def _open_proposed(broker: Broker, settings: ConnectionSettings, deadline: Deadline) -> Channel:
    from .proposal import connect_in_proposal

    return connect_in_proposal(lambda asked: _open(broker, asked, deadline), settings, deadline)


#: Functions that open a connection, by wire format.
_OPENING: Final[Mapping[WireFormat, Callable[[Broker, ConnectionSettings, Deadline], Channel]]] = {
    WireFormat.V07: _open,
    WireFormat.PROPOSAL: _open_proposed,
    WireFormat.MODERN: _open_modern,
}


@contextmanager
def _close_on_error(channel: Channel) -> Iterator[None]:
    try:
        yield
    except BaseException:
        channel.close()
        raise


def _ask_versions(
    channel: Channel, request: ApiVersionsRequest, deadline: Deadline, alone_s: float | None
) -> BrokerVersions:
    """The versions that the broker offers. If it rejects the version of the request, ask once more."""
    channel.send(request, deadline)
    response = None if alone_s is None else _early_response(channel, deadline, alone_s)
    response = response or channel.receive(deadline)
    if response.request is GROUPS_OF_NOTHING:
        return OLD_RELEASES["0.9"]
    while channel.connection.in_flight:
        channel.receive(deadline)
    answer = response.body
    versions = list_offered(answer)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        channel.connection.use_versions(versions)
        answer = channel.ask(request, deadline)
        versions = list_offered(answer)
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


def _advise(error: KafkaWireError, broker: Broker, settings: ConnectionSettings) -> KafkaWireError:
    """The error with its other possible causes and the options that exclude them."""
    wrong = "does this port need another kafka.security.protocol, or is the server not a broker of Kafka"
    if BROKER_VERSIONS.speaks_api_versions(broker, settings):
        return error.advise(
            "a broker of this cluster has sent its versions before, so this one is not treated as 0.8 or 0.9"
        )
    if settings.security.sasl is not None:
        return error.advise(f"{wrong} 0.10 or later? Older brokers support no login except Kerberos")
    return error.advise(
        f"{wrong} 0.8 or later (for 0.7, set zookeeper.connect)? If all brokers run 0.8 or 0.9, set "
        "kafka.api.version.request=false and kafka.broker.version.fallback=0.9.0"
    )


#: Requests of a pipeline that wait for responses at the same time. Bounded, because a broker stops reading
#: requests while its responses are not read.
PIPELINE_DEPTH: Final = 64
#: Least time for connecting, seconds, even if the caller's deadline is sooner: a slow broker without time to
#: send its versions would be treated as 0.9.
CONNECT_LEAST_S: Final = 10.0


class Client:
    """Connection to one broker. Errors name the broker."""

    def __init__(self, broker: Broker, settings: ConnectionSettings, channel: Channel) -> None:
        self.broker = broker
        self.settings = settings
        #: It is another one after a login that needed a new connection.
        self.channel = channel
        #: True after the first response. Those of connecting do not count: a listener that requires a login
        #: sends its versions to every client.
        self.has_answered = False
        #: Responses that came before a login, for the next calls of ``receive``.
        self._early: deque[Response] = deque()

    @classmethod
    def connect(cls, broker: Broker, settings: ConnectionSettings, within: Deadline | None = None) -> Client:
        """Connect to a broker, negotiate versions and log in.

        No wait lasts longer than ``settings.timeout_s`` or, here and below, than ``within``. Connecting gets
        ``CONNECT_LEAST_S`` in any case.
        Raises ``ConnectFailed`` or another ``TransportError`` (retriable), ``AuthenticationError``,
        ``ProtocolError``, ``BrokerError`` (fatal).
        """
        try:
            deadline = Deadline.after(settings.timeout_s).within(within, CONNECT_LEAST_S)
            return cls(broker, settings, open_channel(broker, settings, deadline))
        except KafkaWireError as error:
            if settings.address_map and settings.target(broker) is broker:
                error = error.advise("brokerAddressMap has no entry for it")
            raise error.locate(settings.place(broker)) from error

    @property
    def in_flight(self) -> int:
        """Requests whose responses have not been taken yet."""
        return len(self._early) + self.channel.connection.in_flight

    def version_of(self, api: Api, request: object | None = None) -> int:
        """The version in which a request, or the one with most fields of its API, is sent to this broker.

        Raises ``UnsupportedVersionError`` (fatal).
        """
        try:
            return self.channel.connection.version_of(api, request)
        except KafkaWireError as error:
            self.close()
            raise error.locate(self.settings.place(self.broker)) from error

    def send(self, request: object, within: Deadline | None = None) -> None:
        """Send a request without waiting for its response, if it has one.

        Waits first while the broker throttles this client. Raises ``TransportError`` (retriable if the
        request may be repeated).
        """
        try:
            deadline = Deadline.after(self.settings.timeout_s).within(within)
            if time.monotonic() >= self.channel.login_due_s:
                self._log_in_again(deadline)
            self.channel.send(request, deadline)
        except KafkaWireError as error:
            self.close()
            raise error.locate(self.settings.place(self.broker)) from error

    def receive(self, within: Deadline | None = None) -> Response:
        """The next response, in the order of the requests.

        Raises ``TransportError`` (retriable) or ``ProtocolError`` (fatal).
        """
        if self._early:
            return self._early.popleft()
        began_s, address = time.monotonic(), f"{self.broker.host}:{self.broker.port}"
        try:
            response = self.channel.receive(Deadline.after(self.settings.timeout_s).within(within))
        except KafkaWireError as error:
            self.close()
            raise self._explain(error).locate(self.settings.place(self.broker)) from error
        finally:
            Spent.waits_s[address] = Spent.waits_s.get(address, 0.0) + time.monotonic() - began_s
        self.has_answered = True
        return response

    def request(self, request: object, within: Deadline | None = None) -> Any:
        """Send one request and return the body of its response."""
        self.send(request, within)
        return self.receive(within).body

    def pipeline(
        self, requests: Iterable[object], depth: int = PIPELINE_DEPTH, within: Deadline | None = None
    ) -> Iterator[Response]:
        """The responses to many requests, with up to ``depth`` requests in flight."""
        waiting = iter(requests)
        for request in islice(waiting, depth):
            self.send(request, within)
        while self.in_flight:
            yield self.receive(within)
            for request in islice(waiting, 1):
                self.send(request, within)

    def is_quiet(self) -> bool:
        """True if a connection without requests in flight can take the next one: no unexpected bytes came,
        and the broker has not closed it."""
        return self.channel.is_quiet()

    def has_come(self) -> bool:
        """True if the next response, or the end of the connection, has begun to arrive: receiving it does not
        wait for the broker."""
        return bool(self._early) or not self.channel.is_quiet()

    def close(self) -> None:
        """Close the connection; never fails."""
        self.channel.close()

    def _log_in_again(self, deadline: Deadline) -> None:
        """Log in again on the same connection, after the responses to all requests in flight; on a new
        connection if the broker does not accept that. Refused credentials are not tried again."""
        from .sasl import HandshakeRefused, log_in

        while self.channel.connection.in_flight:
            self._early.append(self.channel.receive(deadline))
            self.has_answered = True
        assert self.settings.security.sasl is not None
        try:
            log_in(self.channel, self.settings.security.sasl, self.broker.host, deadline)
        except KafkaWireError as error:
            if isinstance(error, AuthenticationError) and not isinstance(error, HandshakeRefused):
                raise
            self.channel.close()
            self.channel = open_channel(self.broker, self.settings, deadline)

    def _explain(self, error: KafkaWireError) -> KafkaWireError:
        """The error with the advice to log in, if the broker has closed before its first response.

        A listener that requires a login sends its versions to every client and closes on the next request.
        """
        suspect = self.settings.dialect.negotiates and self.settings.security.sasl is None
        if suspect and not self.has_answered and isinstance(error, ConnectionLost):
            return ConnectionLost(
                f"{error}; does this port require a login (kafka.security.protocol=SASL_…)?"
            )
        return error

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
