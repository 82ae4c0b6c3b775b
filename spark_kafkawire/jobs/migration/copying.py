"""The tasks of a migration: one copies a piece of a partition, another one verifies a copy.

To copy is to skip the messages that the target has, and to append the rest. To verify is to compare
counts and checksums of a range of the source and of its copy. Retention may delete messages of the
source while a large partition is copied. Deleted messages can be counted in the target only. The
remaining messages, at the end of both, are compared: their values as columns, in pieces of any size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.clients.writing.modern.batches import SEQUENCE_MAX, ProducerId, ProducerPosition
from spark_kafkawire.clients.writing.modern.producer import Producer, check_records
from spark_kafkawire.clients.writing.sender import PartitionReceipt
from spark_kafkawire.errors import DataLossError, DeliveryError, KafkaWireError, counted
from spark_kafkawire.model import OffsetRange, TopicPartition
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.rows import Records

from .clusters import Clusters, headers_of
from .exactly_once import PartitionTransaction, explain_errors
from .state import Mark, Route

#: Makes a producer, given the sequence of its first message.
MakeProducer = Callable[[int], Producer]
#: Advice for a failure in the middle. The next run reads the target before it sends anything again.
_RUN_AGAIN: Final = "run the migration again: it finds what arrived, and appends the rest, each message once"


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Copy from ``mark`` on, to the end of ``source``'s range or as soon as ``piece_bytes`` of the log are
    done. ``source`` starts at the mark, and ``producer`` is None where the piece is a transaction."""

    source: FetchTask
    target: TopicPartition
    mark: Mark
    producer: ProducerId | None
    piece_bytes: int

    @property
    def route(self) -> Route:
        """The source partition and its target partition."""
        return Route(self.source.range.topic_partition, self.target)


@dataclass(frozen=True, slots=True)
class CopiedPiece:
    """Result of a piece: the new mark, and the number of its messages that were there before."""

    mark: Mark
    found_count: int


class Copier:
    """Copies pieces of partitions between two clusters. Any process may try it again at any time."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters.copy_for_tasks()

    def __call__(self, task: CopyTask) -> CopiedPiece:
        """Copy one piece.

        Raises ``DeliveryError`` (fatal) if the target holds other messages than the source's next ones, or
        than those that were sent; ``RowError`` for a message that the target cannot store; and the errors of
        reading and writing.
        """
        if task.producer is not None:
            position = partial(ProducerPosition, task.producer)
            return self._copy(task, lambda number: self._clusters.producer(task.target, position(number)))
        with PartitionTransaction(self._clusters, task.route) as transaction:
            note = transaction.note()
            if note is not None and (mark := note.after(task.mark)) is not None:
                # Another attempt has committed the piece, or a run that could not save its state.
                return CopiedPiece(mark, mark.message_count - task.mark.message_count)
            copied = self._copy(task, lambda _: transaction.producer())
            transaction.commit(copied.mark)
            return copied

    def _copy(self, task: CopyTask, make_producer: MakeProducer) -> CopiedPiece:
        """Compare the messages that the target has after the mark, then append the rest."""
        clusters, mark = self._clusters, task.mark
        before = clusters.target_end(task.target)
        if before < mark.target_offset:
            raise DeliveryError(
                f"{task.target} ends at {before} and was copied to up to {mark.target_offset}: it lost "
                "records; delete the topic and the state directory, and start again"
            )
        partition = task.source.range.topic_partition
        with (
            closing(clusters.read_copied_values(partition, task.target, mark.target_offset, before)) as there,
            _Appender(task, make_producer) as appender,
        ):
            present = Present(there)
            source_offset = self._append(task, present, appender)
            receipts = appender.finish()
        sent_to = max((receipt.stop_offset or 0 for receipt in receipts), default=0)
        end = max(clusters.target_end(task.target), sent_to, mark.target_offset)
        count = present.matched_count + appender.count
        if task.producer is None:
            self._check_alone(task, appender.count, before, end)
        else:
            self._check_stored(task, count, end)
        return CopiedPiece(Mark(source_offset, end, mark.message_count + count), present.matched_count)

    def _append(self, task: CopyTask, present: Present, appender: _Appender) -> int:
        """Append the missing messages. Returns the offset where the next piece begins."""
        partition = task.source.range.topic_partition
        with closing(self._clusters.source_columns(task.source)) as pieces:
            for columns in pieces:
                values = columns.values
                assert values is not None
                assert columns.next_offset is not None
                try:
                    there = present.match(values)
                except Differs as error:
                    what = f"number {error.row} is not the source's message"
                    raise self._foreign(task, what) from error
                if there < len(values):
                    rest = self._records(partition, columns).slice(there, len(values) - there)
                    appender.add(rest, first_number=task.mark.message_count + present.matched_count)
                next_offset = int(columns.next_offset[-1])
                if next_offset - task.mark.source_offset >= task.piece_bytes and present.is_exhausted:
                    return next_offset
        if not present.is_exhausted:
            raise self._foreign(task, f"{present.matched_count} of them are the source's")
        return task.source.range.stop_offset

    def _records(self, partition: TopicPartition, columns: Columns) -> Records:
        headers = headers_of(partition, columns) if self._clusters.source_headers else None
        records = Records(columns.values, headers=headers)
        try:
            check_records(records, self._clusters.write.message_size_max)
        except KafkaWireError as error:
            raise error.locate(f"{partition} from offset {int(columns.offset[0])} on") from error
        return records

    def _check_stored(self, task: CopyTask, count: int, end: int) -> None:
        """Check that the target has, after the mark, exactly the messages that were found and appended."""
        start, partition = task.mark.target_offset, task.source.range.topic_partition
        if end - start == count:
            return
        if not self._clusters.source_headers and end - start > count:
            raise self._foreign(task, f"{count} of them are the source's")
        stored = sum(map(len, self._clusters.read_copied_values(partition, task.target, start, end)))
        if stored != count:
            raise DeliveryError(
                f"{task.target} holds {counted(stored, 'message')} of {partition} from offset {start} to "
                f"{end}, and not the {count} that were sent: another run may be on its way; run again"
            )

    def _check_alone(self, task: CopyTask, count: int, start: int, end: int) -> None:
        """Check that no other program wrote between: messages of a transaction count once it is committed.

        ``start`` and ``end`` are where the target ended before and after, and no marker is between them: the
        transaction before is complete, and this one not committed.
        """
        if end - start != count and not self._clusters.source_headers:
            raise self._foreign(task, f"{end - start} came while {count} were sent, by another run or others")

    def _foreign(self, task: CopyTask, what: str) -> DeliveryError:
        advice = (
            "begin with a new topic and an empty state directory"
            if self._clusters.source_headers
            else "let no other program write there meanwhile, or start again with --source-headers"
        )
        return DeliveryError(
            f"{task.target} holds messages from offset {task.mark.target_offset} on that are not "
            f"{task.source.range.topic_partition}'s from offset {task.mark.source_offset} on ({what}); "
            f"{advice}"
        )


class _Appender:
    """Appends to one partition of the target, by a producer that is made for the number of the first message,
    as a sequence. ``count`` are those that were taken."""

    def __init__(self, task: CopyTask, make_producer: MakeProducer) -> None:
        self._task = task
        self._make_producer = make_producer
        self._producer: Producer | None = None
        self.count = 0

    def add(self, records: Records, first_number: int) -> None:
        """Take the next messages; ``first_number`` is that of the very first one in the copy."""
        if self._producer is None:
            self._producer = self._make_producer(first_number & SEQUENCE_MAX)
        with self._advising():
            self._producer.add(self._task.target, records)
        self.count += records.count

    def finish(self) -> tuple[PartitionReceipt, ...]:
        """Wait until all are in the log."""
        with self._advising():
            return self._producer.finish() if self._producer else ()

    def __enter__(self) -> _Appender:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._producer:
            self._producer.close()

    def _advising(self) -> AbstractContextManager[None]:
        return explain_errors() if self._task.producer is None else _advising()


@contextmanager
def _advising() -> Iterator[None]:
    try:
        yield
    except DeliveryError as error:
        raise error.advise(_RUN_AGAIN) from error


@dataclass(frozen=True, slots=True)
class VerifyTask:
    """Two ranges that must hold the same messages, ``message_count`` by the state directory."""

    source: FetchTask
    target: OffsetRange
    message_count: int


@dataclass(frozen=True, slots=True)
class Verified:
    """Counts and checksums of both sides. The checksums leave out the first ``gone_count`` messages, which
    the source has deleted; the counts do not."""

    source_count: int
    source_sha256: str
    target_count: int
    target_sha256: str
    gone_count: int = 0

    def matches(self, message_count: int) -> bool:
        """True if both sides are equal and as long as they should be."""
        return (
            self.source_count == self.target_count == message_count
            and self.source_sha256 == self.target_sha256
        )


class Verifier:
    """Reads both sides of one partition again, and relies on nothing else."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters.copy_for_tasks()

    def __call__(self, task: VerifyTask) -> Verified:
        """The counts and checksums. Raises the errors of reading."""
        (start_offset, source), target = self._source(task.source), ValuesDigest()
        is_whole = start_offset == task.source.range.start_offset
        gone_count = 0 if is_whole else max(task.message_count - source.count, 0)
        left, offset_range = gone_count, task.target
        for values in self._clusters.read_copied_values(
            task.source.range.topic_partition,
            offset_range.topic_partition,
            offset_range.start_offset,
            offset_range.stop_offset,
        ):
            skipped = min(left, len(values))
            left -= skipped
            target.update(values.slice(skipped))
        return Verified(
            source.count + gone_count,
            source.sha256,
            target.count + gone_count - left,
            target.sha256,
            gone_count,
        )

    def _source(self, task: FetchTask) -> tuple[int, ValuesDigest]:
        """The start and the messages of the source in a range; retention may overtake the read."""
        asked = task.range
        start = asked.start_offset
        while True:
            start = min(max(start, self._clusters.source_start(task)), asked.stop_offset)
            values = ValuesDigest()
            offset_range = OffsetRange(asked.topic_partition, start, asked.stop_offset)
            if not offset_range.size:
                return start, values
            try:
                for columns in self._clusters.source_columns(replace(task, range=offset_range)):
                    values.update(columns.values)
            except DataLossError:
                if self._clusters.source_start(task) <= start:
                    raise
                continue
            return start, values


#: The length that stands for a null.
_NULL_LENGTH: Final = -1


class Differs(Exception):
    """Row ``row``, counted from 0, is not the same on both sides. Never leaves the package."""

    def __init__(self, row: int) -> None:
        super().__init__(f"row {row} differs")
        self.row = row


class Present:
    """The values that the target already holds, removed from the front as they are matched."""

    def __init__(self, values: Iterable[pa.Array]) -> None:
        self._chunks = iter(values)
        self._chunk: pa.Array | None = None
        self.matched_count = 0

    @property
    def is_exhausted(self) -> bool:
        """True if all values of the target were matched."""
        return self._next() is None

    def match(self, values: pa.Array) -> int:
        """The number of these rows that the target holds: all of them, or those before the end of the target.

        Raises ``Differs`` with the row's number among all that were to match.
        """
        matched = 0
        while matched < len(values) and (chunk := self._next()) is not None:
            count = min(len(chunk), len(values) - matched)
            there, wanted = chunk.slice(0, count), values.slice(matched, count)
            if not there.equals(wanted):
                raise Differs(self.matched_count + _first_difference(there, wanted))
            self._chunk = chunk.slice(count)
            matched += count
            self.matched_count += count
        return matched

    def _next(self) -> pa.Array | None:
        """The rest of the current chunk, or the next one that is not empty."""
        while self._chunk is None or not len(self._chunk):
            self._chunk = next(self._chunks, None)
            if self._chunk is None:
                return None
        return self._chunk


class ValuesDigest:
    """Count and checksum of a column of values: equal for equal rows in equal order, in chunks of any size.

    The checksum is the SHA-256 of two of them: of all lengths as big-endian int32, -1 for a null,
    and of all bytes.
    """

    def __init__(self) -> None:
        self.count = 0
        self._lengths = hashlib.sha256()
        self._bytes = hashlib.sha256()

    def update(self, values: pa.Array) -> None:
        """Take the next rows, a binary array."""
        if not len(values):
            return
        self.count += len(values)
        lengths = pc.fill_null(pc.binary_length(values), _NULL_LENGTH)
        self._lengths.update(lengths.to_numpy(zero_copy_only=False).astype(">i4").tobytes())
        # A null may lie over bytes of any kind.
        values = values.fill_null(b"") if values.null_count else values
        _, offsets, data = values.buffers()
        ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
        if data is not None:
            self._bytes.update(memoryview(data)[int(ends[0]) : int(ends[-1])])

    @property
    def sha256(self) -> str:
        """The checksum of all values so far, in hex."""
        return hashlib.sha256(self._lengths.digest() + self._bytes.digest()).hexdigest()


def _first_difference(there: pa.Array, wanted: pa.Array) -> int:
    same = pc.fill_null(pc.equal(there, wanted), False)
    both_null = pc.and_(pc.is_null(there), pc.is_null(wanted))
    return int(pc.index(pc.or_(same, both_null), False).as_py())
