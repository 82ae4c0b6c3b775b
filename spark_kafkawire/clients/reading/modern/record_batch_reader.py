"""Reader of a range of a partition of modern Kafka (0.8 to 4.x): Fetch requests and the batches of responses.

The next fetch begins after the last batch of a response. The headers of the batches show that offset, so the
next fetch is sent before any record is decoded.

**Agreement**: no checksum covers the base offset of a batch or the offsets beside the records. A wrong one
would move records, or prove that existing records are gone. So a batch is valid only below the end of the log
in its own response: the high watermark, or the last stable offset with READ_COMMITTED. And a batch proves
that the offsets before it are gone only if all of it is below that end. Brokers read their offsets before the
records, and records may be appended in between. So batches at or above the end are not corrupt: they are
fetched again. Aborted transactions may also begin at or above the end, because brokers list them up to the
next entry of an index. Source: Apache Kafka's Partition.scala (``readRecords``), LocalLog.scala
(``addAbortedTransactions``).

**Examination** is the damaged path of a read. It runs before a response is used, so that the next fetch
begins at a proven offset: that of a sound batch, or the end of the log. Source: ``records.damaged_batches``.

**A follower** that is nearer proves less (``near_replica``): what its response omits raises an error.

**Packed fetches** ask for ranges of many partitions. A broker fills a response in the order of the request,
up to ``max_bytes``. Only the first records come whole even if they exceed a limit (KIP-74): others are left
out, and their partition looks empty. So a part without records proves something only if it is the first, or
if no part has records.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

import numpy as np

from spark_kafkawire.errors import Action, BrokerError, CorruptDataError, KafkaWireError, LimitError
from spark_kafkawire.model import Leader, OffsetRange
from spark_kafkawire.options import FetchOptions
from spark_kafkawire.protocol.connection import Response
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
)
from spark_kafkawire.protocol.modern.limits import NO_TOPIC_ID, READ_COMMITTED, READ_UNCOMMITTED
from spark_kafkawire.protocol.primitives import Buffer, read_int32
from spark_kafkawire.records.arrays import Int64s
from spark_kafkawire.records.batch.decoding import AbortedTransactions
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.damage import Walk, Whole
from spark_kafkawire.records.damaged_batches import OFFSET_MAX, index_of, walk_batches
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.log_index import (
    ATTRIBUTES,
    BASE_OFFSET,
    CODEC_MASK,
    CRC,
    LOG_OVERHEAD,
    MAGIC,
    NEXT_OFFSET,
    POS,
    SIZE,
    SIZE_POS,
    BatchIndex,
    MarkersDisagree,
    index_batches,
)
from spark_kafkawire.records.record_log import decode_batches
from spark_kafkawire.records.spans import DecodeBuffers

from ..damaged_records import DamagedBytes, DamagedRecords, SuspectedDamage, first_place, unproven
from ..task import COMPARE_LOGS, Contradiction, EmptyFetch, Gaps, NearerReplica

#: Assumed size of a record before the first one, bytes: enough for most. A fetch returns at least one batch.
FIRST_RECORD_BYTES: Final = 1024
#: Smallest fetch unless ``fetchBytes`` is smaller, bytes: smaller ones take as much time.
FETCH_BYTES_MIN: Final = 64 << 10
#: Responses without records, in a row, after which compaction is examined as the reason. They are no proof
#: themselves.
EMPTY_COUNT_MIN: Final = 3


@dataclass(frozen=True, slots=True)
class _Fetched:
    """Parts of a response that are fetched and not decoded. Records before ``start_offset`` are ignored."""

    start_offset: int
    response: FetchPartitionResponse
    parts: Sequence[BatchIndex | DamagedBytes]
    is_committed: bool
    is_of_follower: bool = False


class RecordBatchReader:
    """``PartitionReader`` for offsets that count records."""

    def __init__(self, offset_range: OffsetRange, options: FetchOptions, wanted: Container[str]) -> None:
        self.next_offset = offset_range.start_offset
        self.bytes_received = 0
        self.gaps: Gaps | None = None
        self._topic_partition = offset_range.topic_partition
        self._stop_offset = offset_range.stop_offset
        self._options = options
        self._limits = DecodeLimits(decompressed_bytes_max=options.decompressed_bytes_max)
        self._wanted = wanted
        self._buffers = DecodeBuffers()
        self._start_offset = offset_range.start_offset
        self._fetch_bytes = 0
        self._fetch_bytes_min = min(FETCH_BYTES_MIN, options.fetch_bytes)
        self._is_in_flight = False
        self._fetched: _Fetched | None = None
        self._empty_count = 0
        self._transactions = self._no_transactions()
        self._damaged = DamagedRecords(offset_range, options)
        #: Batches with a right checksum that could not be decoded.
        self._undecodable: dict[tuple[int, int], str] = {}
        #: Damage at the end of a response, until a batch at its claimed end proves that end.
        self._pending: DamagedBytes | None = None
        #: Size of the last response whose damage had no proven end.
        self._unproven_size = 0

    @property
    def offset(self) -> int:
        if self._fetched is not None:
            return self._fetched.start_offset
        return self.next_offset if self._pending is None else self._pending.damage.start_offset

    @property
    def done(self) -> bool:
        return self._fetched is None and not self._is_due

    @property
    def _is_due(self) -> bool:
        return self.next_offset < self._stop_offset or self._pending is not None

    def report(self) -> None:
        self._damaged.report()

    def requests(self, leader: Leader) -> Iterator[FetchRequest]:
        if not self._is_in_flight and self._is_due:
            self._is_in_flight = True
            self._fetch_bytes = self._bytes_to_fetch()
            yield self._request(leader)

    def receive(self, response: Response) -> None:
        self._is_in_flight = False
        result = self._partition(response.body)
        is_of_leader = self._options.rack is not None and not response.request.is_to_follower
        if is_of_leader and result.preferred_read_replica >= 0 and not result.records:
            raise NearerReplica(result.preferred_read_replica)
        self.bytes_received += len(result.records or b"")
        self.gaps = None
        if response.request.is_to_follower:
            self._take_of_follower(response, result)
            return
        cause: KafkaWireError | None = None
        if not self._must_examine(response, result):
            try:
                self._take(response, result)
                return
            except (CorruptDataError, LimitError, Contradiction) as error:
                cause = error
        self._examine(response, result, cause)

    def _take_of_follower(self, response: Response, result: FetchPartitionResponse) -> None:
        """Accept records that follow each other. Raises for all that only the leader can tell."""
        offset = self.next_offset
        if response.request.isolation_level == READ_COMMITTED and result.aborted_transactions:
            raise BrokerError("the follower names aborted transactions", action=Action.RETRY)
        self._take(response, result)
        if self.gaps is not None:
            self.gaps = None
            self.restart(offset)
            raise BrokerError("the follower's log has a gap", action=Action.RETRY)

    def _take(self, response: Response, result: FetchPartitionResponse) -> None:
        """Accept a response whose headers have no damage; its checksums are checked later."""
        index = index_batches(result.records or b"")
        if not index.count and len(index.buf):
            self._fetch_more(index)
            return
        is_committed = response.request.isolation_level == READ_COMMITTED
        if index.count:
            # Missing offsets are compacted records, markers or aborted records, unless the log starts after
            # the fetch offset: then retention deleted them.
            if min(result.log_start_offset, int(index.column(BASE_OFFSET)[0])) > self.next_offset:
                raise broker_error(ErrorCode.OFFSET_OUT_OF_RANGE, "Fetch")
            index, self.gaps = confirm_batches(
                index, result, self.next_offset, self._stop_offset, is_committed
            )
        next_offset = index.next_offset
        if index.count and response.request.isolation_level != self._options.isolation_level:
            self._check_beyond(response.body, result, index)
        elif next_offset is None or next_offset <= self.next_offset:
            raise self._empty_fetch(response.body, result)
        else:
            self._check_size(int(index.column(SIZE).max()))
            is_of_follower = response.request.is_to_follower
            self._fetched = _Fetched(self.next_offset, result, (index,), is_committed, is_of_follower)
            self.next_offset = next_offset
            self._empty_count = 0

    def columns(self) -> Iterator[Columns]:
        if self._fetched is None:
            return
        fetched, self._fetched = self._fetched, None
        for part in fetched.parts:
            if isinstance(part, DamagedBytes):
                yield from self._damaged.columns(part)
                self._transactions = self._no_transactions()
                continue
            given = fetched.start_offset
            try:
                for columns in self._decode(part, fetched):
                    given = int(columns.offset[-1]) + 1
                    yield columns
                    del columns  # its memory is reused for the next ones
            except (CorruptDataError, LimitError) as error:
                if fetched.is_of_follower:
                    self.restart(given)
                    self._transactions = self._no_transactions()
                if fetched.is_of_follower or isinstance(error, MarkersDisagree | LimitError):
                    raise
                raise self._suspect(error, fetched, part, given) from error

    def _decode(self, index: BatchIndex, fetched: _Fetched) -> Iterator[Columns]:
        return decode_batches(
            index,
            fetched.start_offset,
            self._stop_offset,
            wanted=self._wanted,
            aborted=(fetched.response.aborted_transactions or ()) if fetched.is_committed else (),
            transactions=self._transactions,
            limits=self._limits,
            buffers=self._buffers,
        )

    def restart(self, offset: int | None = None) -> None:
        self._is_in_flight = False
        if offset is not None:
            if offset != self.offset:
                self._transactions = self._no_transactions()
            self._fetched = self._pending = None
            self.next_offset = offset
            self._empty_count = 0

    # The damaged path.

    def _must_examine(self, response: Response, result: FetchPartitionResponse) -> bool:
        """True if damage was seen before this response, which is more than a part of a batch."""
        is_usual = response.request.isolation_level == self._options.isolation_level
        return self._damaged.is_expected and is_usual and not _is_cut(result.records or b"")

    def _examine(
        self, response: Response, result: FetchPartitionResponse, cause: KafkaWireError | None
    ) -> None:
        """Use the sound batches of a response and its confirmed damage.

        ``cause`` is the error of the usual way, which is raised if the response has no damage. Raises
        ``SuspectedDamage`` for damage that the last response did not show."""
        is_whole = 0 < len(result.records or b"") <= self._unproven_size
        walk = self._walk(result, self.next_offset, is_cut=is_whole or isinstance(cause, LimitError))
        if self._damaged.is_error and isinstance(cause, CorruptDataError):
            raise first_place(cause, walk, f"the response to the fetch at offset {self.next_offset}")
        if cause is not None and (self._damaged.is_error or walk.first is None):
            raise cause
        if not result.records:
            raise self._empty_fetch(response.body, result)
        if result.log_start_offset > self.next_offset:
            raise broker_error(ErrorCode.OFFSET_OUT_OF_RANGE, "Fetch")
        pending = self._proven_pending(walk)
        if walk.first is None and pending is None:
            self._damaged.passed()
        elif walk.parts:
            self._damaged.confirm(DamagedBytes.of(item, result.records) for item in walk.damages)
        if walk.parts:
            is_committed = response.request.isolation_level == READ_COMMITTED
            self._take_walk(walk, result, is_committed, [] if pending is None else [pending])
        elif walk.rest is not None:
            self._seek_proof(DamagedBytes.of(walk.rest, result.records), len(result.records))
        elif cause is None:
            raise self._empty_fetch(response.body, result)

    def _take_walk(
        self,
        walk: Walk,
        result: FetchPartitionResponse,
        is_committed: bool,
        parts: list[BatchIndex | DamagedBytes],
    ) -> None:
        """Accept the parts of a walk over a response, after ``parts``.

        In a read of committed records they end at the first damage: it may hold the marker that ends a
        transaction, so the next fetch asks which transactions after it are aborted. Raises ``Contradiction``
        as ``confirm_batches``.
        """
        buf: Buffer = result.records or b""
        spans, offset = [], self.next_offset
        for part in walk.parts:
            if isinstance(part, Whole):
                index, gaps = confirm_batches(
                    index_of(buf, part), result, offset, self._stop_offset, is_committed
                )
                parts.append(index)
                spans += [] if gaps is None else [gaps.spans]
                offset = max(offset, index.next_offset or offset)
                continue
            parts.append(DamagedBytes.of(part, buf))
            offset = part.stop_offset
            if is_committed:
                break
        self._fetched = _Fetched(self.next_offset, result, parts, is_committed)
        self.gaps = Gaps(self.next_offset, offset, np.concatenate(spans)) if spans else None
        self._pending, self._unproven_size = None, 0
        self.next_offset, self._empty_count = offset, 0

    def _walk(self, result: FetchPartitionResponse, offset: int, *, is_cut: bool = False) -> Walk:
        """The walk over a response. With ``is_cut`` a larger fetch brings no more: a cut batch cannot be."""
        buf, end = result.records or b"", log_end(result, self._options.isolation_level == READ_COMMITTED)
        return walk_batches(
            buf,
            offset,
            end if end >= 0 else OFFSET_MAX,
            size_max=len(buf) if is_cut else self._options.message_bytes_max,
            limits=self._limits,
            undecodable=self._undecodable,
        )

    def _suspect(
        self, error: CorruptDataError, fetched: _Fetched, index: BatchIndex, given: int
    ) -> CorruptDataError | SuspectedDamage:
        """The error for damage that decoding shows: fatal, or the records after those that were ``given`` are
        fetched again."""
        walk = self._walk(fetched.response, fetched.start_offset)
        if self._damaged.is_error:
            return first_place(error, walk, f"the response to the fetch at offset {fetched.start_offset}")
        if error.pos is not None and walk.first is None:
            row = index.column(POS).tolist().index(error.pos)
            kind = int(index.table[row, BASE_OFFSET]), int(index.table[row, CRC])
            self._undecodable[kind] = error.reason
            walk = self._walk(fetched.response, fetched.start_offset)
        self.restart(given)
        # The next fetch asks again for the transactions of batches that were given.
        self._transactions = self._no_transactions()
        buf = fetched.response.records or b""
        try:
            self._damaged.confirm(DamagedBytes.of(item, buf) for item in walk.damages)
        except SuspectedDamage as suspected:
            return suspected
        return SuspectedDamage(f"a batch is damaged: {error.reason}", given)

    def _seek_proof(self, rest: DamagedBytes, size: int) -> None:
        """The response begins with damage of unknown end: fetch more bytes, or at the end that its header
        claims. Raises ``CorruptDataError`` if no proof is left."""
        if size > self._unproven_size and self._fetch_bytes < self._options.message_bytes_max:
            self._unproven_size = size
            larger = 2 * max(size, self._fetch_bytes)
            self._fetch_bytes_min = min(larger, self._options.message_bytes_max)
            self._damaged.is_expected = True
        elif self._pending is None and rest.damage.stop_offset > rest.damage.start_offset:
            self._damaged.confirm((rest,))
            self._pending, self.next_offset = rest, rest.damage.stop_offset
        else:
            raise unproven(rest.damage)

    def _proven_pending(self, walk: Walk) -> DamagedBytes | None:
        """The pending damage, if a sound batch begins at its claimed end."""
        if self._pending is None:
            return None
        first = walk.parts[0] if walk.parts else None
        if not isinstance(first, Whole) or first.start_offset != self.next_offset:
            raise unproven(self._pending.damage)
        return self._pending

    def _no_transactions(self) -> AbortedTransactions | None:
        return AbortedTransactions() if self._options.isolation_level == READ_COMMITTED else None

    def _bytes_to_fetch(self) -> int:
        """The likely size of the rest of the range, within the limits of a fetch."""
        count = self.next_offset - self._start_offset
        record_bytes = self.bytes_received / count if count > 0 else FIRST_RECORD_BYTES
        rest = int((self._stop_offset - self.next_offset) * record_bytes * 1.25)
        return max(min(rest, self._options.fetch_bytes), self._fetch_bytes_min)

    def _request(self, leader: Leader) -> FetchRequest:
        isolation_level = self._options.isolation_level
        if self._empty_count == EMPTY_COUNT_MIN - 1:
            # A batch after the range proves its end even if its transaction is open.
            isolation_level = READ_UNCOMMITTED
            self._fetch_bytes = self._fetch_bytes_min
        partition = FetchPartition(
            partition=self._topic_partition.partition,
            current_leader_epoch=leader.epoch,
            fetch_offset=self.next_offset,
            partition_max_bytes=self._fetch_bytes,
        )
        topic_id = leader.topic_id or NO_TOPIC_ID
        topic = FetchTopic(topic=self._topic_partition.topic, topic_id=topic_id, partitions=(partition,))
        return FetchRequest(
            max_wait_ms=self._options.wait_ms,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            isolation_level=isolation_level,
            topics=(topic,),
            rack_id=leader.rack,
            batch_bytes_max=self._options.message_bytes_max,
            is_to_follower=leader.is_follower,
        )

    def _partition(self, response: FetchResponse) -> FetchPartitionResponse:
        """The requested partition of a response. Raises its error."""
        result = [partition for topic in response.responses for partition in topic.partitions]
        code = response.error_code or (result[0].error_code if result else 0)
        if code:
            error = broker_error(code, "Fetch")
            if code == ErrorCode.UNKNOWN_SERVER_ERROR:
                # Transient if a broker could not read its tiered storage. Java's consumer retries too.
                error.action = Action.BACK_OFF
            raise error
        if not result and response.throttle_time_ms:
            raise _throttled(response)
        return result[0]

    def _fetch_more(self, index: BatchIndex) -> None:
        """Fetch more bytes: brokers before Fetch version 3 return a part of a large batch."""
        size = max(index.cut_size or 0, self._fetch_bytes + 1)
        self._check_size(size)
        self._fetch_bytes_min = min(max(size, 2 * self._fetch_bytes), self._options.message_bytes_max)

    def _check_size(self, size: int) -> None:
        if size > self._options.message_bytes_max:
            raise LimitError(
                f"a batch at offset {self.next_offset} or soon after it has {size} bytes, more than "
                f"maxMessageBytes={self._options.message_bytes_max}; raise it"
            )

    def _check_beyond(
        self, response: FetchResponse, result: FetchPartitionResponse, index: BatchIndex
    ) -> None:
        """Check that the first uncommitted batch begins after the range. Its records are not used."""
        self._empty_count = 0
        # A compressed legacy message has the offset of its last record, not of its first one.
        if index.table[0, MAGIC] < 2 or index.table[0, BASE_OFFSET] < self._stop_offset:
            self.gaps = None
            raise self._empty_fetch(response, result)
        self.next_offset = self._stop_offset

    def _empty_fetch(self, response: FetchResponse, result: FetchPartitionResponse) -> EmptyFetch:
        """The error for a response without records.

        A leader that was just elected does not know its high watermark yet, and a leader that throttles omits
        records. Otherwise compaction may have removed them."""
        is_committed = self._options.isolation_level == READ_COMMITTED and result.last_stable_offset >= 0
        log_end = result.last_stable_offset if is_committed else result.high_watermark
        if log_end >= self._stop_offset and not response.throttle_time_ms and not result.records:
            self._empty_count += 1
        why = "the log was truncated: see the broker's log for an election, and run again"
        return EmptyFetch(
            f"Fetch returned no record below offset {self._stop_offset}, the end of the log when the read "
            f"was planned; now the broker reports {log_end}{f'; {why}' * (log_end < self._stop_offset)}",
            may_be_compacted=self._empty_count >= EMPTY_COUNT_MIN and self._pending is None,
        )


def _throttled(response: FetchResponse) -> EmptyFetch:
    """The error for the response of a throttling broker from 2.0 on (KIP-219)."""
    return EmptyFetch(
        f"Fetch: the broker throttles this client for another {response.throttle_time_ms / 1000:g} s: its "
        "quota is used up; raise it, or retries",
        is_throttled=True,
    )


def _is_cut(buf: Buffer) -> bool:
    """True if the buffer is the begin of one batch, by the size of that."""
    if not len(buf):
        return False
    return len(buf) < LOG_OVERHEAD or LOG_OVERHEAD + read_int32(buf, SIZE_POS) > len(buf)


def confirm_batches(
    index: BatchIndex, found: FetchPartitionResponse, offset: int, stop_offset: int, is_committed: bool
) -> tuple[BatchIndex, Gaps | None]:
    """The batches that the response to a fetch at ``offset`` confirms, and their gaps in the range that ends
    at ``stop_offset``.

    The other batches are fetched again. Raises ``Contradiction`` if the first batch with new offsets is not
    confirmed although offsets are missing before it, or if the log starts after the batch.
    """
    end = log_end(found, is_committed)
    firsts, expected = _firsts(index, offset)
    is_gap = firsts > expected
    nexts, bases = index.column(NEXT_OFFSET), index.column(BASE_OFFSET)
    is_beyond = (bases >= end) | (is_gap & (nexts > end)) if end >= 0 else is_gap
    count = int(is_beyond.argmax()) if is_beyond.any() else index.count
    if count < index.count:
        brings_any = count > 0 and nexts[count - 1] > offset
        if is_gap[count] and not brings_any:
            bound = f"the log ends at offset {end}" if end >= 0 else "the end of the log is not known"
            raise Contradiction(
                f"Fetch returned nothing at offset {offset}, but a batch of offsets {bases[count]} to "
                f"{nexts[count] - 1}, and by the same response {bound}; {COMPARE_LOGS}",
                offset,
            )
        index = replace(index, table=index.table[:count])
    if index.count and found.log_start_offset > offset >= firsts[0]:
        raise Contradiction(
            f"Fetch: the log starts at offset {found.log_start_offset} by the response that contains "
            f"the batch at offset {bases[0]}; {COMPARE_LOGS}",
            offset,
        )
    rows = np.flatnonzero(is_gap[:count] & (expected[:count] < stop_offset))
    if not len(rows):
        return index, None
    spans = np.stack((expected[rows], np.minimum(firsts[rows], stop_offset)), axis=1)
    return index, Gaps(offset, int(nexts[count - 1]), spans)


def log_end(found: FetchPartitionResponse, is_committed: bool) -> int:
    """The end of the log by the response; -1 if it has none."""
    if is_committed and found.last_stable_offset >= 0:
        # Brokers read the last stable offset after the high watermark, so it may be above it.
        return min(found.last_stable_offset, found.high_watermark)
    return found.high_watermark


def _firsts(index: BatchIndex, offset: int) -> tuple[Int64s, Int64s]:
    """The first offset of each batch, and the one that follows the batch before it.

    A compressed message has the offset of its last inner message, so it counts as a message without a gap.
    """
    before = np.concatenate((np.array([offset]), index.column(NEXT_OFFSET)[:-1]))
    expected: Int64s = np.maximum(before, offset)
    is_opaque = (index.column(MAGIC) < 2) & (index.column(ATTRIBUTES) & CODEC_MASK != 0)
    return np.where(is_opaque, expected, index.column(BASE_OFFSET)), expected


#: A partition in a request or response: name or id of the topic, and index.
_Key = tuple[str | UUID, int]


class PackedFetches:
    """``Packing`` of Fetch."""

    #: Sum of the limits of all partitions in one request. Brokers before Fetch version 3 have no other limit
    #: of a response.
    bytes_max = 64 << 20

    def __init__(self, options: FetchOptions) -> None:
        self._options = options
        #: Limits of partitions whose first batch is larger than the usual one.
        self._raised: dict[_Key, int] = {}

    def bytes_of(self, request: FetchRequest) -> int:
        return self._limit(request)

    def pack(self, requests: Sequence[FetchRequest]) -> FetchRequest:
        topics: dict[tuple[str, UUID], list[FetchPartition]] = {}
        for request in requests:
            [topic] = request.topics
            [partition] = topic.partitions
            limit = self._limit(request)
            if limit != partition.partition_max_bytes:
                partition = replace(partition, partition_max_bytes=limit)
            topics.setdefault((topic.topic, topic.topic_id), []).append(partition)
        return replace(
            requests[0],
            max_bytes=self._options.fetch_bytes,
            topics=tuple(
                FetchTopic(topic=name, topic_id=topic_id, partitions=tuple(partitions))
                for (name, topic_id), partitions in topics.items()
            ),
        )

    def parts(self, response: Response, requests: Sequence[FetchRequest]) -> list[Response | None]:
        body: FetchResponse = response.body
        if not body.responses and not body.error_code:
            raise _throttled(body)
        # By name or by id, as the version has it: the other one is the same for all topics.
        result: dict[_Key, FetchPartitionResponse] = {
            (topic.topic or topic.topic_id, partition.partition_index): partition
            for topic in body.responses
            for partition in topic.partitions
        }
        came = sum(len(partition.records or b"") for partition in result.values())
        parts: list[Response | None] = []
        for request in requests:
            own = result.get(_key(request)) or result.get(_key(request, by_id=True))
            if own is not None and parts and came and not (own.records or own.error_code):
                self._raise_limit(request, came)
                parts.append(None)
                continue
            topics = () if own is None else (FetchTopicResponse(partitions=(own,)),)
            parts.append(Response(request, replace(body, responses=topics), response.frame))
        return parts

    def _limit(self, request: FetchRequest) -> int:
        return max(self._raised.get(_key(request), 0), request.topics[0].partitions[0].partition_max_bytes)

    def _raise_limit(self, request: FetchRequest, came: int) -> None:
        """Raise the limit of a partition if the response had room for it: its first batch is larger."""
        limit = self._limit(request)
        if came + limit <= self._options.fetch_bytes:
            self._raised[_key(request)] = min(2 * limit, self._options.fetch_bytes)


def _key(request: FetchRequest, *, by_id: bool = False) -> _Key:
    [topic] = request.topics
    return topic.topic_id if by_id else topic.topic, topic.partitions[0].partition
