"""A range of a log of Kafka 0.8 and later: batches of records, one fetch ahead of what is decoded.

A fetch begins at an offset, and only its reply tells where the next one begins. That is in the
headers of its batches, so the next fetch is sent before any record is decoded.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ....errors import Action, BrokerError, LimitError
from ....model import Leader, OffsetRange
from ....options import FetchOptions
from ....protocol.connection import Reply
from ....protocol.modern.error_codes import ErrorCode, broker_error
from ....protocol.modern.fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    AbortedTransaction,
    FetchPartition,
    FetchPartitionReply,
    FetchReply,
    FetchRequest,
    FetchTopic,
)
from ....protocol.modern.limits import NO_TOPIC_ID
from ....records.columns import Columns
from ....records.limits import DecodeLimits
from ....records.log_index import BatchIndex, index_batches
from ....records.log_kernels import BASE_OFFSET, MAGIC, SIZE
from ....records.record_log import decode_batches
from ....records.spans import DecodeBuffers

#: Bytes of a record before any has come: enough for most, and a fetch brings one batch at least.
FIRST_RECORD_BYTES: Final = 1024
#: A fetch is never smaller unless ``fetchBytes`` is, bytes: smaller ones cost as much time.
FETCH_BYTES_MIN: Final = 64 << 10
#: Answers without records, one after the other, from which on it is asked what explains them. They prove
#: nothing themselves.
EMPTY_COUNT_MIN: Final = 3


class NothingCame(BrokerError):
    """A reply without any new record where records are due. Retriable on the same connection, which
    knows for how long its broker wants to be left alone.

    With ``may_be_compacted`` it is one of several, and by all of them the log ends after the range:
    ``gaps`` tells what to make of that."""

    def __init__(self, message: str, may_be_compacted: bool = False) -> None:
        super().__init__(message, action=Action.BACK_OFF)
        self.may_be_compacted = may_be_compacted


@dataclass(frozen=True, slots=True)
class _Come:
    """Records that have come and are not decoded, from ``start_offset`` on."""

    start_offset: int
    index: BatchIndex
    aborted: Sequence[AbortedTransaction]


class BatchFeed:
    """The contract of ``Feed``, for record offsets."""

    def __init__(self, log_range: OffsetRange, options: FetchOptions, wanted: Container[str]) -> None:
        self.next_offset = log_range.start_offset
        self.bytes_received = 0
        self._log = log_range.log
        self._stop_offset = log_range.stop_offset
        self._options = options
        self._limits = DecodeLimits(decompressed_bytes_max=options.decompressed_bytes_max)
        self._wanted = wanted
        self._buffers = DecodeBuffers()
        self._start_offset = log_range.start_offset
        self._fetch_bytes = 0
        self._fetch_bytes_min = min(FETCH_BYTES_MIN, options.fetch_bytes)
        self._is_asked = False
        self._come: _Come | None = None
        self._empty_count = 0

    @property
    def offset(self) -> int:
        return self.next_offset if self._come is None else self._come.start_offset

    @property
    def done(self) -> bool:
        return self._come is None and self.next_offset >= self._stop_offset

    def requests(self, leader: Leader) -> Iterator[FetchRequest]:
        if not self._is_asked and self.next_offset < self._stop_offset:
            self._is_asked = True
            self._fetch_bytes = self._bytes_to_ask()
            yield self._request(leader)

    def answered(self, reply: Reply) -> None:
        self._is_asked = False
        found = self._partition(reply.body)
        index = index_batches(found.records or b"")
        self.bytes_received += len(index.buf)
        next_offset = index.next_offset
        if index.count and reply.request.isolation_level != self._options.isolation_level:
            self._look_beyond(reply.body, found, index)
        elif next_offset is None and len(index.buf):
            self._grow(index)
        elif next_offset is None or next_offset <= self.next_offset:
            raise self._nothing_new(reply.body, found)
        else:
            self._check_start(found, index)
            self._check_size(int(index.column(SIZE).max()))
            is_committed = self._options.isolation_level == READ_COMMITTED
            aborted = found.aborted_transactions if is_committed else None
            self._come = _Come(self.next_offset, index, aborted or ())
            self.next_offset = next_offset
            self._empty_count = 0

    def columns(self) -> Iterator[Columns]:
        if self._come is None:
            return
        come, self._come = self._come, None
        yield from decode_batches(
            come.index,
            come.start_offset,
            self._stop_offset,
            wanted=self._wanted,
            aborted=come.aborted,
            limits=self._limits,
            buffers=self._buffers,
        )

    def restart(self, offset: int | None = None) -> None:
        self._is_asked = False
        if offset is not None:
            self._come = None
            self.next_offset = offset

    def _bytes_to_ask(self) -> int:
        """What the rest of the range is likely to have: a small range wants no more."""
        come = self.next_offset - self._start_offset
        record_bytes = self.bytes_received / come if come > 0 else FIRST_RECORD_BYTES
        rest = int((self._stop_offset - self.next_offset) * record_bytes * 1.25)
        return max(min(rest, self._options.fetch_bytes), self._fetch_bytes_min)

    def _request(self, leader: Leader) -> FetchRequest:
        isolation_level = self._options.isolation_level
        if self._empty_count == EMPTY_COUNT_MIN - 1:
            # What lies after the range may be of an open transaction, and proves as much.
            isolation_level = READ_UNCOMMITTED
            self._fetch_bytes = self._fetch_bytes_min
        partition = FetchPartition(
            partition=self._log.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=self.next_offset,
            partition_max_bytes=self._fetch_bytes,
        )
        topic_id = leader.topic_id or NO_TOPIC_ID
        return FetchRequest(
            max_wait_ms=self._options.wait_ms,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            isolation_level=isolation_level,
            topics=(FetchTopic(topic=self._log.topic, topic_id=topic_id, partitions=(partition,)),),
            batch_bytes_max=self._options.message_bytes_max,
        )

    def _partition(self, reply: FetchReply) -> FetchPartitionReply:
        """The one partition that was asked for, without error."""
        found = [partition for topic in reply.responses for partition in topic.partitions]
        code = reply.error_code or (found[0].error_code if found else 0)
        if code:
            error = broker_error(code, "Fetch")
            if code == ErrorCode.UNKNOWN_SERVER_ERROR:
                # It passes where a broker could not read its tiered storage; Java's consumer goes on, too.
                error.action = Action.BACK_OFF
            raise error
        if not found and reply.throttle_time_ms:  # so it is answered from 2.0 on (KIP-219)
            throttle_s = reply.throttle_time_ms / 1000
            raise NothingCame(
                f"Fetch: the broker throttles this client, for {throttle_s:g} s more: a quota is used up"
            )
        return found[0]

    def _grow(self, index: BatchIndex) -> None:
        """Nothing but the beginning of a batch came, as brokers before Fetch version 3 cut it."""
        size = max(index.cut_size or 0, self._fetch_bytes + 1)
        self._check_size(size)
        self._fetch_bytes_min = min(max(size, 2 * self._fetch_bytes), self._options.message_bytes_max)

    def _check_size(self, size: int) -> None:
        if size > self._options.message_bytes_max:
            raise LimitError(
                f"a batch at offset {self.next_offset} or soon after it has {size} bytes, more than "
                f"maxMessageBytes={self._options.message_bytes_max}"
            )

    def _look_beyond(self, reply: FetchReply, found: FetchPartitionReply, index: BatchIndex) -> None:
        """Take what came without regard to transactions as a proof, and for nothing else."""
        self._empty_count = 0
        self._check_start(found, index)
        # The offset of a legacy message tells where it ends, not where it begins.
        if index.table[0, MAGIC] < 2 or index.table[0, BASE_OFFSET] < self._stop_offset:
            raise self._nothing_new(reply, found)
        self.next_offset = self._stop_offset

    def _check_start(self, found: FetchPartitionReply, index: BatchIndex) -> None:
        # A gap in the offsets is a compacted record, a marker or an aborted one, unless the log
        # starts behind what was asked for: then retention was faster.
        if found.log_start_offset > self.next_offset and int(index.column(BASE_OFFSET)[0]) > self.next_offset:
            raise broker_error(ErrorCode.OFFSET_OUT_OF_RANGE, "Fetch")

    def _nothing_new(self, reply: FetchReply, found: FetchPartitionReply) -> NothingCame:
        """A broker that was just elected does not know the end of its log yet, and one that throttles
        leaves records out; else all that was there may have been compacted away."""
        is_committed = self._options.isolation_level == READ_COMMITTED and found.last_stable_offset >= 0
        log_end = found.last_stable_offset if is_committed else found.high_watermark
        if log_end >= self._stop_offset and not reply.throttle_time_ms and not found.records:
            self._empty_count += 1
        return NothingCame(
            f"Fetch brought no record below offset {self._stop_offset}, where the log ended when the read "
            f"was planned; now the broker says {log_end}",
            may_be_compacted=self._empty_count >= EMPTY_COUNT_MIN,
        )
