"""The New Wire Format Proposal of 2012: another wire format for Kafka 0.7's produce and fetch requests.

Both requests name a topic once for all of its partitions, and hold a correlation id and the client's name.
The broker answers both: a produce with an error and an offset for each message set, a fetch when there are
enough bytes to read. Message sets and offsets (byte positions) are 0.7's. Kafka 0.8 has a different format.

The document leaves some points open and contradicts itself in others. The decisions of this package:

======================  ======================================================================================
ids of requests         The document has no ids. They are 700 and 701: 0.7 has 0 to 4, and later Kafka counts
                        from 5 on, so both close the connection on an id that they do not know. The first two
                        bytes of a request identify 0.7 or the proposal on one port.
order of header fields  The table of common fields has the version before the correlation id, FetchRequest
                        itself after it. Each request is written as its own definition has it.
offsets of a fetch      Written as int32. They are int64 here, as in the responses, because logs exceed 2 GiB.
size of a fetch         The document has none, 0.7 one for each partition. A response holds up to
                        ``FETCH_BYTES_MAX`` bytes of messages, which its partitions share: its receiver must
                        know the maximum length in advance. As in 0.7 a set may be cut anywhere.
message_set             "The existing format", without a length: an int32 precedes it, as in 0.7's PRODUCE.
errors of a fetch       Only the whole request has an error. If a partition causes it, the response holds only
                        that partition, without bytes; otherwise the response holds no partition.
errors of a produce     An error of the request, and a list with an error for each set, "or all -1 if none":
                        so "no error" is -1 in the list, but 0 for a request, as in 0.7. A set without an
                        error is appended even if other sets fail.
numbers of errors       See ``ErrorCode``.
offset of a produce     The first byte of the set in its log, -1 for a set that was not appended. The message
                        at a returned offset can be fetched: a broker flushes before it acknowledges.
required_acks           0 is "the current async behavior": the broker sends no response. 1 is the broker
                        itself. A number above its replicas or below 0 is an error before anything is
                        appended, because a wait until ``ack_timeout`` would not help.
max_wait, min_bytes     ``min_size`` in the table above them. Errors are sent at once; a broker may wait less
                        than requested.
order of responses      The order of the requests of a connection. Correlation ids would allow any order; a
                        client that needs responses during a long poll opens another connection.
client_id               "Optional", and a string cannot be null there: an empty one means no client id.
random partition        0.7 draws one for -1. Here -1 is refused: the response cannot name the partition.
lists of a fetch        Partitions and offsets have the same length, else the request is refused.
======================  ======================================================================================

``[]`` is an int16 count and the elements, a string an int16 length and UTF-8. A request has 32,767 message
sets at most (``SET_COUNT_MAX``), of any number of topics, because a ProduceResponse lists them all.

OFFSETS is the request of 0.7.

The document gives no numbers. Errors of 0.7 keep their numbers; errors that only the proposal has use the
numbers of later Kafka. "No error" is 0 for a whole request, as in all responses of 0.7, and -1 in the list of
a ProduceResponse, as the document says; that list may hold 0, too. So -1 is the unknown error of 0.7 only
when it is the error of a whole request.

Source: 0.7.2 common/ErrorMapping.scala, Apache Kafka's Errors.java; "New Wire Format Proposal", wiki of
Apache Kafka, 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from ..errors import Action, ErrorTable, ProtocolError, counted
from ..model import Generation
from .api import Api
from .dialect import Dialect, Headers, ListedApis
from .primitives import BYTES, CHECK_PEER, INT8, INT16, INT32, INT64, Array, Buffer, String, Type
from .responses import Faults, below, show_key, unlike
from .schema import Struct, codec, wire

#: "No error" in the list of a ProduceResponse: the set was appended.
NO_ERROR_OF_SET: Final = -1


class ErrorCode(ErrorTable):
    """The error codes, in the order of their numbers."""

    # fmt: off
    UNKNOWN = (-1, Action.FAIL, "the broker failed with an unknown error", "see the broker's log")
    NONE = 0
    OFFSET_OUT_OF_RANGE = (1, Action.DATA_LOSS, "the offset is no longer in the log",
        "read what is there with failOnDataLoss=false, or choose other startingOffsets")
    INVALID_MESSAGE = (2, Action.FAIL, "the broker found a damaged message",
        "see the broker's log, and check its disk and the network")
    WRONG_PARTITION = (3, Action.REFRESH, "the broker has no such partition",
        "use partitions below the broker's num.partitions, or raise that setting")
    INVALID_FETCH_SIZE = (4, Action.FAIL, "the broker refuses the size of the fetch",
        "fetches of the proposal have no size: see the broker's log")
    REPLICA_NOT_AVAILABLE = (9, Action.FAIL, "the broker has no replicas",
        "fetch as a consumer, with replica_id -1")
    MESSAGE_TOO_LARGE = (10, Action.FIX_OPTION, "a message is larger than the broker's max.message.size",
        "set the option max.message.size to the brokers' value, or raise that setting of the brokers")
    INVALID_TOPIC = (17, Action.FIX_OPTION, "the broker refuses the topic name",
        "use 1 to 255 characters, without a slash or control characters")
    INVALID_REQUIRED_ACKS = (21, Action.FIX_OPTION, "the broker has fewer replicas than acks requires",
        "set acks to 0 or 1")
    STORAGE = (56, Action.FAIL, "the broker could not write to its disk", "see the broker's log")
    # fmt: on


broker_error = ErrorCode.error


def is_appended(code: int) -> bool:
    """True if a code in a ProduceResponse's list means that the set was appended."""
    return code in (NO_ERROR_OF_SET, ErrorCode.NONE)


#: Message sets, or partitions, in one request: a ProduceResponse has one list of them, counted by an int16.
SET_COUNT_MAX: Final = 32_767


class TopicSets(Protocol):
    """A topic with partitions."""

    @property
    def set_count(self) -> int:
        """Number of partitions of this topic."""


T = TypeVar("T", bound=TopicSets)


@dataclass(frozen=True, slots=True)
class TopicArray(Array[T]):
    """``count int16 | topics``. Nested counts could claim a billion partitions, and each becomes an object:
    more than ``SET_COUNT_MAX`` in total are refused."""

    element: Type[T]
    count: Type[int] = INT16

    def read(self, buf: memoryview, pos: int) -> tuple[tuple[T, ...], int]:
        count, pos = self.count.read(buf, pos)
        if count < 0:
            raise ProtocolError(f"array of {counted(count, 'topic')} at {pos}; {CHECK_PEER}")
        topics, left = [], SET_COUNT_MAX
        for _ in range(count):
            topic, pos = self.element.read(buf, pos)
            left -= topic.set_count
            if left < 0:
                raise ProtocolError(
                    f"more than {SET_COUNT_MAX} partitions before {pos}: at most {SET_COUNT_MAX} are read; "
                    f"{CHECK_PEER}"
                )
            topics.append(topic)
        return tuple(topics), pos


#: ``required_acks``: the broker does not answer.
ACKS_NONE: Final = 0
#: ``required_acks``: the broker has the messages.
ACKS_BROKER: Final = 1
#: ``replica_id`` of a client that is not a replica.
NO_REPLICA: Final = -1
#: Offset of a set that was not appended.
NO_OFFSET: Final = -1
#: Bytes of messages in one FetchResponse: the size of one fetch of a read from 0.7.
FETCH_BYTES_MAX: Final = 4 << 20

_STRING: Final = String(errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    """Header of a ProduceRequest."""

    api_key: int = wire(INT16)
    api_version: int = wire(INT16)
    correlation_id: int = wire(INT32)
    client_id: str | None = wire(_STRING, null_before="")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequestHeader:
    """Header of a FetchRequest: the same fields in another order."""

    api_key: int = wire(INT16)
    correlation_id: int = wire(INT32)
    api_version: int = wire(INT16)
    client_id: str | None = wire(_STRING, null_before="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHeader:
    """Header of a response; the error that follows it is a field of the response here."""

    correlation_id: int = wire(INT32)
    api_version: int = wire(INT16)


@dataclass(frozen=True, slots=True)
class PartitionData:
    """Messages of one partition."""

    partition: int = wire(INT32)
    messages: Buffer = wire(BYTES, shown=False)


@dataclass(frozen=True, slots=True)
class TopicData:
    """Messages of partitions of one topic."""

    topic: str = wire(_STRING)
    partition_data: tuple[PartitionData, ...] = wire(Array(Struct(PartitionData), count=INT16))

    @property
    def set_count(self) -> int:
        """Number of message sets of this topic."""
        return len(self.partition_data)


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """Append message sets to logs. The broker does not answer if ``required_acks`` is 0."""

    required_acks: int = wire(INT8)
    ack_timeout_ms: int = wire(INT32)
    data: tuple[TopicData, ...] = wire(TopicArray(Struct(TopicData)))

    @property
    def set_count(self) -> int:
        """Number of message sets in the request."""
        return sum(topic.set_count for topic in self.data)


@dataclass(frozen=True, slots=True)
class ProduceResponse:
    """Outcome for each message set, in the order of the request."""

    error_code: int = wire(INT16)
    errors: tuple[int, ...] = wire(Array(INT16, count=INT16))
    offsets: tuple[int, ...] = wire(Array(INT64, count=INT16))


@dataclass(frozen=True, slots=True)
class OffsetData:
    """Partitions of one topic, and where to read each of them."""

    topic: str = wire(_STRING)
    partitions: tuple[int, ...] = wire(Array(INT32, count=INT16))
    offsets: tuple[int, ...] = wire(Array(INT64, count=INT16))

    @property
    def set_count(self) -> int:
        """Number of message sets that are requested of this topic."""
        return len(self.partitions)


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Raw bytes of logs, once there are ``min_bytes`` of them in all, or after ``max_wait_ms``."""

    replica_id: int = wire(INT32)
    max_wait_ms: int = wire(INT32)
    min_bytes: int = wire(INT32)
    topic_offsets: tuple[OffsetData, ...] = wire(TopicArray(Struct(OffsetData)))

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """Topic and partition of each requested set, in order."""
        return [(topic.topic, partition) for topic in self.topic_offsets for partition in topic.partitions]


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """The bytes of each partition, in the order of the request; with an error only the faulty partition."""

    error_code: int = wire(INT16)
    data: tuple[TopicData, ...] = wire(TopicArray(Struct(TopicData)))

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """Topic and partition of each returned set, in order."""
        return [(topic.topic, part.partition) for topic in self.data for part in topic.partition_data]


def _produce_response_bytes_max(request: ProduceRequest) -> int:
    return _HEADER_BYTES + 2 * INT16.size + request.set_count * (INT16.size + INT64.size)


def _fetch_response_bytes_max(request: FetchRequest) -> int:
    names = sum(2 * INT16.size + len(topic.topic.encode()) for topic in request.topic_offsets)
    entries = len(request.partitions) * 2 * INT32.size
    return _HEADER_BYTES + INT16.size + names + entries + FETCH_BYTES_MAX


def _produce_faults(request: ProduceRequest, response: ProduceResponse, _version: int) -> Faults:
    for what, result in (("errors", response.errors), ("offsets", response.offsets)):
        if len(result) != request.set_count:
            yield f"it has {len(result)} {what} of {request.set_count} message sets"
    for error_code, offset in zip(response.errors, response.offsets, strict=False):
        if is_appended(error_code):
            yield from below(0, "offset", offset, "a message set without an error")
            if response.error_code:
                yield f"it has error {response.error_code} and a message set without one"
        elif offset != NO_OFFSET:
            yield f"it gives a message set error {error_code} and offset {offset}"


def _fetch_faults(request: FetchRequest, response: FetchResponse, _version: int) -> Faults:
    asked, came = request.partitions, response.partitions
    if response.error_code == ErrorCode.NONE:
        yield from unlike(asked, came)
        if asked != came:
            yield "its partitions are in another order than the request's"
        return
    if len(came) > 1:
        yield f"its error {response.error_code} is about {len(came)} partitions"
    for key in came:
        if key not in asked:
            yield f"its error {response.error_code} is about {show_key(key)}, which was not requested"
    if any(len(part.messages) for topic in response.data for part in topic.partition_data):
        yield f"it has error {response.error_code} and messages"


#: Correlation id, version and error of a response.
_HEADER_BYTES: Final = INT32.size + 2 * INT16.size

PRODUCE: Final = Api(
    "Produce",
    700,
    ProduceRequest,
    ProduceResponse,
    _produce_response_bytes_max,
    faults=_produce_faults,
    is_answered=lambda request: request.required_acks != ACKS_NONE,
)
FETCH: Final = Api("Fetch", 701, FetchRequest, FetchResponse, _fetch_response_bytes_max, faults=_fetch_faults)

_REQUEST_HEADERS: Final = {PRODUCE.key: RequestHeader, FETCH.key: FetchRequestHeader}


def _headers(api: Api, version: int) -> Headers:
    return Headers(codec(_REQUEST_HEADERS[api.key], version, False), codec(ResponseHeader, version, False))


DIALECT: Final = Dialect(
    Generation.V07, correlates=True, negotiates=False, apis=ListedApis((PRODUCE, FETCH)), headers=_headers
)
