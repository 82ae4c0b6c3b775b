"""Exactly-once writes of several tasks without Spark, which end at a step that the test chooses."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.clients.writing.modern.transactional.requests import (
    EndTransaction,
    InitProducerId,
    Request,
    TransactionRequests,
)
from spark_kafkawire.cluster.modern.transactions import Transaction
from spark_kafkawire.source import exactly_once, worker, writer
from spark_kafkawire.source.exactly_once import ExactlyOnceWriter
from spark_kafkawire.source.spark_versions import HAS_STREAM_SINKS
from tests.support import librdkafka
from tests.support.polling import DEADLINE_S, poll
from tests.support.sparks import STREAM_SINKS, needs

if HAS_STREAM_SINKS:
    from spark_kafkawire.source.stream_writer import KafkaWireStreamWriter

_SCHEMA: Final = StructType([StructField("value", BinaryType()), StructField("partition", IntegerType())])
#: Longest time for which readers of what is committed may wait when a write has ended, seconds.
WAITING_MAX_S: Final = 15.0
_ATTEMPTS: Final = itertools.count()


class Died(BaseException):
    """The process ended here, and nothing that it would have done after an error happens."""


@dataclass(frozen=True, slots=True)
class Task:
    """The context that Spark gives a task: its numbers among all attempts, and among those of its batch
    in a stream."""

    number: int
    attempt: int = field(default_factory=lambda: next(_ATTEMPTS))
    attempt_of_batch: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)

    def get(self) -> Task:
        return self

    def partitionId(self) -> int:
        return self.number

    def taskAttemptId(self) -> int:
        return self.attempt

    def attemptNumber(self) -> int:
        return self.attempt_of_batch

    def getLocalProperty(self, name: str) -> str | None:
        return self.properties.get(name)


@dataclass(frozen=True, slots=True)
class OnceWrite:
    """A write of ``tasks``, each with its values and the partition of each, or with rows of ``schema``. An
    empty ``topic`` is for rows that name theirs."""

    bootstrap_servers: str
    topic: str
    tasks: Sequence[Sequence[tuple[Any, ...]]]
    options: Mapping[str, str]
    schema: StructType = _SCHEMA

    def writer(self) -> ExactlyOnceWriter:
        """The writer as Spark sends it to the tasks."""
        options = {"kafka.bootstrap.servers": self.bootstrap_servers, **self.options}
        options |= {"topic": self.topic} if self.topic else {}
        made = KafkaWireDataSource({"delivery": "exactly-once", **options}).writer(self.schema, False)
        travels = travelled(made)
        assert isinstance(travels, ExactlyOnceWriter)
        return travels

    def message(self, made: ExactlyOnceWriter, number: int) -> Any:
        """Message of one attempt of a task to the driver."""
        return self.message_of(made, number, iter([self.tasks[number]]))

    def message_of(
        self, made: ExactlyOnceWriter, number: int, batches: Iterator[Sequence[tuple[Any, ...]]]
    ) -> Any:
        """The same of a task whose rows come batch by batch."""
        with as_task(Task(number)):
            return travelled(travelled(made).write(_rows(batch, self.schema) for batch in batches))

    def run(self) -> None:
        """Run the whole write. Raises the write's error, after Spark's abort where that follows."""
        made = self.writer()
        messages: list[Any] = [None] * len(self.tasks)
        try:
            for number in range(len(self.tasks)):
                messages[number] = self.message(made, number)
            travelled(made).commit(messages)
        except Exception:
            travelled(made).abort(messages)
            raise


@dataclass(frozen=True, slots=True)
class OnceBatch:
    """A batch of a stream, by its number, of ``tasks`` as in a write; ``query`` is its checkpoint's, and
    ``run`` what no other start of that has."""

    bootstrap_servers: str
    topic: str
    tasks: Sequence[Sequence[tuple[bytes, int]]]
    number: int
    name: str
    query: str = "the query"
    run: str = "run"

    def writer(self) -> KafkaWireStreamWriter:
        """The writer as Spark makes one for the tasks, and another one to hear of them."""
        needs(STREAM_SINKS)
        options = {"kafka.bootstrap.servers": self.bootstrap_servers, "topic": self.topic}
        options |= {"kafka.transactional.id": self.name, "delivery": "exactly-once"}
        made = travelled(KafkaWireDataSource(options).streamWriter(_SCHEMA, False))
        assert isinstance(made, KafkaWireStreamWriter)
        return made

    def message(self, made: KafkaWireStreamWriter, number: int, attempt: int = 0) -> Any:
        """Message of one attempt of a task to the driver."""
        reported = {"streaming.sql.batchId": str(self.number), "sql.streaming.queryId": self.query}
        reported["spark.jobGroup.id"] = self.run
        with as_task(Task(number, attempt_of_batch=attempt, properties=reported)):
            return travelled(travelled(made).write(iter([_rows(self.tasks[number], _SCHEMA)])))

    def messages(self) -> list[Any]:
        """Messages of all tasks."""
        made = self.writer()
        return [self.message(made, number) for number in range(len(self.tasks))]

    def end(self, messages: Sequence[Any]) -> None:
        """Commit, by a writer of its own; abort by another one where that fails, and raise why."""
        try:
            self.writer().commit(messages, self.number)
        except Exception:
            self.writer().abort(messages, self.number)
            raise

    def run_it(self) -> None:
        """Run the whole batch. Raises the batch's error."""
        self.end(self.messages())


def _rows(task: Sequence[tuple[Any, ...]], schema: StructType) -> pa.RecordBatch:
    arrow = to_arrow_schema(schema)
    columns = zip(*task, strict=True) if task else [()] * len(arrow)
    arrays = [pa.array(item, field.type) for item, field in zip(columns, arrow, strict=True)]
    return pa.record_batch(arrays, schema=arrow)


def travelled(value: Any) -> Any:
    """A value as it is in another process."""
    return pickle.loads(pickle.dumps(value))


@contextlib.contextmanager
def as_task(task: Task) -> Iterator[None]:
    """Run the block as that attempt of a task."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "TaskContext", task)
        patch.setattr(exactly_once, "TaskContext", task)
        patch.setattr(worker, "TaskContext", task)
        yield


@contextlib.contextmanager
def dying(at: int, *, after_it: bool) -> Iterator[list[bool]]:
    """The process dies at a request about transactions, counted from 0: before or after its broker got it.
    Of those that are asked together the ones before it were sent. Gives a list that holds something then."""
    count, lock, died = itertools.count(), threading.Lock(), list[bool]()

    def left_of(requests: Sequence[Any]) -> Sequence[Any]:
        """Part of these requests that is sent."""
        with lock:
            numbers = [next(count) for _ in requests]
            if died:
                raise Died
            if at not in numbers:
                return requests
            died.append(True)
            return requests[: numbers.index(at) + after_it]

    def dies(name: str, *, is_alone: bool) -> None:
        ask = getattr(TransactionRequests, name)

        def asked(sender: TransactionRequests, given: Any) -> Any:
            sent = left_of([given] if is_alone else given)
            answer = ask(sender, given if is_alone else sent) if sent else None
            if died:
                raise Died
            return answer

        patch.setattr(TransactionRequests, name, asked)

    with pytest.MonkeyPatch.context() as patch:
        dies("_send", is_alone=True)
        dies("_send_together", is_alone=False)
        with contextlib.suppress(Died):
            yield died


@contextlib.contextmanager
def losing(transaction: Transaction) -> Iterator[None]:
    """A transaction is over, as one that timed out, when it is decided that it is to be committed."""
    asked, ended = TransactionRequests._send, list[Request]()

    def loses(sender: TransactionRequests, request: Request) -> Any:
        if isinstance(request, EndTransaction) and request.transaction == transaction and not ended:
            ended.append(request)
            asked(sender, InitProducerId(transaction.id))
        return asked(sender, request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionRequests, "_send", loses)
        yield


def await_readers(bootstrap_servers: str, topic: str, partitions: int, within_s: float = DEADLINE_S) -> float:
    """Wait until no transaction keeps a foreign reader of what is committed waiting; how long, seconds."""
    began_s = time.monotonic()

    def is_free(partition: int) -> bool:
        stable = librdkafka.offsets(bootstrap_servers, topic, partition, isolation_level="read_committed")
        return stable == librdkafka.offsets(bootstrap_servers, topic, partition)

    for partition in range(partitions):
        poll(partial(is_free, partition), f"nothing is open in {topic} {partition}", within_s)
    return time.monotonic() - began_s


def committed(bootstrap_servers: str, topic: str, partitions: int) -> list[bytes]:
    """All values that a foreign reader of what is committed sees, sorted."""
    topic_partitions = [(topic, number) for number in range(partitions)]
    result = librdkafka.consume_partitions(
        bootstrap_servers, topic_partitions, isolation_level="read_committed"
    )
    return sorted(record.value or b"" for records in result.values() for record in records)
