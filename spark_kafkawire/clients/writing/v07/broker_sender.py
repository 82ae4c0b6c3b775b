"""All that one task sends to one broker: buffers, one connection, and the proof that it arrived.

What was sent on a connection that failed is never sent again: a 0.7 broker does not answer a
produce request, so nobody knows whether it was stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from ....errors import DeliveryError, ProtocolError, TransportError
from ....model import Broker, TopicPartition
from ....net.client import PIPELINE_DEPTH, Client
from ....net.retry import Attempts
from ....options import WriteOptions
from ....protocol.buffers import Buffers
from ....protocol.v07 import LATEST_TIME, MultiProduceRequest, OffsetsRequest, ProduceRequest
from ....records.message_set.encoding import EncodedSet, encode_sets
from ..sender import LogReceipt
from .rows import SET_BYTES_MAX
from .verify import SentSet, read_back

#: Message sets in one MULTIPRODUCE: their count is an int16.
_SETS_PER_REQUEST: Final = 32_767
#: Bytes of a request before its first entry, and of an entry without topic and message set.
_REQUEST_HEADER_BYTES: Final = 8
_ENTRY_HEADER_BYTES: Final = 10
#: Bytes that a plain message has besides its value.
_MESSAGE_HEADER_BYTES: Final = 10
#: Logs that an error lists.
_LISTED_MAX: Final = 8

#: A message set, and the log that it is for.
SetOfLog = tuple[TopicPartition, EncodedSet]


@dataclass(slots=True)
class _Written:
    """What was sent to one log so far. ``ends`` are the log's ends as OFFSETS told them."""

    message_count: int = 0
    size: int = 0
    ends: list[int] = field(default_factory=list)
    sets: list[SentSet] = field(default_factory=list)


class BrokerSender:
    """Buffers values and sends them as message sets. Connects when it first has to send.

    What is sent in the format of 0.7, and what proves that it arrived, a subclass may do otherwise.
    """

    def __init__(self, broker: Broker, options: WriteOptions) -> None:
        self._broker = broker
        self._options = options
        self._request_bytes = min(options.batch_bytes, SET_BYTES_MAX)
        self._buffered: dict[TopicPartition, list[pa.Array]] = {}
        self._buffered_bytes = 0
        self._written: dict[TopicPartition, _Written] = {}
        self._buffers = Buffers()
        self._client: Client | None = None

    def add(self, log: TopicPartition, values: pa.Array) -> None:
        """Take values to send; they are sent once ``batchBytes`` are buffered. Raises as ``flush``."""
        if not len(values):
            return
        self._buffered.setdefault(log, []).append(values)
        self._buffered_bytes += values.nbytes + _MESSAGE_HEADER_BYTES * len(values)
        if self._buffered_bytes >= self._request_bytes:
            self.flush()

    def flush(self) -> None:
        """Send all that is buffered.

        Raises ``RowError`` for what cannot be encoded (``Rows.check`` finds it before anything is
        sent), ``ConnectFailed`` when the retries are used up, ``DeliveryError`` (fatal).
        """
        buffered, self._buffered, self._buffered_bytes = self._buffered, {}, 0
        if not buffered:
            return
        client = self._connected()
        first_time = dict.fromkeys(log for log in buffered if log not in self._written)
        self._written |= {log: _Written() for log in first_time}
        with self._delivery_errors():
            self._request_ends(client, first_time)
            for sets in self._requests(self._encoded(buffered)):
                self._send(client, sets)

    def request_proof(self) -> None:
        """Ask for the end of every log written to. The answers, which ``receipts`` takes, prove that
        the broker has processed all that was sent before, for it serves requests in order."""
        if self._client is not None:
            with self._delivery_errors():
                self._request_ends(self._client, self._written)

    def receipts(self) -> list[LogReceipt]:
        """What was written, proven as ``acks`` asks for. Raises ``DeliveryError`` (fatal)."""
        if self._client is None:
            return []
        with self._delivery_errors():
            while self._client.in_flight:
                self._receive(self._client)
            spans = {log: self._span(self._client, log) for log in self._written}
        return [
            LogReceipt(log, written.message_count, written.size, *spans[log])
            for log, written in self._written.items()
        ]

    def close(self) -> None:
        """Close the connection; never fails.

        After ``receipts`` no reply is left unread, so the kernel still delivers what was sent;
        with unread replies, after an error, it may reset the connection and drop the rest.
        """
        if self._client is not None:
            self._client.close()

    def _encoded(self, buffered: dict[TopicPartition, list[pa.Array]]) -> Iterator[SetOfLog]:
        """The message sets, made one by one as they are sent, in the same memory."""
        options = self._options
        for log, values in buffered.items():
            sets = encode_sets(
                values[0] if len(values) == 1 else pa.concat_arrays(values),
                compression=options.compression,
                level=options.compression_level,
                set_bytes_max=self._request_bytes,
                message_size_max=min(options.message_size_max, SET_BYTES_MAX),
                buffers=self._buffers,
            )
            for encoded in sets:
                self._count(log, encoded)
                yield log, encoded

    def _connected(self) -> Client:
        # A retry duplicates nothing here: nothing was sent yet.
        if self._client is None:
            self._client = Attempts(self._options.net.retry).run(self._connect)
        return self._client

    def _connect(self) -> Client:
        options = self._options
        settings = replace(options.net.connection, wire_format=options.wire_format)
        return Client.connect(self._broker, settings)

    def _count(self, log: TopicPartition, encoded: EncodedSet) -> None:
        """Count a set that is about to be sent."""
        written = self._written[log]
        written.message_count += encoded.count
        written.size += len(encoded.data)
        if self._options.acks == "verify":
            written.sets.append(SentSet.of(encoded))

    def _requests(self, sets: Iterable[SetOfLog]) -> Iterator[list[SetOfLog]]:
        """The sets, in order, for as few requests as ``batchBytes`` allows."""
        entries: list[SetOfLog] = []
        size = _REQUEST_HEADER_BYTES
        for log, encoded in sets:
            entry_size = _ENTRY_HEADER_BYTES + len(log.topic.encode()) + len(encoded.data)
            if entries and (size + entry_size > self._request_bytes or len(entries) == _SETS_PER_REQUEST):
                yield entries
                entries, size = [], _REQUEST_HEADER_BYTES
            entries.append((log, encoded))
            size += entry_size
        yield entries

    def _send(self, client: Client, sets: list[SetOfLog]) -> None:
        """Send some sets in one request."""
        produces = tuple(ProduceRequest(log.topic, log.partition, encoded.data) for log, encoded in sets)
        client.send(produces[0] if len(produces) == 1 else MultiProduceRequest(produces))

    def _request_ends(self, client: Client, logs: Iterable[TopicPartition]) -> None:
        """Ask where logs end, without waiting for the answers. Nothing is asked with ``acks=0``."""
        if self._options.acks == "0":
            return
        for log in logs:
            # A broker whose replies are not received stops reading requests at some point.
            if client.in_flight >= PIPELINE_DEPTH:
                self._receive(client)
            client.send(OffsetsRequest(log.topic, log.partition, LATEST_TIME, 1))

    def _receive(self, client: Client) -> None:
        """Take one reply."""
        reply = client.receive()
        log = TopicPartition(reply.request.topic, reply.request.partition, self._broker.id)
        self._written[log].ends.append(reply.body.offsets[0])

    def _span(self, client: Client, log: TopicPartition) -> tuple[int | None, int | None]:
        written = self._written[log]
        if not written.ends:
            return None, None
        start_offset, stop_offset = written.ends
        if self._options.acks == "verify":
            visible = start_offset, stop_offset
            return read_back(client, log, written.sets, visible, self._options.net.request_timeout_s)
        return start_offset, stop_offset

    @contextmanager
    def _delivery_errors(self) -> Iterator[None]:
        """Turn a failure of the connection into an error that says what may be missing."""
        try:
            yield
        except (TransportError, ProtocolError) as error:
            raise DeliveryError(f"{error}; {unproven(self._unproven())}") from error

    def _unproven(self) -> Mapping[TopicPartition, int]:
        """How many messages of each log were sent, and may be there or not."""
        return {log: written.message_count for log, written in self._written.items()}


def unproven(counts: Mapping[TopicPartition, int]) -> str:
    """What an error says of messages that were sent, and may be there or not."""
    logs = list(counts)
    listed = ", ".join(map(str, logs[:_LISTED_MAX])) + (", …" if len(logs) > _LISTED_MAX else "")
    return (
        f"not proven: {sum(counts.values())} message(s) that this task sent there (to {listed}), each may "
        "be in its log or missing, and is not sent again"
    )
