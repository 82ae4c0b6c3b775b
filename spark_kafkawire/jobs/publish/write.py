"""Messages are written by Spark's tasks, and those tell what they have written.

written = write(rows, create_writer(WriteOptions.parse(options), rows.schema, overwrite=False))
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from ...clients.writing.sender import LogReceipt
from ...errors import KafkaWireError
from ...source.exactly_once import ExactlyOnceWriter, TransactionMessage
from ...source.writer import KafkaWireBatchWriter
from .written import Written, total

T = TypeVar("T")

_RESULT: Final = pa.schema([("result", pa.binary())])


def write(rows: DataFrame, writer: KafkaWireBatchWriter) -> list[Written]:
    """Write rows as ``df.write`` does, and tell what was written, sorted by log.

    The numbers are the tasks' own receipts, by which Spark commits a write: what others write
    meanwhile is not among them, and neither is what a task wrote that failed and ran again.
    What a task raises comes as Spark's own error.
    """
    results = _of_tasks(rows, lambda batches: writer.write(batches).receipts)
    return total(receipt for receipts in results for receipt in receipts)


def write_once(rows: DataFrame, writer: KafkaWireBatchWriter) -> list[Written]:
    """The same, where Spark may write nothing twice, and rows that are not written are noticed later.

    A task that Spark runs again, because an executor is lost, writes nothing: what its first attempt
    has written is not known. A task that fails ends as others do, so that Spark does not run it
    again; its error is raised when all tasks have ended.
    """
    outcomes = _of_tasks(rows, _Once(writer))
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return total(receipt for outcome in outcomes for receipt in outcome.receipts)


def write_exactly_once(rows: DataFrame, writer: ExactlyOnceWriter) -> tuple[list[Written], int]:
    """The same in transactions that are committed as one: what was written, and how many rows an earlier run
    of the write has committed. Whatever tasks Spark runs again, of each one attempt counts."""

    def attempt(batches: Iterator[pa.RecordBatch]) -> TransactionMessage:
        message = writer.write(batches)
        assert isinstance(message, TransactionMessage)
        return message

    messages: list[TransactionMessage] = []
    try:
        messages = _of_tasks(rows, attempt)
        writer.commit(messages)
    except Exception:
        writer.abort(messages)
        raise
    found_count = sum(each.row_count for each in messages if each.transaction is None)
    return total(receipt for each in messages for receipt in each.receipts), found_count


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What became of one task; no receipts and no error where Spark ran it again."""

    receipts: Sequence[LogReceipt] = ()
    error: KafkaWireError | None = None


class _Once:
    def __init__(self, writer: KafkaWireBatchWriter) -> None:
        self._writer = writer

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> _Outcome:
        context = TaskContext.get()
        if context is not None and context.attemptNumber() > 0:
            return _Outcome()
        try:
            return _Outcome(self._writer.write(batches).receipts)
        except KafkaWireError as error:
            return _Outcome(error=error)


def _of_tasks(rows: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], T]) -> list[T]:
    """What the function makes of the rows of each task."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([[pickle.dumps(function(iter(batches)))]], schema=_RESULT)

    return [pickle.loads(row.result) for row in rows.mapInArrow(run, "result binary").collect()]
