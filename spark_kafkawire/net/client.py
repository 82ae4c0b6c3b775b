"""A connection to one broker: requests out, responses in, in order, several in flight.

    client = Client.connect(broker, ConnectionSettings(Generation.V07, timeout_s=30))
    response = client.request(OffsetsRequest("t", 0, -1, 1))

A client that failed is closed and never used again: make a new one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Any, Final

from ..errors import AuthenticationError, ConnectionLost, KafkaWireError
from ..model import Broker
from ..protocol.api import Api
from ..protocol.connection import Response
from .channel import Channel
from .connecting import open_channel
from .settings import ConnectionSettings
from .transport import Deadline

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
        self._channel = channel
        self._has_answered = False
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
            raise error.located(str(broker)) from error

    @property
    def in_flight(self) -> int:
        """Requests whose responses have not been taken yet."""
        return len(self._early) + self._channel.in_flight

    @property
    def mechanisms(self) -> frozenset[str]:
        """The mechanisms of logins that the broker has named at the login; empty without one."""
        return self._channel.mechanisms

    @property
    def has_answered(self) -> bool:
        """True after the first response. Requests of connecting do not count: a listener that requires a
        login sends its versions to every client."""
        return self._has_answered

    @property
    def transaction_version(self) -> int:
        """The transaction protocol that the broker's cluster has finalized: 1 or 2."""
        return self._channel.transaction_version

    def version_of(self, api: Api, request: object | None = None) -> int:
        """The version in which a request, or the one with most fields of its API, is sent to this broker.

        Raises ``UnsupportedVersionError`` (fatal).
        """
        try:
            return self._channel.version_of(api, request)
        except KafkaWireError as error:
            self.close()
            raise error.located(str(self.broker)) from error

    def send(self, request: object, within: Deadline | None = None) -> None:
        """Send a request without waiting for its response, if it has one.

        Waits first while the broker throttles this client. Raises ``TransportError`` (retriable if the
        request may be repeated).
        """
        try:
            deadline = Deadline.after(self.settings.timeout_s).within(within)
            if self._channel.is_login_due:
                self._log_in_again(deadline)
            self._channel.send(request, deadline)
        except KafkaWireError as error:
            self.close()
            raise error.located(str(self.broker)) from error

    def receive(self, within: Deadline | None = None) -> Response:
        """The next response, in the order of the requests.

        Raises ``TransportError`` (retriable) or ``ProtocolError`` (fatal).
        """
        if self._early:
            return self._early.popleft()
        try:
            response = self._channel.receive(Deadline.after(self.settings.timeout_s).within(within))
        except KafkaWireError as error:
            self.close()
            raise self._explained(error).located(str(self.broker)) from error
        self._has_answered = True
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
        return self._channel.is_quiet()

    def has_come(self) -> bool:
        """True if the next response, or the end of the connection, has begun to arrive: receiving it does not
        wait for the broker."""
        return bool(self._early) or self._channel.has_come()

    def close(self) -> None:
        """Close the connection; never fails."""
        self._channel.close()

    def _log_in_again(self, deadline: Deadline) -> None:
        """Log in again on the same connection, after the responses to all requests in flight; on a new
        connection if the broker does not accept that. Refused credentials are not tried again."""
        from .sasl import HandshakeRefused, log_in

        while self._channel.in_flight:
            self._early.append(self._channel.receive(deadline))
            self._has_answered = True
        assert self.settings.security.sasl is not None
        try:
            log_in(self._channel, self.settings.security.sasl, self.broker.host, deadline)
        except KafkaWireError as error:
            if isinstance(error, AuthenticationError) and not isinstance(error, HandshakeRefused):
                raise
            self._channel.close()
            self._channel = open_channel(self.broker, self.settings, deadline)

    def _explained(self, error: KafkaWireError) -> KafkaWireError:
        """The error with the advice to log in, if the broker has closed before its first response.

        A listener that requires a login sends its versions to every client and closes on the next request.
        """
        suspect = self.settings.dialect.negotiates and self.settings.security.sasl is None
        if suspect and not self._has_answered and isinstance(error, ConnectionLost):
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
