"""The batch reader: planned once on the driver, then one ``read`` for each range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ..clients.features import warn_of_columns_read
from ..clients.reading.fetcher import Fetcher
from ..cluster.cluster import cluster_of
from ..options import ReadOptions
from ..planner.batch import plan
from ..records import compiler
from ..records.arrow import BatchBuilder
from .partition import KafkaWirePartition
from .schema import check_read_schema, read_schema
from .worker import freeze_heap


class KafkaWireBatchReader(DataSourceReader):
    """Reads what the options select, as they were resolved when Spark planned the query."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_read_schema(schema, read_schema(options))
        self._options = options
        # Spark compares the first batch's schema with this one, field by field.
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def __getstate__(self) -> dict[str, Any]:
        """What travels to the tasks: all but how to log in to ZooKeeper, which only planning does."""
        discovery = replace(self._options.discovery, zookeeper_auth=None)
        return {**self.__dict__, "_options": replace(self._options, discovery=discovery)}

    def partitions(self) -> Sequence[InputPartition]:
        """One Spark partition for each planned range; a warning where brokers lack what a column asks for."""
        tasks = plan(self._options)
        if tasks:
            warn_of_columns_read(self._schema.names, self._options.net.connection)
        return [KafkaWirePartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one range, as Arrow batches of the schema's columns."""
        if not isinstance(partition, KafkaWirePartition):
            return  # Spark turns an empty plan into one partition without a range.
        task = partition.task
        options = replace(self._options, net=self._options.net.of_brokers(task.floor))
        cluster = cluster_of(options, (task.leader.broker,))
        wanted = frozenset(self._schema.names)
        fetcher = Fetcher(task, cluster, options.fetch, options.net, wanted=wanted)
        batches = BatchBuilder(task.range.log, self._schema)
        try:
            for columns in fetcher.columns():
                yield batches.build(columns)
        finally:
            freeze_heap(compiler.loaded())
