"""The protocol of Kafka 0.6 and 0.7, declared as data.

A request frame is ``length int32 | key int16 | fields``, a response frame ``length int32 | error
int16 | fields``. Responses come in the order of the requests. PRODUCE and MULTIPRODUCE are never
answered. Offsets are byte positions in the log. Only FETCH and MULTIFETCH report errors by a code; after
any other error the broker closes the connection.

Source: recordings of a 0.7.2 broker (``tests/golden/kafka-0.7.2``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Generic, TypeVar

from ..errors import Action, ErrorTable, ProtocolError, counted
from ..model import Generation
from .api import Api
from .dialect import Dialect, ListedApis, bare_headers
from .primitives import BYTES, CHECK_PEER, INT16, INT32, INT64, Array, Buffer, String, Type, take
from .responses import Faults, below, nothing_to_compare
from .schema import Struct, wire


class ErrorCode(ErrorTable):
    """The error codes, in the order of their numbers."""

    # fmt: off
    UNKNOWN = (-1, Action.FIX_OPTION, "the broker refuses the topic name",
        "use 1 to 255 characters, without a slash or control characters")
    NONE = 0
    OFFSET_OUT_OF_RANGE = (1, Action.DATA_LOSS, "the offset is no longer in the log",
        "read what is there with failOnDataLoss=false, or choose other startingOffsets")
    INVALID_MESSAGE = (2, Action.FAIL, "the broker found a damaged message",
        "see the broker's log, and check its disk")
    WRONG_PARTITION = (3, Action.REFRESH, "the broker has no such partition",
        "use partitions below the broker's num.partitions, or raise that setting")
    INVALID_FETCH_SIZE = (4, Action.FIX_OPTION, "the broker refuses the fetch size",
        "set fetchBytes to another size")
    # fmt: on


broker_error = ErrorCode.error

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rest:
    """Everything up to the end of the frame; read as a view of it."""

    def read(self, buf: memoryview, pos: int) -> tuple[Buffer, int]:
        return buf[pos:], len(buf)

    def write(self, value: Buffer, out: list[Buffer]) -> None:
        out.append(value)


@dataclass(frozen=True, slots=True)
class RestArray(Generic[T]):
    """Elements without a count, up to the end of the frame."""

    element: Type[T]

    def read(self, buf: memoryview, pos: int) -> tuple[tuple[T, ...], int]:
        elements = []
        while pos < len(buf):
            element, pos = self.element.read(buf, pos)
            elements.append(element)
        return tuple(elements), pos

    def write(self, value: Sequence[T], out: list[Buffer]) -> None:
        for element in value:
            self.element.write(element, out)


@dataclass(frozen=True, slots=True)
class Sized(Generic[T]):
    """``length int32 | value``, the value filling exactly that length."""

    element: Type[T]

    def read(self, buf: memoryview, pos: int) -> tuple[T, int]:
        size, pos = INT32.read(buf, pos)
        inner = take(buf, pos, size, "block")
        value, end = self.element.read(inner, 0)
        if end != size:
            raise ProtocolError(f"block of {size} bytes at {pos} holds a value of {end} bytes; {CHECK_PEER}")
        return value, pos + size

    def write(self, value: T, out: list[Buffer]) -> None:
        inner: list[Buffer] = []
        self.element.write(value, inner)
        INT32.write(sum(map(len, inner)), out)
        out += inner


REST: Final = Rest()


#: ``time`` of an OFFSETS request: the end of the log, then the starts of its segments.
LATEST_TIME: Final = -1
#: ``time`` of an OFFSETS request: the start of the first segment only.
EARLIEST_TIME: Final = -2
#: ``partition`` of a PRODUCE request: the broker draws one.
RANDOM_PARTITION: Final = -1
#: Longest request that a broker reads (its ``max.socket.request.bytes``), bytes.
REQUEST_BYTES_MAX: Final = 104_857_600
#: Most offsets in one OFFSETS response. A segment is a file of a broker.
SEGMENT_COUNT_MAX: Final = 1 << 20

STRING: Final = String(errors="replace")


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """Append a message set to a log. Never answered."""

    topic: str = wire(STRING)
    partition: int = wire(INT32)
    message_set: Buffer = wire(BYTES)


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Raw bytes of a log from ``offset`` on, ``max_bytes`` or up to the end of the segment."""

    topic: str = wire(STRING)
    partition: int = wire(INT32)
    offset: int = wire(INT64)
    max_bytes: int = wire(INT32)


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """``error int16 | bytes``: cut anywhere, also inside a message."""

    error_code: int = wire(INT16)
    message_set: Buffer = wire(REST)


@dataclass(frozen=True, slots=True)
class MultiFetchRequest:
    """Several FETCHes in one frame."""

    fetches: tuple[FetchRequest, ...] = wire(Array(Struct(FetchRequest), count=INT16))


@dataclass(frozen=True, slots=True)
class MultiFetchResponse:
    """``error int16`` (always 0), then ``length int32 | FETCH response`` for each, in order."""

    error_code: int = wire(INT16)
    responses: tuple[FetchResponse, ...] = wire(RestArray(Sized(Struct(FetchResponse))))


@dataclass(frozen=True, slots=True)
class MultiProduceRequest:
    """Several PRODUCEs in one frame. After the first that fails the broker drops the rest."""

    produces: tuple[ProduceRequest, ...] = wire(Array(Struct(ProduceRequest), count=INT16))


@dataclass(frozen=True, slots=True)
class OffsetsRequest:
    """Segment starts of a log that are not younger than ``time`` (ms, or -1, -2), newest first."""

    topic: str = wire(STRING)
    partition: int = wire(INT32)
    time: int = wire(INT64)
    max_offsets: int = wire(INT32)


@dataclass(frozen=True, slots=True)
class OffsetsResponse:
    """``error int16`` (always 0) and the offsets, newest first."""

    error_code: int = wire(INT16)
    offsets: tuple[int, ...] = wire(Array(INT64))


def _fetch_response_bytes_max(request: FetchRequest) -> int:
    return INT16.size + request.max_bytes


def _multifetch_response_bytes_max(request: MultiFetchRequest) -> int:
    return INT16.size + sum(INT32.size + _fetch_response_bytes_max(fetch) for fetch in request.fetches)


def _offsets_response_bytes_max(request: OffsetsRequest) -> int:
    # A broker returns one offset for an unknown topic, even if the request asks for none.
    count_max = min(max(request.max_offsets, 1), SEGMENT_COUNT_MAX)
    return INT16.size + INT32.size + INT64.size * count_max


def _multifetch_faults(request: MultiFetchRequest, response: MultiFetchResponse, _version: int) -> Faults:
    if len(response.responses) != len(request.fetches):
        asked = counted(len(request.fetches), "partition was", "partitions were")
        yield f"{asked} requested and {len(response.responses)} came"


def _offsets_faults(request: OffsetsRequest, response: OffsetsResponse, _version: int) -> Faults:
    # There may be no segment that is old enough; the log's start and end there are always.
    is_bound = request.time in (LATEST_TIME, EARLIEST_TIME) and request.max_offsets > 0
    if is_bound and not response.offsets and not response.error_code:
        yield "the answer is empty"
    yield from below(0, "offset", min(response.offsets, default=0))
    if any(older > newer for newer, older in pairwise(response.offsets)):
        yield "the answer is not newest first"
    # The end of a log and the start of its last segment may be the same; starts of segments never are.
    for newer, older in pairwise(response.offsets[1:]):
        if older == newer:
            yield f"the answer gives the offset {older} twice"
    # A broker returns one offset for an unknown topic, even if the request asks for none.
    if len(response.offsets) > max(request.max_offsets, 1):
        given = counted(len(response.offsets), "offset")
        yield f"the answer gives {given}, but {request.max_offsets} was requested"


PRODUCE: Final = Api("PRODUCE", 0, ProduceRequest)
FETCH: Final = Api(
    "FETCH", 1, FetchRequest, FetchResponse, _fetch_response_bytes_max, faults=nothing_to_compare
)
MULTIFETCH: Final = Api(
    "MULTIFETCH",
    2,
    MultiFetchRequest,
    MultiFetchResponse,
    _multifetch_response_bytes_max,
    faults=_multifetch_faults,
)
MULTIPRODUCE: Final = Api("MULTIPRODUCE", 3, MultiProduceRequest)
OFFSETS: Final = Api(
    "OFFSETS", 4, OffsetsRequest, OffsetsResponse, _offsets_response_bytes_max, faults=_offsets_faults
)

DIALECT: Final = Dialect(
    generation=Generation.V07,
    correlates=False,
    negotiates=False,
    apis=ListedApis((PRODUCE, FETCH, MULTIFETCH, MULTIPRODUCE, OFFSETS)),
    headers=bare_headers,
)
