"""Requests and responses over one transport, each wait with the deadline of its caller."""

from __future__ import annotations

import math
import time
from typing import Any, Final

from ..errors import ProtocolError, RequestTimedOut
from ..protocol.connection import Connection, Response
from ..protocol.modern.limits import SMALL_RESPONSE_BYTES_MAX
from ..protocol.primitives import CHECK_PEER, read_int32
from .transport import Deadline, Transport

#: Milliseconds in a second.
_MS: Final = 1000


class Channel:
    """Transport and protocol state of one connection. The caller closes it after an error."""

    def __init__(self, connection: Connection, transport: Transport) -> None:
        #: The protocol state. It may be replaced while no request is in flight.
        self.connection = connection
        self._transport = transport
        self._throttled_until_s = 0.0
        #: When the client has to log in again before the next request, by the monotonic clock.
        self.login_due_s = math.inf
        #: The mechanisms of logins that the broker has named.
        self.mechanisms: frozenset[str] = frozenset()

    def send(self, request: object, deadline: Deadline) -> None:
        """Send a request, after the throttle time that the broker has set.

        Raises ``TransportError`` (retriable where the request may be repeated).
        """
        parts = self.connection.send(request)
        self._wait_while_throttled(deadline)
        self._transport.send(parts, deadline)

    def receive(self, deadline: Deadline) -> Response:
        """The next response, in the order of the requests.

        Raises ``TransportError`` (retriable) or ``ProtocolError`` (fatal).
        """
        while True:
            size = self._transport.receive_into(self.connection.wanted(), deadline, is_due=True)
            if size == 0:
                raise self.connection.closed()
            response = self.connection.receive(size)
            if response is not None:
                if response.throttle_time_ms:
                    self._throttled_until_s = time.monotonic() + response.throttle_time_ms / _MS
                return response

    def ask(self, request: object, deadline: Deadline) -> Any:
        """Send one request and return the body of its response."""
        self.send(request, deadline)
        return self.receive(deadline).body

    def exchange_token(self, token: bytes, deadline: Deadline) -> bytes:
        """Send ``length int32 | token`` without a header, and receive a token in the same form."""
        self._transport.send([len(token).to_bytes(4, "big"), token], deadline)
        size = read_int32(self._receive_exactly(4, deadline))
        if not 0 <= size <= SMALL_RESPONSE_BYTES_MAX:
            raise ProtocolError(
                f"a SASL token announces {size} bytes; at most {SMALL_RESPONSE_BYTES_MAX} are accepted; "
                f"{CHECK_PEER}"
            )
        return bytes(self._receive_exactly(size, deadline))

    def is_quiet(self) -> bool:
        """True if the connection is open, and no unexpected bytes came."""
        return self._transport.is_quiet()

    def close(self) -> None:
        """Close the connection; never fails."""
        self._transport.close()

    def _wait_while_throttled(self, deadline: Deadline) -> None:
        """Wait until the broker reads again. Source: KIP-219."""
        wait_s = self._throttled_until_s - time.monotonic()
        if wait_s > 0:
            left_s = deadline.remaining_s()
            time.sleep(min(wait_s, left_s))
            if wait_s > left_s:
                raise RequestTimedOut(
                    f"the broker throttles this client for another {wait_s:.1f} s, longer than "
                    f"{deadline}: a quota is used up; raise it, or requestTimeout"
                )

    def _receive_exactly(self, size: int, deadline: Deadline) -> bytearray:
        data = bytearray(size)
        view, filled = memoryview(data), 0
        while filled < size:
            came = self._transport.receive_into(view[filled:], deadline)
            if came == 0:
                raise self.connection.closed()
            filled += came
        return data
