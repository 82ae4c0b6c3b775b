"""The stream reader: Spark asks it how far each batch goes and what its tasks read.

One lives in a process of its own for as long as a query runs, and plans. Others are made only to be
pickled, and ``read`` in the tasks: what they need is in their partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from ..clients.features import warn_of_columns_read
from ..cluster.group_commits import GroupCommits, commits_of
from ..errors import KafkaWireError, OptionError
from ..model import TopicPartition
from ..options import StreamOptions
from ..options.offsets import LOG_SYNTAX
from ..planner.key_order import chains
from ..planner.stream_offsets import from_json, is_pinned, to_json
from ..planner.stream_planner import StreamPlanner
from .ending import before_sigterm
from .partition import KafkaWirePartition, options_of_tasks
from .schema import check_read_schema, read_schema
from .spark_versions import arrow_schema
from .worker import batch_of_task

if TYPE_CHECKING:
    from ..planner.group_planner import GroupPlanner

#: Where a query stands, as Spark writes it into the checkpoint: by topic and partition.
JsonOffsets = dict[str, dict[str, int]]


class RefusedStream(DataSourceStreamReader):
    """Raises what was wrong. Spark 4.3 shows no error of ``streamReader()`` itself: the process of the query
    stops a reader then that it has not got, and its own error hides the one before."""

    def __init__(self, error: OptionError) -> None:
        self._error = error

    def initialOffset(self) -> JsonOffsets:
        """Raises ``OptionError`` (fatal)."""
        raise self._error

    # Spark before 4.2 asks without these, and later ones look at how many there are.
    def latestOffset(self, start: JsonOffsets | None = None, limit: object = None) -> JsonOffsets:  # noqa: ARG002
        """Raises ``OptionError`` (fatal)."""
        raise self._error

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:  # noqa: ARG002
        """Raises ``OptionError`` (fatal)."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Raises ``OptionError`` (fatal)."""
        raise self._error


class KafkaWireStreamReader(DataSourceStreamReader):
    """Reads what the options select, on and on; how far at once is of the classes below it, by what Spark's
    version asks."""

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        check_read_schema(schema, read_schema(options.read))
        self._options = options
        self._schema = arrow_schema(schema)
        self._are_columns_checked = False
        self._leave: Callable[[], None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What travels to the tasks."""
        return {
            "_options": StreamOptions(options_of_tasks(self._options.read), self._options.limits),
            "_schema": self._schema,
        }

    @cached_property
    def _planner(self) -> StreamPlanner | GroupPlanner:
        if self._options.read.membership is None:
            return StreamPlanner(self._options)
        # A query that joins no group imports nothing of it.
        from ..planner.group_planner import GroupPlanner

        planner = GroupPlanner(self._options)
        self._leave = planner.close
        before_sigterm(planner.close)
        return planner

    def stop(self) -> None:
        """Leave the group that the query has joined. Spark mostly ends the process instead."""
        if self._leave is not None:
            self._leave()

    @cached_property
    def _commits(self) -> GroupCommits:
        return commits_of(self._options.read)

    def initialOffset(self) -> JsonOffsets:
        """Where a new query starts; Spark asks until the first batch is done, and again after a crash."""
        return to_json(self._planner.initial())

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        """One Spark partition for each planned range between the two, or for those that follow each other."""
        begins, ends = self._from_json(start), self._from_json(end, is_end=True)
        tasks = self._planner.tasks(begins, ends, is_pinned=is_pinned(end))
        if tasks and not self._are_columns_checked:
            warn_of_columns_read(self._schema.names, self._options.read.net.connection)
            self._are_columns_checked = True
        return [KafkaWirePartition(*chain) for chain in chains(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one range, as Arrow batches of the schema's columns."""
        from .reading import read_partition

        try:
            yield from read_partition(partition, self._options.read, self._schema)
        except KafkaWireError as error:
            raise error.located(batch_of_task()) from error

    def commit(self, end: JsonOffsets) -> None:
        """Have the group follow, where one does. Where the query stands is in its checkpoint.

        Spark tells of a batch that is done when it plans the next one: the last one is never told.
        """
        if self._options.commits_offsets:
            self._commits.commit(self._from_json(end))

    def _from_json(self, offsets: Any, *, is_end: bool = False) -> dict[TopicPartition, int]:
        syntax = LOG_SYNTAX[self._options.read.discovery.generation]
        return from_json(offsets, syntax, unpinned=self._planner.is_begun and not is_end)


def create_stream_reader(
    kind: type[KafkaWireStreamReader], raw: Mapping[str, str], schema: StructType
) -> DataSourceStreamReader:
    """The stream of these options, or one that says what is wrong with them as soon as it is asked."""
    try:
        return kind(StreamOptions.parse(raw), schema)
    except OptionError as error:
        return RefusedStream(error)
