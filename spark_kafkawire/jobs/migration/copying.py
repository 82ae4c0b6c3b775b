"""One piece of one log: skips what the target has of it, and appends the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from ...clients.reading.task import FetchTask
from ...clients.writing.modern.batches import SEQUENCE_MAX, Position, ProducerId
from ...clients.writing.modern.producer import Producer
from ...clients.writing.modern.record_checks import check_records
from ...clients.writing.sender import LogReceipt
from ...errors import DeliveryError, KafkaWireError
from ...model import TopicPartition
from ...records.columns import Columns
from ...records.rows import Records
from .clusters import Clusters
from .exactly_once import LogTransaction, explained
from .matching import Differs, Present
from .routes import Route
from .source_headers import headers_of
from .state import Mark

#: Makes the producer of messages whose first one has that sequence.
MakeProducer = Callable[[int], Producer]
#: What follows from a failure in the middle. Whatever was sent is read before anything is sent again.
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
        """What is copied where."""
        return Route(self.source.range.log, self.target)


@dataclass(frozen=True, slots=True)
class Copied:
    """What a piece came to: the new mark, and how many of its messages were there before."""

    mark: Mark
    found_count: int


class Copier:
    """Copies pieces of logs between two clusters. It may be tried again at any time, by anybody."""

    def __init__(self, clusters: Clusters) -> None:
        self._clusters = clusters.for_tasks()

    def __call__(self, task: CopyTask) -> Copied:
        """Copy one piece.

        Raises ``DeliveryError`` (fatal) where the target holds something else than the source's next
        messages, or not what was sent; ``RowError`` for a message that the target cannot store;
        and what reading and writing raise.
        """
        if task.producer is not None:
            position = partial(Position, task.producer)
            return self._copied(task, lambda number: self._clusters.producer(task.target, position(number)))
        with LogTransaction(self._clusters, task.route) as transaction:
            note = transaction.note()
            if note is not None and (mark := note.mark_after(task.mark)) is not None:
                # Another attempt has committed the piece, or a run that could not save its state.
                return Copied(mark, mark.message_count - task.mark.message_count)
            copied = self._copied(task, lambda _: transaction.producer())
            transaction.commit(copied.mark)
            return copied

    def _copied(self, task: CopyTask, make_producer: MakeProducer) -> Copied:
        """What is there and not proven to be is compared; what follows is appended."""
        clusters, mark = self._clusters, task.mark
        before = clusters.target_end(task.target)
        if before < mark.target_offset:
            raise DeliveryError(
                f"{task.target} ends at {before} and was copied to up to {mark.target_offset}: it lost "
                "records; delete the topic and the state directory, and begin anew"
            )
        log = task.source.range.log
        with (
            closing(clusters.copied_values(log, task.target, mark.target_offset, before)) as there,
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
        return Copied(Mark(source_offset, end, mark.message_count + count), present.matched_count)

    def _append(self, task: CopyTask, present: Present, appender: _Appender) -> int:
        """Append what is not there; the offset where the next piece begins."""
        log = task.source.range.log
        with closing(self._clusters.source_columns(task.source)) as pieces:
            for columns in pieces:
                values = columns.values
                assert values is not None
                assert columns.next_offset is not None
                there = self._match(task, present, columns)
                if there < len(values):
                    rest = self._records(log, columns).slice(there, len(values) - there)
                    appender.add(rest, first_number=task.mark.message_count + present.matched_count)
                next_offset = int(columns.next_offset[-1])
                if next_offset - task.mark.source_offset >= task.piece_bytes and present.is_exhausted:
                    return next_offset
        if not present.is_exhausted:
            raise self._foreign(task, f"{present.matched_count} of them are the source's")
        return task.source.range.stop_offset

    def _match(self, task: CopyTask, present: Present, columns: Columns) -> int:
        try:
            return present.match(columns.values)
        except Differs as error:
            raise self._foreign(task, f"number {error.row} is not the source's message") from error

    def _records(self, log: TopicPartition, columns: Columns) -> Records:
        headers = headers_of(log, columns) if self._clusters.source_headers else None
        records = Records(columns.values, headers=headers)
        try:
            check_records(records, self._clusters.write.message_size_max)
        except KafkaWireError as error:
            raise error.located(f"{log} from offset {int(columns.offset[0])} on") from error
        return records

    def _check_stored(self, task: CopyTask, count: int, end: int) -> None:
        """What is in the target after the mark must be what was found and appended, and no more."""
        start, log = task.mark.target_offset, task.source.range.log
        if end - start == count:
            return
        if not self._clusters.source_headers and end - start > count:
            raise self._foreign(task, f"{count} of them are the source's")
        stored = sum(map(len, self._clusters.copied_values(log, task.target, start, end)))
        if stored != count:
            raise DeliveryError(
                f"{task.target} holds {stored} messages of {log} from offset {start} to {end}, and not the "
                f"{count} that were sent: another run may be on its way; run again"
            )

    def _check_alone(self, task: CopyTask, count: int, start: int, end: int) -> None:
        """What was sent in a transaction counts once it is committed; others must not have come between.

        ``start`` and ``end`` are where the target ended before and after, and no marker is between them: the
        transaction before is complete, and this one not committed.
        """
        if end - start != count and not self._clusters.source_headers:
            raise self._foreign(task, f"{end - start} came while {count} were sent, by another run or others")

    def _foreign(self, task: CopyTask, what: str) -> DeliveryError:
        advice = (
            "begin with a new topic and an empty state directory"
            if self._clusters.source_headers
            else "let nobody write there meanwhile, or begin anew with --source-headers"
        )
        return DeliveryError(
            f"{task.target} holds messages from offset {task.mark.target_offset} on that are not "
            f"{task.source.range.log}'s from offset {task.mark.source_offset} on ({what}); {advice}"
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

    def finish(self) -> tuple[LogReceipt, ...]:
        """Wait until all are in the log."""
        with self._advising():
            return self._producer.finish() if self._producer else ()

    def __enter__(self) -> _Appender:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._producer:
            self._producer.close()

    def _advising(self) -> AbstractContextManager[None]:
        return explained() if self._task.producer is None else _advising()


@contextmanager
def _advising() -> Iterator[None]:
    try:
        yield
    except DeliveryError as error:
        raise error.advised(_RUN_AGAIN) from error
