"""The stream reader: Spark asks it for the end of each batch and for the input of its tasks.

One lives in a process of its own for as long as a query runs, and plans. Others are made only to be
pickled, and ``read`` in the tasks: what they need is in their partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from ..clients.features import warn_of_columns_read
from ..cluster.group_commits import GroupCommits, commits_of
from ..errors import KafkaWireError, OptionError
from ..options import StreamOptions
from ..options.selection import PARTITION_SYNTAX
from ..planner.batch import hint, spark_partitions
from ..planner.stream import StreamPlanner
from ..planner.stream_offsets import Offsets, Position, from_json, ids_from_json, is_pinned, to_json
from .edge import edge
from .schema import Schemas, check_read, pack_typed_task
from .spark_versions import arrow_schema
from .worker import KafkaWirePartition, Packed, batch_of_task, call_before_sigterm

if TYPE_CHECKING:
    from ..net.sasl import Sasl
    from ..planner.v07 import GroupPlanner

#: In the progress of a query that has joined a group, before the id of its consumer.
CONSUMER_MARK: Final = "consumer of kafkawire "

#: The position of a query, as Spark writes it into the checkpoint: by topic and partition.
JsonOffsets = dict[str, dict[str, int]]


class RefusedStream(DataSourceStreamReader):
    """A stream that raises the error of its options. Spark 4.3 hides an error of ``streamReader()`` itself:
    the process of the query then stops a reader that it did not get, and that error replaces the first
    one."""

    def __init__(self, error: KafkaWireError) -> None:
        self._error = error

    @edge
    def initialOffset(self) -> JsonOffsets:
        """Raises ``OptionError`` (fatal)."""
        raise self._error

    # Spark before 4.2 asks without these, and later ones look at how many there are.
    @edge
    def latestOffset(self, start: JsonOffsets | None = None, limit: object = None) -> JsonOffsets:  # noqa: ARG002
        """Raises ``OptionError`` (fatal)."""
        raise self._error

    @edge
    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:  # noqa: ARG002
        """Raises ``OptionError`` (fatal)."""
        raise self._error

    @edge
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Raises ``OptionError`` (fatal)."""
        raise self._error


class KafkaWireStreamReader(DataSourceStreamReader):
    """Reads the selected topics continuously. Subclasses choose the end of each batch, as the version of
    Spark asks for it."""

    def __init__(self, options: StreamOptions, schema: StructType, schemas: Schemas | None = None) -> None:
        check_read(schema, options.read)
        self._options = options
        self._of_tasks = Packed(options.read.of_tasks)
        self._schema = arrow_schema(schema)
        self._typed = pack_typed_task(options.read, schema, self._schema, schemas)
        self._are_columns_checked = self._is_hinted = False
        self._parsed: tuple[bool, JsonOffsets, Position] | None = None
        self._reported: tuple[Offsets, JsonOffsets] = {}, {}
        self._leave: Callable[[], None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """State that travels with each task."""
        return {"_of_tasks": self._of_tasks, "_schema": self._schema, "_typed": self._typed}

    @cached_property
    def _planner(self) -> StreamPlanner | GroupPlanner:
        if self._options.read.membership is None:
            return StreamPlanner(self._options)
        # A query that joins no group imports nothing of it.
        from ..planner.v07 import GroupPlanner

        planner = GroupPlanner(self._options)
        self._leave = planner.close
        call_before_sigterm(planner.close)
        return planner

    def _consumer_mark(self) -> JsonOffsets:
        """The query's consumer in the group that it has joined, for its progress."""
        if self._options.read.membership is None:
            return {}
        from ..planner.v07 import GroupPlanner

        planner = self._planner
        assert isinstance(planner, GroupPlanner)
        return {f"{CONSUMER_MARK}{planner.consumer}": {}}

    @edge
    def stop(self) -> None:
        """Leave the group that the query has joined, and expire its delegation token. Spark mostly ends the
        process instead."""
        if self._leave is not None:
            self._leave()

    @cached_property
    def _commits(self) -> GroupCommits:
        return commits_of(self._options.read)

    @edge
    def initialOffset(self) -> JsonOffsets:
        """The start of a new query; Spark asks until the first batch is done, and again after a crash."""
        return to_json(self._planner.initial())

    @edge
    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        """The Spark partitions between two offsets: one for each planned range, chain or pack of
        ranges."""
        begins, ends = self._from_json(start), self._from_json(end, is_end=True)
        tasks = self._planner.tasks(begins, ends, is_pinned=is_pinned(end))
        if tasks and not self._are_columns_checked:
            warn_of_columns_read(self._schema.names, self._options.read.net.connection)
            self._are_columns_checked = True
        login = self._login_of_tasks() if tasks else None
        self._is_hinted = self._is_hinted or hint(tasks, self._options.read)
        result = spark_partitions(tasks, self._options.read)
        return [KafkaWirePartition(*item, login=login) for item in result]

    def _login_of_tasks(self) -> Sasl | None:
        """The present delegation token; None if tasks log in as the driver does. It expires when the query
        stops."""
        net = self._options.read.net
        if not net.delegates:
            return None
        from ..cluster.modern.delegation_tokens import USED_BY_STREAMS, expire_tokens, login_of_tasks

        if self._leave is None:
            self._leave = partial(expire_tokens, net)
            call_before_sigterm(self._leave)
        return login_of_tasks(net, USED_BY_STREAMS)

    @edge
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one range, as Arrow batches of the schema's columns."""
        from .reading import read_partition

        try:
            yield from read_partition(partition, self._of_tasks.value, self._schema, self._typed)
        except KafkaWireError as error:
            raise error.locate(batch_of_task()) from error

    @edge
    def commit(self, end: JsonOffsets) -> None:
        """Commit the end to the consumer group, if there is one. The position of the query itself is in its
        checkpoint.

        Spark reports a finished batch when it plans the next one: it never reports the last one.
        """
        if self._options.commits_offsets:
            self._commits.commit(self._from_json(end).offsets)

    def _from_json(self, written: Any, *, is_end: bool = False) -> Position:
        """The position in a text of Spark. The last one is kept: an idle query has the same at each poll."""
        is_unpinned = self._planner.is_begun and not is_end
        if self._parsed is None or self._parsed[:2] != (is_unpinned, written):
            syntax = PARTITION_SYNTAX[self._options.read.discovery.generation]
            offsets = from_json(written, syntax, unpinned=is_unpinned)
            self._parsed = is_unpinned, written, Position(offsets, ids_from_json(written))
        return self._parsed[2]

    def _to_json(self, end: Position, start: Position) -> JsonOffsets:
        return to_json(end.offsets, start.offsets, end.topic_ids)


class PositionStreamReader(KafkaWireStreamReader):
    """Keeps the position of its query, which Spark before 4.2 does not pass with the request for an end.

    It passes the end of the last batch of the checkpoint, committed or not, to ``partitions`` before anything
    else, as both offsets. Without a checkpoint the first request is the one for an end. Each end that it gets
    becomes a batch. All triggers look the same. Raises ``OptionError`` (fatal) for limits unless the options
    name the trigger.
    """

    def __init__(self, options: StreamOptions, schema: StructType, schemas: Schemas | None = None) -> None:
        if options.limits.are_set and not options.limits.knows_trigger:
            raise OptionError(
                "maxOffsetsPerTrigger, minOffsetsPerTrigger and maxBytesPerTrigger: Spark "
                f"{pyspark.__version__} does not tell the trigger, and availableNow or once would stop after "
                "one limited batch: set queryTrigger=processingTime if the query has that trigger or none; "
                "else leave the limits out, or use Spark 4.2 or later"
            )
        if options.read.membership is not None:
            raise OptionError(
                "groupMembership=join needs Spark 4.2 or later, which reports the position of a query, and "
                f"this is {pyspark.__version__}: leave it out, or upgrade Spark"
            )
        super().__init__(options, schema, schemas)
        #: None before the first request. The offsets of another source may come in another order, which Spark
        #: takes for new data: that batch is empty.
        self._position: JsonOffsets | None = None

    # pyspark's types are those of its newest version.
    @edge
    def latestOffset(self) -> JsonOffsets:  # type: ignore[override]
        """The end of the next batch; the position if there is nothing to read."""
        if self._position is None:
            self._position = to_json(self._planner.initial())
        begins = self._from_json(self._position)
        ends = self._planner.next(begins)
        if ends != begins:
            self._position = self._to_json(ends, begins)
        return self._position

    @edge
    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        """The Spark partitions between two offsets, one for each planned range."""
        self._position = end
        return super().partitions(start, end)


def create_stream_reader(
    kind: type[KafkaWireStreamReader],
    raw: Mapping[str, str],
    schema: StructType,
    schemas: Schemas | None = None,
) -> DataSourceStreamReader:
    """The stream of these options, or one that raises their error, or that of the schema registry, at its
    first call."""
    try:
        return kind(StreamOptions.parse(raw), schema, schemas)
    except KafkaWireError as error:
        return RefusedStream(error)
