"""A connection to one broker: requests out, replies in, in order, several in flight.

    client = Client.connect(broker, ConnectionSettings(Generation.V07, timeout_s=30))
    reply = client.request(OffsetsRequest("t", 0, -1, 1))

A client that failed is closed and never used again: make a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Any, Final

from ..errors import ConnectionLost, KafkaWireError
from ..model import Broker
from ..protocol.api import Api
from ..protocol.connection import Reply
from .channel import Channel
from .connecting import open_channel
from .settings import ConnectionSettings
from .transport import Deadline

#: Requests of a pipeline that wait for replies at the same time. Bounded, because a broker whose
#: replies nobody reads stops reading requests.
PIPELINE_DEPTH: Final = 64
#: What connecting may take however soon who asks wants an answer, seconds: a slow broker that has no
#: time to tell its versions would be taken for one of 0.9.
CONNECT_LEAST_S: Final = 10.0


class Client:
    """One connection. Errors name the broker."""

    def __init__(self, broker: Broker, settings: ConnectionSettings, channel: Channel) -> None:
        self.broker = broker
        self.settings = settings
        self._channel = channel
        self._has_answered = False

    @classmethod
    def connect(cls, broker: Broker, settings: ConnectionSettings, within: Deadline | None = None) -> Client:
        """Connect to a broker, and agree with it on what the dialect leaves open.

        No wait lasts longer than ``settings.timeout_s``, nor, here and below, than ``within``, but for
        ``CONNECT_LEAST_S`` here.
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
        """Requests whose replies have not been taken yet."""
        return self._channel.in_flight

    @property
    def transaction_version(self) -> int:
        """The protocol of transactions that the broker's cluster agreed on: 1, or 2."""
        return self._channel.transaction_version

    def version_of(self, api: Api, request: object | None = None) -> int:
        """The version in which a request, or the richest of its kind, is sent to this broker.

        Raises ``UnsupportedVersionError`` (fatal).
        """
        try:
            return self._channel.version_of(api, request)
        except KafkaWireError as error:
            self.close()
            raise error.located(str(self.broker)) from error

    def send(self, request: object, within: Deadline | None = None) -> None:
        """Send a request without waiting for its reply, if it has one.

        A broker that throttles this client is waited for first. Raises ``TransportError``
        (retriable where the request may be repeated).
        """
        try:
            self._channel.send(request, Deadline.after(self.settings.timeout_s).within(within))
        except KafkaWireError as error:
            self.close()
            raise error.located(str(self.broker)) from error

    def receive(self, within: Deadline | None = None) -> Reply:
        """The next reply, in the order of the requests.

        Raises ``TransportError`` (retriable) or ``ProtocolError`` (fatal).
        """
        try:
            reply = self._channel.receive(Deadline.after(self.settings.timeout_s).within(within))
        except KafkaWireError as error:
            self.close()
            raise self._explained(error).located(str(self.broker)) from error
        self._has_answered = True
        return reply

    def request(self, request: object, within: Deadline | None = None) -> Any:
        """Send one request and give its reply's body."""
        self.send(request, within)
        return self.receive(within).body

    def pipeline(self, requests: Iterable[object], depth: int = PIPELINE_DEPTH) -> Iterator[Reply]:
        """The replies to many requests, of which ``depth`` are sent ahead of the replies."""
        waiting = iter(requests)
        for request in islice(waiting, depth):
            self.send(request)
        while self.in_flight:
            yield self.receive()
            for request in islice(waiting, 1):
                self.send(request)

    def is_quiet(self) -> bool:
        """Whether a connection without requests in flight can take the next one: nothing came that
        nobody asked for, and the broker has not closed it."""
        return self._channel.is_quiet()

    def has_come(self) -> bool:
        """Whether the next reply, or what ends the connection, has begun to come: to receive it takes no
        wait for the broker."""
        return self._channel.has_come()

    def close(self) -> None:
        """Close the connection; never fails."""
        self._channel.close()

    def _explained(self, error: KafkaWireError) -> KafkaWireError:
        """A listener that wants a login tells its versions to everybody, and closes on what follows."""
        suspect = self.settings.dialect.negotiates and self.settings.security.sasl is None
        if suspect and not self._has_answered and isinstance(error, ConnectionLost):
            return ConnectionLost(f"{error}; does this port want a login (kafka.security.protocol=SASL_…)?")
        return error

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
