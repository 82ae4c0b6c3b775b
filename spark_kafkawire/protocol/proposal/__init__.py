"""The New Wire Format Proposal of 2012, as it was written: one more form of what 0.7 brokers do.

Both requests name a topic once for all of its partitions, hold a correlation id and the client's name, and
are answered: a produce with an error and an offset for each message set, a fetch when there is enough to
read. Message sets, and offsets that are byte positions, are 0.7's. Kafka 0.8 came with another format.

The document leaves open, or says twice differently, what is decided here:

======================  ======================================================================================
ids of requests         The document has none. 700 and 701: 0.7 has 0 to 4, and later Kafka counts on from 5,
                        so neither takes such a request for something else; both close on ids they do not
                        know. So the first two bytes of a request tell 0.7 and the proposal apart on one port.
order of header fields  The table of common fields has the version before the correlation id, FetchRequest
                        itself behind it. It is written so in each request's own record, which says more.
offsets of a fetch      Written as int32. They are int64 here: so are the responses', and logs exceed 2 GiB.
size of a fetch         The document has none, 0.7 one for each partition. A response holds up to
                        ``FETCH_BYTES_MAX`` bytes of messages, which its partitions share: who receives it
                        must know before how long it may be. As in 0.7 a set may be cut anywhere.
message_set             "The existing format", of no said length: an int32 before it, as in 0.7's PRODUCE.
errors of a fetch       Only the request as a whole has one. Where a partition is at fault the response holds
                        that partition alone, without bytes; where none is, it holds none.
errors of a produce     An error of the request, and a list of one for each set, "or all -1 if none": so -1
                        is no error in the list, while 0 is none of a request, as in 0.7. Sets without one are
                        appended whatever becomes of others.
numbers of errors       See ``error_codes``.
offset of a produce     The first byte of the set in its log, -1 for a set that was not appended. The message
                        at an offset that was told can be fetched: who acknowledges has flushed.
required_acks           0 is "the current async behavior": nothing is answered. 1 is the broker itself. More
                        than it has replicas, or less than 0, is an error before anything is appended: to
                        wait for ``ack_timeout`` in vain would help nobody.
max_wait, min_bytes     ``min_size`` in the table above them. Errors do not wait; a broker may wait less than
                        it is asked to.
order of responses      That of the requests of a connection. Correlation ids would allow any; a client that
                        wants to go on beside a long poll opens another connection.
client_id               "Optional", and a string cannot be null there: an empty one is none.
random partition        0.7 draws one for -1. Here it is refused: the response could not say which.
lists of a fetch        Partitions and offsets are of one length, else the request is none.
======================  ======================================================================================

``[]`` is an int16 count and the elements, a string an int16 length and UTF-8. A request has 32,767 message
sets at most (``SET_COUNT_MAX``), of however many topics, for a ProduceResponse lists them all.

OFFSETS stays what it is in 0.7. Source: "New Wire Format Proposal", wiki of Apache Kafka, 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...model import Generation
from ..api import Api
from ..dialect import Dialect, Headers, ListedApis
from ..primitives import BYTES, INT8, INT16, INT32, INT64, Array, Buffer, String
from ..replies import Faults, below, named, unlike
from ..schema import Struct, codec, wire
from .error_codes import ErrorCode, is_appended
from .primitives import TopicArray

#: ``required_acks``: the broker does not answer.
ACKS_NONE: Final = 0
#: ``required_acks``: the broker has the messages.
ACKS_BROKER: Final = 1
#: ``replica_id`` of who is none.
NO_REPLICA: Final = -1
#: Offset of a set that was not appended.
NO_OFFSET: Final = -1
#: Bytes of messages in one FetchResponse: as many as a read takes from 0.7 at once.
FETCH_BYTES_MAX: Final = 4 << 20

_STRING: Final = String(errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHeader:
    """What comes before a ProduceRequest."""

    api_key: int = wire(INT16)
    api_version: int = wire(INT16)
    correlation_id: int = wire(INT32)
    client_id: str | None = wire(_STRING, null_before="")


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequestHeader:
    """What comes before a FetchRequest: the same in another order."""

    api_key: int = wire(INT16)
    correlation_id: int = wire(INT32)
    api_version: int = wire(INT16)
    client_id: str | None = wire(_STRING, null_before="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyHeader:
    """What comes before a response; the error behind it is a part of the response here."""

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
        """How many message sets it holds."""
        return len(self.partition_data)


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """Append message sets to logs. Not answered where ``required_acks`` is 0."""

    required_acks: int = wire(INT8)
    ack_timeout_ms: int = wire(INT32)
    data: tuple[TopicData, ...] = wire(TopicArray(Struct(TopicData)))

    @property
    def set_count(self) -> int:
        """How many message sets it holds."""
        return sum(topic.set_count for topic in self.data)


@dataclass(frozen=True, slots=True)
class ProduceReply:
    """What became of each message set, in the order of the request."""

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
        """How many message sets it asks for."""
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
        """Topic and partition of all that is asked for, in order."""
        return [(topic.topic, partition) for topic in self.topic_offsets for partition in topic.partitions]


@dataclass(frozen=True, slots=True)
class FetchReply:
    """The bytes of each partition, in the order of the request; with an error the one that it is about."""

    error_code: int = wire(INT16)
    data: tuple[TopicData, ...] = wire(TopicArray(Struct(TopicData)))

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """Topic and partition of all that came, in order."""
        return [(topic.topic, part.partition) for topic in self.data for part in topic.partition_data]


def _produce_reply_bytes_max(request: ProduceRequest) -> int:
    return _HEADER_BYTES + 2 * INT16.size + request.set_count * (INT16.size + INT64.size)


def _fetch_reply_bytes_max(request: FetchRequest) -> int:
    names = sum(2 * INT16.size + len(topic.topic.encode()) for topic in request.topic_offsets)
    entries = len(request.partitions) * 2 * INT32.size
    return _HEADER_BYTES + INT16.size + names + entries + FETCH_BYTES_MAX


def _produce_faults(request: ProduceRequest, reply: ProduceReply, _version: int) -> Faults:
    for what, found in (("errors", reply.errors), ("offsets", reply.offsets)):
        if len(found) != request.set_count:
            yield f"it has {len(found)} {what} for {request.set_count} message sets"
    for error_code, offset in zip(reply.errors, reply.offsets, strict=False):
        if is_appended(error_code):
            yield from below(0, "offset", offset, "a message set without an error")
            if reply.error_code:
                yield f"it has error {reply.error_code} and a message set without one"
        elif offset != NO_OFFSET:
            yield f"it gives a message set error {error_code} and offset {offset}"


def _fetch_faults(request: FetchRequest, reply: FetchReply, _version: int) -> Faults:
    asked, came = request.partitions, reply.partitions
    if reply.error_code == ErrorCode.NONE:
        yield from unlike(asked, came)
        if asked != came:
            yield "its partitions are in another order than the request's"
        return
    if len(came) > 1:
        yield f"its error {reply.error_code} is about {len(came)} partitions"
    for key in came:
        if key not in asked:
            yield f"its error {reply.error_code} is about {named(key)}, which was not asked for"
    if any(len(part.messages) for topic in reply.data for part in topic.partition_data):
        yield f"it has error {reply.error_code} and messages"


#: Correlation id, version and error of a response.
_HEADER_BYTES: Final = INT32.size + 2 * INT16.size

PRODUCE: Final = Api(
    "Produce",
    700,
    ProduceRequest,
    ProduceReply,
    _produce_reply_bytes_max,
    faults=_produce_faults,
    is_answered=lambda request: request.required_acks != ACKS_NONE,
)
FETCH: Final = Api("Fetch", 701, FetchRequest, FetchReply, _fetch_reply_bytes_max, faults=_fetch_faults)

_REQUEST_HEADERS: Final = {PRODUCE.key: RequestHeader, FETCH.key: FetchRequestHeader}


def _headers(api: Api, version: int) -> Headers:
    return Headers(codec(_REQUEST_HEADERS[api.key], version, False), codec(ReplyHeader, version, False))


DIALECT: Final = Dialect(
    Generation.V07, correlates=True, negotiates=False, apis=ListedApis((PRODUCE, FETCH)), headers=_headers
)
