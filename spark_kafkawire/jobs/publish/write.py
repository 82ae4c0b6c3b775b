"""Writes rows in Spark tasks for ``publish``, and collects the number of messages that each task has written.

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

from spark_kafkawire.clients.writing.sender import PartitionReceipt
from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.source.exactly_once import ExactlyOnceWriter, TransactionMessage
from spark_kafkawire.source.writer import KafkaWireBatchWriter

from ..shell.interruption import Interrupted
from .written import Written, total

T = TypeVar("T")

_RESULT: Final = pa.schema([("result", pa.binary())])


def write(rows: DataFrame, writer: KafkaWireBatchWriter) -> list[Written]:
    """Write rows as ``df.write`` does. Returns the written messages, sorted by partition.

    The numbers are the commit messages of the tasks. They do not include messages of other programs, nor
    those of a task that failed and ran again. Errors of a task come as Spark's own error.
    """
    results = _of_tasks(rows, lambda batches: writer.write(batches).receipts)
    return total(receipt for receipts in results for receipt in receipts)


def write_once(rows: DataFrame, writer: KafkaWireBatchWriter) -> list[Written]:
    """Write rows that Spark must not write twice; rows that are not written are noticed later.

    A task that Spark runs again, because an executor is lost, writes nothing: the rows that its first attempt
    wrote are unknown. A task that fails ends as others do, so that Spark does not run it again; its error is
    raised when all tasks have ended.
    """
    outcomes = _of_tasks(rows, _Once(writer))
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return total(receipt for outcome in outcomes for receipt in outcome.receipts)


def write_exactly_once(rows: DataFrame, writer: ExactlyOnceWriter) -> tuple[list[Written], int]:
    """Write rows in transactions that are committed as one: the result, and the number of rows that an
    earlier run of the write has committed. One attempt of each task counts, however often Spark runs it."""

    def attempt(batches: Iterator[pa.RecordBatch]) -> tuple[TransactionMessage, Sequence[PartitionReceipt]]:
        message = writer.write(batches)
        assert isinstance(message, TransactionMessage)
        return message, message.receipts

    messages: list[TransactionMessage] = []
    try:
        results = _of_tasks(rows, attempt)
        messages = [message for message, _ in results]
        writer.commit(messages)
    except Interrupted as interrupted:
        interrupted.outcome = f"{writer.settle(messages)}; run again with the same arguments"
        raise
    except Exception:
        writer.abort(messages)
        raise
    found_count = sum(each.row_count for each in messages if each.transaction is None)
    return total(receipt for _, receipts in results for receipt in receipts), found_count


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Result of one task; no receipts and no error if Spark ran it again."""

    receipts: Sequence[PartitionReceipt] = ()
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
    """The results of the function for the rows of each task."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([[pickle.dumps(function(iter(batches)))]], schema=_RESULT)

    return [pickle.loads(row.result) for row in rows.mapInArrow(run, "result binary").collect()]
