"""Streams without a JVM: a query that calls a stream reader as Spark does and keeps a checkpoint, and a sink.

What Spark calls and when: initialOffset, latestOffset(start, limit), the offset log, initialOffset again,
partitions, the tasks, and the commit log; after a restart the batch that was not committed first.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.source.spark_versions import HAS_READ_LIMITS, HAS_STREAM_SINKS

from .sparks import READ_LIMITS, needs

if HAS_READ_LIMITS:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from spark_kafkawire.source.stream_limits import LimitedStreamReader

#: Deadlines for tests: what is there is quick, and what is not should not take long.
QUICK = {"kafkaConsumer.pollTimeoutMs": "1s", "retryBackoff": "1ms", "requestTimeout": "30s"}


class Killed(Exception):
    """The process ends here, as ``kill -9`` ends it: nothing that it held is left."""


@dataclass
class Checkpoint:
    """Records of Spark's checkpoint: the end of each batch, written before it runs, and the batches
    that are done."""

    offsets: list[str] = field(default_factory=list)
    commits: int = 0


class Query:
    """One run of a query on a checkpoint; another one goes on where it was left."""

    def __init__(self, checkpoint: Checkpoint, once: bool = False, /, **options: str) -> None:
        needs(READ_LIMITS)
        raw = {name.replace("__", "."): value for name, value in options.items()}
        self._source = KafkaWireDataSource(raw)
        self._schema = self._source.schema()
        self.reader = self._make_writer()
        self._checkpoint = checkpoint
        self._limit = ReadAllAvailable() if once else self.reader.getDefaultReadLimit()

    def _make_writer(self) -> LimitedStreamReader:
        reader = self._source.streamReader(self._schema)
        if not isinstance(reader, LimitedStreamReader):
            reader.initialOffset()  # raises what is wrong
        assert isinstance(reader, LimitedStreamReader)
        return reader

    def batch(self, killed: str = "") -> list[dict[str, Any]] | None:
        """The rows of the next batch; ``killed`` names the step after which the process ends ("planned",
        "written", "read")."""
        number = self._checkpoint.commits
        if len(self._checkpoint.offsets) == number and not self._construct(number, killed):
            return None
        start = self._start(number)
        end = json.loads(self._checkpoint.offsets[number])
        rows = self._rows(start, end)
        if killed == "read":
            raise Killed
        self._checkpoint.commits += 1
        return rows

    def _construct(self, number: int, killed: str) -> bool:
        end = _json(self.reader.latestOffset(json.loads(_json(self._start(number))), self._limit))
        _json(self.reader.reportLatestOffset())
        if killed == "planned":
            raise Killed
        if number and end == self._checkpoint.offsets[number - 1]:
            return False
        self._checkpoint.offsets.append(end)
        if number:
            self.reader.commit(json.loads(self._checkpoint.offsets[number - 1]))
        if killed == "written":
            raise Killed
        return True

    def _start(self, number: int) -> Any:
        if number:
            return json.loads(self._checkpoint.offsets[number - 1])
        return json.loads(_json(self.reader.initialOffset()))

    def _rows(self, start: Any, end: Any) -> list[dict[str, Any]]:
        partitions = list(self.reader.partitions(start, end))
        # Another instance is made to be pickled, and reads in the tasks.
        tasks = self._source.streamReader(self._schema)
        reader, partitions = pickle.loads(pickle.dumps((tasks, partitions)))
        return [row for item in partitions for row in self._read(reader, item)]

    def _read(self, reader: LimitedStreamReader, partition: InputPartition) -> list[dict[str, Any]]:
        return [row for batch in reader.read(partition) for row in batch.to_pylist()]

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        """The rows of batch after batch, until there is nothing to read."""
        while (rows := self.batch()) is not None:
            yield rows

    def values(self) -> list[list[bytes]]:
        """The values of ``batches``, each batch sorted."""
        return [sorted(row["value"] for row in rows) for rows in self.batches()]

    def all_values(self) -> list[bytes]:
        """The values of all batches together, sorted."""
        return sorted(value for values in self.values() for value in values)


def available_now(checkpoint: Checkpoint, /, **options: str) -> Query:
    """A query with the trigger AvailableNow."""
    query = Query(checkpoint, **options)
    query.reader.prepareForTriggerAvailableNow()
    return query


def _json(offsets: Any) -> str:
    return json.dumps(offsets)


if HAS_STREAM_SINKS:
    from spark_kafkawire.source.stream_writer import KafkaWireStreamWriter

VALUE: Final = StructType([StructField("value", StringType())])


def writer(schema: StructType = VALUE, complete: bool = False, /, **options: str) -> KafkaWireStreamWriter:
    """Writer of Spark for a stream with these options, whose names have ``__`` for dots."""
    raw = {name.replace("__", "."): value for name, value in options.items()}
    made = KafkaWireDataSource(raw).streamWriter(schema, complete)
    assert isinstance(made, KafkaWireStreamWriter)
    return made


def task(planned: KafkaWireStreamWriter, *values: str) -> Any:
    """One task of a batch, in a process of its own but for that."""
    return pickle.loads(pickle.dumps(planned)).write(
        iter([pa.RecordBatch.from_pydict({"value": pa.array(values)})])
    )
