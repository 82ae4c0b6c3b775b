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
    AbortedTransaction,
    FetchPartition,
    FetchPartitionReply,
    FetchReply,
    FetchRequest,
    FetchTopic,
)
from ....protocol.modern.isolation import READ_COMMITTED, READ_UNCOMMITTED
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
#: Replies without records, in a row, after which compaction is looked at as the reason. They prove nothing
#: themselves.
EMPTY_COUNT_MIN: Final = 3


class EmptyFetch(BrokerError):
    """A Fetch reply without any new record where records are due. Retriable on the same connection,
    which knows for how long its broker throttles it.

    With ``may_be_compacted`` it is one of several in a row, and by all of them the log ends after the
    range: ``gaps`` decides what that proves."""

    def __init__(self, message: str, may_be_compacted: bool = False) -> None:
        super().__init__(message, action=Action.BACK_OFF)
        self.may_be_compacted = may_be_compacted


@dataclass(frozen=True, slots=True)
class _Fetched:
    """Batches that were fetched and are not decoded; records before ``start_offset`` are not wanted."""

    start_offset: int
    index: BatchIndex
    aborted: Sequence[AbortedTransaction]


class BatchFeed:
    """Implements the protocol ``Feed`` for offsets of records."""

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
        self._is_in_flight = False
        self._fetched: _Fetched | None = None
        self._empty_count = 0

    @property
    def offset(self) -> int:
        return self.next_offset if self._fetched is None else self._fetched.start_offset

    @property
    def done(self) -> bool:
        return self._fetched is None and self.next_offset >= self._stop_offset

    def requests(self, leader: Leader) -> Iterator[FetchRequest]:
        if not self._is_in_flight and self.next_offset < self._stop_offset:
            self._is_in_flight = True
            self._fetch_bytes = self._bytes_to_fetch()
            yield self._request(leader)

    def received(self, reply: Reply) -> None:
        self._is_in_flight = False
        found = self._partition(reply.body)
        index = index_batches(found.records or b"")
        self.bytes_received += len(index.buf)
        next_offset = index.next_offset
        if index.count and reply.request.isolation_level != self._options.isolation_level:
            self._check_beyond(reply.body, found, index)
        elif next_offset is None and len(index.buf):
            self._fetch_more(index)
        elif next_offset is None or next_offset <= self.next_offset:
            raise self._empty_fetch(reply.body, found)
        else:
            self._check_log_start(found, index)
            self._check_size(int(index.column(SIZE).max()))
            is_committed = self._options.isolation_level == READ_COMMITTED
            aborted = found.aborted_transactions if is_committed else None
            self._fetched = _Fetched(self.next_offset, index, aborted or ())
            self.next_offset = next_offset
            self._empty_count = 0

    def columns(self) -> Iterator[Columns]:
        if self._fetched is None:
            return
        fetched, self._fetched = self._fetched, None
        yield from decode_batches(
            fetched.index,
            fetched.start_offset,
            self._stop_offset,
            wanted=self._wanted,
            aborted=fetched.aborted,
            limits=self._limits,
            buffers=self._buffers,
        )

    def restart(self, offset: int | None = None) -> None:
        self._is_in_flight = False
        if offset is not None:
            self._fetched = None
            self.next_offset = offset

    def _bytes_to_fetch(self) -> int:
        """The likely size of the rest of the range, within the limits of a fetch."""
        count = self.next_offset - self._start_offset
        record_bytes = self.bytes_received / count if count > 0 else FIRST_RECORD_BYTES
        rest = int((self._stop_offset - self.next_offset) * record_bytes * 1.25)
        return max(min(rest, self._options.fetch_bytes), self._fetch_bytes_min)

    def _request(self, leader: Leader) -> FetchRequest:
        isolation_level = self._options.isolation_level
        if self._empty_count == EMPTY_COUNT_MIN - 1:
            # The batch behind the range may be of an open transaction, and proves as much.
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
                # Transient where a broker could not read its tiered storage; Java's consumer retries, too.
                error.action = Action.BACK_OFF
            raise error
        if not found and reply.throttle_time_ms:  # brokers answer so from 2.0 on (KIP-219)
            throttle_s = reply.throttle_time_ms / 1000
            raise EmptyFetch(
                f"Fetch: the broker throttles this client, for {throttle_s:g} s more: a quota is used up"
            )
        return found[0]

    def _fetch_more(self, index: BatchIndex) -> None:
        """The reply holds a part of one batch, as brokers before Fetch version 3 cut it."""
        size = max(index.cut_size or 0, self._fetch_bytes + 1)
        self._check_size(size)
        self._fetch_bytes_min = min(max(size, 2 * self._fetch_bytes), self._options.message_bytes_max)

    def _check_size(self, size: int) -> None:
        if size > self._options.message_bytes_max:
            raise LimitError(
                f"a batch at offset {self.next_offset} or soon after it has {size} bytes, more than "
                f"maxMessageBytes={self._options.message_bytes_max}"
            )

    def _check_beyond(self, reply: FetchReply, found: FetchPartitionReply, index: BatchIndex) -> None:
        """Uncommitted records serve as a proof only: the first batch is behind the range."""
        self._empty_count = 0
        self._check_log_start(found, index)
        # The offset of a legacy message tells where it ends, not where it begins.
        if index.table[0, MAGIC] < 2 or index.table[0, BASE_OFFSET] < self._stop_offset:
            raise self._empty_fetch(reply, found)
        self.next_offset = self._stop_offset

    def _check_log_start(self, found: FetchPartitionReply, index: BatchIndex) -> None:
        # Missing offsets are compacted records, markers or aborted records, unless the log starts
        # after the offset that was asked for: then retention deleted them.
        if found.log_start_offset > self.next_offset and int(index.column(BASE_OFFSET)[0]) > self.next_offset:
            raise broker_error(ErrorCode.OFFSET_OUT_OF_RANGE, "Fetch")

    def _empty_fetch(self, reply: FetchReply, found: FetchPartitionReply) -> EmptyFetch:
        """A leader that was just elected does not know its high watermark yet, and one that throttles
        leaves records out; else all records there may have been compacted."""
        is_committed = self._options.isolation_level == READ_COMMITTED and found.last_stable_offset >= 0
        log_end = found.last_stable_offset if is_committed else found.high_watermark
        if log_end >= self._stop_offset and not reply.throttle_time_ms and not found.records:
            self._empty_count += 1
        return EmptyFetch(
            f"Fetch brought no record below offset {self._stop_offset}, where the log ended when the read "
            f"was planned; now the broker says {log_end}",
            may_be_compacted=self._empty_count >= EMPTY_COUNT_MIN,
        )
