"""Sender of one task to one 0.7 broker: buffers, one connection, and the proof that all rows arrived.

A 0.7 broker does not respond to a produce request. So OFFSETS requests or reading back (``acks``) prove that
the rows arrived, and rows that were sent on a failed connection are never sent again: they may be stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from spark_kafkawire.clients.writing.sender import PartitionReceipt
from spark_kafkawire.errors import DeliveryError, ProtocolError, TransportError
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.net.client import PIPELINE_DEPTH, Client
from spark_kafkawire.net.retry import retried
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.buffers import Buffers
from spark_kafkawire.protocol.v07 import LATEST_TIME, MultiProduceRequest, OffsetsRequest, ProduceRequest
from spark_kafkawire.records.message_set.encoding import EncodedSet, encode_sets

from .record_checks import SET_BYTES_MAX
from .verify import SentSet, read_back

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
    """Messages that were sent to one partition so far. ``ends`` are the ends of the log as OFFSETS reported
    them."""

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
            for sets in self._requests(self._encoded(buffered)):
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

    def _encoded(self, buffered: dict[TopicPartition, list[pa.Array]]) -> Iterator[PartitionSet]:
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
            self._client = retried(self._connect, self._options.net.retry)
        return self._client

    def _connect(self) -> Client:
        options = self._options
        settings = replace(options.net.connection, wire_format=options.wire_format)
        return Client.connect(self._broker, settings)

    def _count(self, partition: TopicPartition, encoded: EncodedSet) -> None:
        """Count a set that is about to be sent."""
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
        """Send some sets in one request."""
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
        """Receive one response."""
        response = client.receive()
        partition = TopicPartition(response.request.topic, response.request.partition, self._broker.id)
        self._written[partition].ends.append(response.body.offsets[0])

    def _span(self, client: Client, partition: TopicPartition) -> tuple[int | None, int | None]:
        written = self._written[partition]
        if not written.ends:
            return None, None
        start_offset, stop_offset = written.ends
        if self._options.acks == "verify":
            visible = start_offset, stop_offset
            return read_back(client, partition, written.sets, visible, self._options.net.request_timeout_s)
        return start_offset, stop_offset

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
