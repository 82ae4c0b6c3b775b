"""Sender of a write task to Kafka 0.7: it sends values with one connection to each broker that gets any.

Rows are checked before any is sent: nulls, and sizes that brokers drop (``check_rows``).

A 0.7 broker does not respond to a produce request. So OFFSETS requests or reading back (``acks``) prove that
the rows arrived, and rows that were sent on a failed connection are never sent again: they may be stored.

``acks=verify`` reads back the rows of a task and compares them (``SetMatcher``, without I/O, and
``read_back``). A broker appends each message set unchanged, so the set is in the log in one piece. Sets of
one connection are in the order in which they were sent, with messages of other producers between them. Only
the size of each set, the header of its first message and a digest are kept.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafkawire.errors import (
    CorruptDataError,
    DeliveryError,
    KafkaWireError,
    ProtocolError,
    RowError,
    TransportError,
)
from spark_kafkawire.model import Broker, TopicPartition, WireFormat
from spark_kafkawire.net.client import PIPELINE_DEPTH, Client
from spark_kafkawire.net.retry import call_with_retries
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.primitives import Buffer, Buffers
from spark_kafkawire.protocol.proposal import ACKS_NONE, PartitionData, TopicData, is_appended
from spark_kafkawire.protocol.proposal import ProduceRequest as ProposalProduceRequest
from spark_kafkawire.protocol.proposal import broker_error as proposal_error
from spark_kafkawire.protocol.v07 import (
    LATEST_TIME,
    REQUEST_BYTES_MAX,
    FetchRequest,
    MultiProduceRequest,
    OffsetsRequest,
    ProduceRequest,
    broker_error,
)
from spark_kafkawire.records.message_set.encoding import EncodedSet, encode_sets
from spark_kafkawire.records.message_set.index import message_size
from spark_kafkawire.records.rows import Records

from ..rows import Rows, refuse_nulls
from ..sender import PartitionReceipt, Sender

#: Largest message set that fits a request with the longest topic name, bytes.
SET_BYTES_MAX: Final = REQUEST_BYTES_MAX - (1 << 16)


def check_rows(rows: Rows, options: WriteOptions) -> None:
    """Refuse null values, null topics, and values that the brokers would drop without an error. Raises
    ``RowError`` (fatal) with the column and the row, counted from 0 in the batch."""
    values = rows.records.values
    refuse_nulls("value", values, "a message has no null; filter such rows out or fill them")
    rows.refuse_null_topics()
    size_max = min(options.message_size_max, SET_BYTES_MAX)
    # Compression makes a value larger by a sixth and its headers at worst (snappy): smaller values need no
    # trial.
    safe_size = size_max if options.compression == "none" else (size_max - 80) * 5 // 6
    sizes = pc.binary_length(values).to_numpy(zero_copy_only=False)
    for row in np.flatnonzero(sizes > safe_size).tolist():
        if options.compression == "none" or not _fits(values.slice(row, 1), options, size_max):
            how = "" if options.compression == "none" else f", also as {options.compression},"
            raise RowError(
                f"row {row}: its value of {sizes[row]} bytes is{how} larger than max.message.size="
                f"{size_max}, and brokers drop such a message silently; shorten it, or set the option "
                "to what the brokers have"
            )


def _fits(value: pa.Array, options: WriteOptions, size_max: int) -> bool:
    try:
        sets = encode_sets(
            value,
            compression=options.compression,
            level=options.compression_level,
            set_bytes_max=SET_BYTES_MAX,
            message_size_max=size_max,
        )
        deque(sets, maxlen=0)
    except RowError:
        return False
    return True


#: Size of the header of a message as this package writes it (magic 1): its CRC makes it nearly unique.
HEADER_BYTES: Final = 10
#: Bytes of one FETCH; a larger set takes several.
FETCH_BYTES: Final = 1 << 20
#: Interval between looks at a partition whose last messages are not visible yet, seconds.
POLL_INTERVAL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class SentSet:
    """Fingerprint of one message set: ``size`` bytes with ``message_count`` messages."""

    size: int
    message_count: int
    header: bytes
    digest: bytes

    @classmethod
    def of(cls, encoded: EncodedSet) -> SentSet:
        """Compute the fingerprint of a set that is about to be sent."""
        header = bytes(memoryview(encoded.data)[:HEADER_BYTES])
        return cls(len(encoded.data), encoded.count, header, _digest(encoded.data))


class SetMatcher:
    """Finds sent sets in the bytes of a partition from ``offset`` on, which is a message boundary.

    ``offset`` is the position up to which the log was searched. The buffer holds less than the largest set
    and one chunk, because messages of other producers are skipped. ``found`` spans the sets found so far,
    None before the first. ``missing`` are sets that cannot follow any more, because a later one was found.
    """

    def __init__(self, sent: Sequence[SentSet], offset: int) -> None:
        self.offset = offset
        self.found: tuple[int, int] | None = None
        self.missing: list[SentSet] = []
        self._sent = sent
        self._next = 0
        self._places: defaultdict[bytes, deque[int]] = defaultdict(deque)
        for index, sent_set in enumerate(sent):
            self._places[sent_set.header].append(index)
        self._buffer = bytearray()

    @property
    def done(self) -> bool:
        """True if every set was found or is missing."""
        return self._next == len(self._sent)

    @property
    def next_offset(self) -> int:
        """Offset at which the next ``feed`` begins: after the last bytes, or after a message of another
        producer that extends beyond them."""
        return self.offset + len(self._buffer)

    def feed(self, chunk: Buffer) -> None:
        """Search the bytes of the log from ``next_offset`` on. Raises ``CorruptDataError`` if they do not
        begin with a message."""
        self._buffer += chunk
        self._search(ended=False)

    def finish(self) -> None:
        """End the log here: sets that were not found are missing."""
        self._search(ended=True)
        self.missing += self._sent[self._next :]
        self._next = len(self._sent)

    def _search(self, *, ended: bool) -> None:
        pos = 0
        with memoryview(self._buffer) as log:
            while not self.done and (size := self._step(log[pos:], pos, ended)) is not None:
                pos += size
        del self._buffer[:pos]
        self.offset += pos

    def _step(self, log: memoryview, pos: int, ended: bool) -> int | None:
        """Size of the set or of the other producer's message at the start of ``partition``; None if more
        bytes are needed."""
        candidates = self._places.get(bytes(log[:HEADER_BYTES]), deque())
        while candidates and candidates[0] < self._next:
            candidates.popleft()
        for index in candidates:
            sent_set = self._sent[index]
            if len(log) < sent_set.size and not ended:
                return None
            if _digest(log[: sent_set.size]) == sent_set.digest:
                self.missing += self._sent[self._next : index]
                self._next = index + 1
                start_offset = self.offset + pos
                self.found = self.found[0] if self.found else start_offset, start_offset + sent_set.size
                return sent_set.size
        return message_size(log) if len(log) >= HEADER_BYTES else None


def read_back(
    client: Client,
    partition: TopicPartition,
    sent: Sequence[SentSet],
    visible: tuple[int, int],
    timeout_s: float,
) -> tuple[int, int]:
    """Find all sets that were sent, and return the span of the log that holds them.

    ``visible`` is the end of the log before the first produce request and after the last one, as OFFSETS
    reported them. Messages that are not flushed come after it: ``timeout_s`` bounds the wait for them after
    the last set that was found.

    Raises ``DeliveryError`` (fatal) for sets that are not in the log, ``TransportError``.
    """
    start_offset, stop_offset = visible
    matcher = SetMatcher(sent, start_offset)
    deadline = Deadline.after(timeout_s)
    while not matcher.done:
        result = matcher.found
        chunk = _fetch(client, partition, matcher.next_offset)
        try:
            matcher.feed(chunk)
        except CorruptDataError as error:
            raise DeliveryError(
                f"{partition} at offset {matcher.offset}: written messages cannot be looked for, compare the "
                f"topic with the rows: {error}"
            ) from error
        if matcher.found != result or (len(chunk) and matcher.offset < stop_offset):
            deadline = Deadline.after(timeout_s)
        elif time.monotonic() > deadline.at_s:
            matcher.finish()
        elif not len(chunk):
            time.sleep(POLL_INTERVAL_S)
    if matcher.missing:
        lost, all_messages = (sum(item.message_count for item in sets) for sets in (matcher.missing, sent))
        raise DeliveryError(
            f"{partition}: {lost} of {all_messages} written messages ({len(matcher.missing)} of {len(sent)} "
            f"sets) are not in the log from offset {start_offset} to {matcher.next_offset}, {timeout_s:g} s "
            "(requestTimeout) after the last that are: the broker dropped them silently (lower the option "
            "max.message.size to its own), or has not flushed them (log.flush.interval: raise "
            "requestTimeout); write them again"
        )
    assert matcher.found is not None
    return matcher.found


def _fetch(client: Client, partition: TopicPartition, offset: int) -> Buffer:
    response = client.request(FetchRequest(partition.topic, partition.partition, offset, FETCH_BYTES))
    if response.error_code:
        location = f"{partition} at offset {offset}: written messages cannot be read back"
        raise DeliveryError(str(broker_error(response.error_code, location)))
    chunk: Buffer = response.message_set
    return chunk


def _digest(data: Buffer) -> bytes:
    # Twice as fast as blake2b where the CPU has instructions for it.
    return hashlib.sha256(data).digest()


#: Message sets in one MULTIPRODUCE: their count is an int16.
_SETS_PER_REQUEST: Final = 32_767
#: Bytes of a request before its first entry, and of an entry without topic and message set.
_REQUEST_HEADER_BYTES: Final = 8
_ENTRY_HEADER_BYTES: Final = 10
#: Bytes that a plain message has besides its value.
_MESSAGE_HEADER_BYTES: Final = 10
#: Partitions that an error lists, at most.
_LISTED_MAX: Final = 8

#: Message set, and its partition.
PartitionSet = tuple[TopicPartition, EncodedSet]


@dataclass(slots=True)
class _Written:
    """Messages sent to one partition. ``ends`` are the ends of the log as OFFSETS reported them."""

    message_count: int = 0
    size: int = 0
    ends: list[int] = field(default_factory=list)
    sets: list[SentSet] = field(default_factory=list)


class BrokerSender:
    """Buffers values and sends them as message sets. Connects when it first has to send. Subclasses may use
    another format of requests, and another proof of arrival."""

    def __init__(self, broker: Broker, options: WriteOptions) -> None:
        self._broker = broker
        self._options = options
        self._request_bytes = min(options.batch_bytes, SET_BYTES_MAX)
        self._buffered: dict[TopicPartition, list[pa.Array]] = {}
        self._buffered_bytes = 0
        self._written: dict[TopicPartition, _Written] = {}
        self._buffers = Buffers()
        self._client: Client | None = None

    def add(self, partition: TopicPartition, values: pa.Array) -> None:
        """Buffer values; they are sent once ``batchBytes`` are buffered. Raises as ``flush``."""
        if not len(values):
            return
        self._buffered.setdefault(partition, []).append(values)
        self._buffered_bytes += values.nbytes + _MESSAGE_HEADER_BYTES * len(values)
        if self._buffered_bytes >= self._request_bytes:
            self.flush()

    def flush(self) -> None:
        """Send the buffer.

        Raises ``RowError`` for values that cannot be encoded (``check_rows`` finds them before anything is
        sent), ``ConnectFailed`` when the retries are used up, ``DeliveryError`` (fatal).
        """
        buffered, self._buffered, self._buffered_bytes = self._buffered, {}, 0
        if not buffered:
            return
        client = self._connected()
        first_time = dict.fromkeys(tp for tp in buffered if tp not in self._written)
        self._written |= {tp: _Written() for tp in first_time}
        with self._delivery_errors():
            self._send_offsets_requests(client, first_time)
            for sets in self._requests(self._encode(buffered)):
                self._send(client, sets)

    def request_end_offsets(self) -> None:
        """Send an OFFSETS request for each partition written to. The responses, which ``receipts`` receives,
        prove that the broker has processed all earlier requests, because it serves requests in order."""
        if self._client is not None:
            with self._delivery_errors():
                self._send_offsets_requests(self._client, self._written)

    def receipts(self) -> list[PartitionReceipt]:
        """Return receipts, proven as ``acks`` asks for. Raises ``DeliveryError`` (fatal)."""
        if self._client is None:
            return []
        with self._delivery_errors():
            while self._client.in_flight:
                self._receive(self._client)
            spans = {tp: self._span(self._client, tp) for tp in self._written}
        return [
            PartitionReceipt(tp, written.message_count, written.size, *spans[tp])
            for tp, written in self._written.items()
        ]

    def close(self) -> None:
        """Close the connection; never fails.

        After ``receipts`` no response is left unread, so the kernel still delivers the requests. With unread
        responses, after an error, it may reset the connection and drop the rest.
        """
        if self._client is not None:
            self._client.close()

    def _encode(self, buffered: dict[TopicPartition, list[pa.Array]]) -> Iterator[PartitionSet]:
        """Encode message sets one by one as they are sent, in the same memory."""
        options = self._options
        for partition, values in buffered.items():
            sets = encode_sets(
                values[0] if len(values) == 1 else pa.concat_arrays(values),
                compression=options.compression,
                level=options.compression_level,
                set_bytes_max=self._request_bytes,
                message_size_max=min(options.message_size_max, SET_BYTES_MAX),
                buffers=self._buffers,
            )
            for encoded in sets:
                self._count(partition, encoded)
                yield partition, encoded

    def _connected(self) -> Client:
        # A retry duplicates nothing here: nothing was sent yet.
        if self._client is None:
            net = self._options.net
            settings = replace(net.connection, wire_format=self._options.wire_format)
            self._client = call_with_retries(lambda: Client.connect(self._broker, settings), net.retry)
        return self._client

    def _count(self, partition: TopicPartition, encoded: EncodedSet) -> None:
        written = self._written[partition]
        written.message_count += encoded.count
        written.size += len(encoded.data)
        if self._options.acks == "verify":
            written.sets.append(SentSet.of(encoded))

    def _requests(self, sets: Iterable[PartitionSet]) -> Iterator[list[PartitionSet]]:
        """Group the sets, in order, into as few requests as ``batchBytes`` allows."""
        entries: list[PartitionSet] = []
        size = _REQUEST_HEADER_BYTES
        for partition, encoded in sets:
            entry_size = _ENTRY_HEADER_BYTES + len(partition.topic.encode()) + len(encoded.data)
            if entries and (size + entry_size > self._request_bytes or len(entries) == _SETS_PER_REQUEST):
                yield entries
                entries, size = [], _REQUEST_HEADER_BYTES
            entries.append((partition, encoded))
            size += entry_size
        yield entries

    def _send(self, client: Client, sets: list[PartitionSet]) -> None:
        produces = tuple(ProduceRequest(tp.topic, tp.partition, encoded.data) for tp, encoded in sets)
        client.send(produces[0] if len(produces) == 1 else MultiProduceRequest(produces))

    def _send_offsets_requests(self, client: Client, partitions: Iterable[TopicPartition]) -> None:
        """Request the ends of partitions, without waiting for the responses. With ``acks=0`` nothing is
        requested."""
        if self._options.acks == "0":
            return
        for tp in partitions:
            # A broker whose responses are not received stops reading requests at some point.
            if client.in_flight >= PIPELINE_DEPTH:
                self._receive(client)
            client.send(OffsetsRequest(tp.topic, tp.partition, LATEST_TIME, 1))

    def _receive(self, client: Client) -> None:
        response = client.receive()
        partition = TopicPartition(response.request.topic, response.request.partition, self._broker.id)
        self._written[partition].ends.append(response.body.offsets[0])

    def _span(self, client: Client, partition: TopicPartition) -> tuple[int | None, int | None]:
        written = self._written[partition]
        if not written.ends:
            return None, None
        start_offset, stop_offset = written.ends
        if self._options.acks != "verify":
            return start_offset, stop_offset
        visible, timeout_s = (start_offset, stop_offset), self._options.net.request_timeout_s
        return read_back(client, partition, written.sets, visible, timeout_s)

    @contextmanager
    def _delivery_errors(self) -> Iterator[None]:
        """Turn a failure of the connection into an error that says what may be missing."""
        try:
            yield
        except (TransportError, ProtocolError) as error:
            raise DeliveryError(f"{error}; {unproven(self._unproven())}") from error

    def _unproven(self) -> Mapping[TopicPartition, int]:
        """Count the messages of each partition that were sent without a proof of arrival."""
        return {tp: written.message_count for tp, written in self._written.items()}


def unproven(counts: Mapping[TopicPartition, int]) -> str:
    """Describe, for an error, messages that were sent without a proof of arrival."""
    partitions = list(counts)
    listed = ", ".join(map(str, partitions[:_LISTED_MAX])) + (", …" if len(partitions) > _LISTED_MAX else "")
    return (
        f"not proven: {sum(counts.values())} message(s) that this task sent there (to {listed}), each may "
        "be in its partition or missing, and is not sent again: compare the topic with the rows"
    )


#: Requests in flight, at most: each keeps its messages in memory until its response.
_IN_FLIGHT_MAX: Final = 4
_INT32_MAX: Final = (1 << 31) - 1


class AcknowledgedSender(BrokerSender):
    """Sends message sets in the New Wire Format Proposal of 2012, and receives the acknowledgement of each,
    except with ``acks=0``.

    A response says for each set whether and where the broker appended it. So no OFFSETS requests are sent
    before and after it, and only requests without a response have an unknown outcome. They are not sent
    again: the broker may have appended their messages.
    """

    def __init__(self, broker: Broker, options: WriteOptions) -> None:
        super().__init__(broker, options)
        self._acks = int(options.acks)
        self._ack_timeout_ms = min(int(options.net.request_timeout_s * 1000), _INT32_MAX)
        #: Sets of each request without a response: partition, count of messages, and bytes.
        self._waiting: deque[list[tuple[TopicPartition, int, int]]] = deque()

    def _send_offsets_requests(self, client: Client, partitions: Iterable[TopicPartition]) -> None:
        """Send nothing: responses report the offsets of sets."""

    def _send(self, client: Client, sets: list[PartitionSet]) -> None:
        while client.in_flight >= _IN_FLIGHT_MAX:
            self._receive(client)
        by_topic: dict[str, list[PartitionSet]] = {}
        for tp, encoded in sets:
            by_topic.setdefault(tp.topic, []).append((tp, encoded))
        if self._acks != ACKS_NONE:
            grouped = (item for of_topic in by_topic.values() for item in of_topic)
            self._waiting.append([(tp, item.count, len(item.data)) for tp, item in grouped])
        data = tuple(
            TopicData(topic, tuple(PartitionData(tp.partition, encoded.data) for tp, encoded in of_topic))
            for topic, of_topic in by_topic.items()
        )
        client.send(ProposalProduceRequest(self._acks, self._ack_timeout_ms, data))

    def _receive(self, client: Client) -> None:
        response = client.receive().body
        refused: list[tuple[KafkaWireError, int]] = []
        for (tp, count, size), code, offset in zip(
            self._waiting.popleft(), response.errors, response.offsets, strict=True
        ):
            if not is_appended(code):
                refused.append((proposal_error(code, f"{tp} on {self._broker}"), count))
                continue
            ends = self._written[tp].ends
            ends[:] = [ends[0] if ends else offset, offset + size]
        if refused:
            count = sum(count for _, count in refused)
            more = f"; {unproven(waiting)}" if (waiting := self._unproven()) else ""
            raise DeliveryError(
                f"{refused[0][0]}; refused: {count} message(s) that this task sent there, write them again"
                f"{more}"
            )

    def _unproven(self) -> Mapping[TopicPartition, int]:
        counts: Counter[TopicPartition] = Counter()
        for request in self._waiting:
            for tp, count, _ in request:
                counts[tp] += count
        return counts


#: Senders for one broker, by wire format.
_SENDERS: Final[Mapping[WireFormat, type[BrokerSender]]] = {
    WireFormat.V07: BrokerSender,
    WireFormat.PROPOSAL: AcknowledgedSender,
}


class V07Sender(Sender):
    """Sender of one task. Brokers of 0.7 do not respond, so it knows nothing of their queues.

    Memory: up to ``batchBytes`` and one batch of rows for each broker, twice while it is sent.
    """

    def __init__(self, brokers: Iterable[Broker], options: WriteOptions) -> None:
        sender = _SENDERS[options.wire_format or options.discovery.generation.wire_format]
        self._senders = {broker.id: sender(broker, options) for broker in brokers}

    def add(self, partition: TopicPartition, records: Records) -> None:
        """Buffer the values (binary, no null) of a partition's records, and send what fills a request.
        Nothing is sent again."""
        assert partition.broker is not None
        self._senders[partition.broker].add(partition, records.values)

    def finish(self) -> tuple[PartitionReceipt, ...]:
        senders = self._senders.values()
        for sender in senders:
            sender.flush()
        # All brokers get their requests before the wait for the first of them.
        for sender in senders:
            sender.request_end_offsets()
        return tuple(receipt for sender in senders for receipt in sender.receipts())

    def close(self) -> None:
        for sender in self._senders.values():
            sender.close()
