"""Scripted misbehaviour of a broker, for tests of clients.

    BrokerServer(config, faults=[Fault("FETCH", nth=2, kind=FaultKind.CUT, size=100)])

lets the broker send 100 bytes of its second FETCH response and then close the connection.
"""

from __future__ import annotations

import enum
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

#: Bytes that ``GARBAGE`` sends: the beginning of an HTTP response.
NOT_KAFKA: Final = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"
#: The API name of a connection being made.
CONNECT: Final = "CONNECT"


class FaultKind(enum.Enum):
    """Kind of misbehaviour."""

    DROP = "the request is not carried out, the connection is closed"
    CUT = "it is carried out, `size` bytes of the response are sent, the connection is closed"
    STALL = "it is carried out, `size` bytes of the response are sent, then nothing for ever"
    SHORT = "the response ends after `size` bytes and says so in its length"
    FLIP = "one bit of the response is wrong, in its byte `size`"
    GARBAGE = "something else than Kafka's protocol is sent instead of the response"


class Then(enum.Enum):
    """Next step of the broker after it sent the bytes of a fault."""

    GO_ON = "serve the next request"
    CLOSE = "close the connection"
    STALL = "stay silent until the peer or the broker ends"


@dataclass(frozen=True, slots=True)
class Fault:
    """Misbehaviour at the ``nth`` request (from 1, over all connections) of one API.

    ``api`` is a name of the dialect's (``FETCH``), or CONNECT for the connection itself.
    """

    api: str
    nth: int
    kind: FaultKind
    size: int = 0

    def spoil(self, frame: bytes) -> tuple[bytes, Then]:
        """The bytes to send instead of a response's frame, and the broker's next step."""
        match self.kind:
            case FaultKind.DROP:
                return b"", Then.CLOSE
            case FaultKind.CUT:
                return frame[: self.size], Then.CLOSE
            case FaultKind.STALL:
                return frame[: self.size], Then.STALL
            case FaultKind.SHORT:
                return (self.size - 4).to_bytes(4, "big") + frame[4 : self.size], Then.GO_ON
            case FaultKind.FLIP:
                flipped = bytearray(frame)
                flipped[self.size] ^= 1
                return bytes(flipped), Then.GO_ON
            case FaultKind.GARBAGE:
                return NOT_KAFKA, Then.GO_ON


class FaultScript:
    """Counts requests and selects those with a fault. Safe for many threads."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = {(fault.api, fault.nth): fault for fault in faults}
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, api: str) -> Fault | None:
        """The fault of this request, if it has one."""
        with self._lock:
            self._counts[api] += 1
            return self._faults.get((api, self._counts[api]))
