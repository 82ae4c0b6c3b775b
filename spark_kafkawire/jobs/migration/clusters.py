"""The two clusters of a migration, and how tasks read from them. Travels to the tasks.

Source headers name the place of a copied message in the source:

==================  =========================================
header              value, decimal except the topic's name
==================  =========================================
source.topic        the topic in the source
source.broker       the broker's id
source.partition    the partition's number on that broker
source.offset       byte offset of the outermost message
source.index        place inside a compressed message, else 0
==================  =========================================
"""

from __future__ import annotations

from collections.abc import Container, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafkawire.clients.reading.fetcher import Fetcher
from spark_kafkawire.clients.reading.log_files import LogFiles
from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.clients.writing.modern.batches import ProducerPosition
from spark_kafkawire.clients.writing.modern.producer import Producer, ProducerTransaction
from spark_kafkawire.cluster import Cluster, cluster_of
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import Generation, OffsetRange, TopicPartition
from spark_kafkawire.net.known_versions import BROKER_VERSIONS
from spark_kafkawire.options import BadRecords, FetchOptions, ReadOptions, WriteOptions, reading_options
from spark_kafkawire.planner.batch import with_files
from spark_kafkawire.protocol.modern.limits import READ_COMMITTED
from spark_kafkawire.records.columns import HEADERS, Columns


def source_options(options: Mapping[str, str], selection: Mapping[str, str]) -> ReadOptions:
    """Options of the source, with the topics to read. Raises ``OptionError`` (fatal)."""
    parsed = ReadOptions.parse({**options, **selection})
    _check_generation(
        "source", parsed.discovery.generation, Generation.V07, "zookeeper.connect, broker.list or path"
    )
    return parsed


def target_options(
    options: Mapping[str, str], transactions: Mapping[str, str] = MappingProxyType({})
) -> tuple[ReadOptions, WriteOptions]:
    """Options to read the target, without its topics, and to write it, with those of ``transactions`` if the
    job writes in some. Raises ``OptionError``."""
    for name in options if transactions else ():
        if name.lower() == "kafka.isolation.level":
            raise OptionError(
                f"argument --target-option: {name} is not for --exactly-once, which reads what is committed; "
                "leave it out"
            )
    write = WriteOptions.parse({**options, **transactions})
    _check_generation("target", write.discovery.generation, Generation.MODERN, "kafka.bootstrap.servers")
    return ReadOptions.parse({**reading_options(options), "subscribe": "any"}), write


def _check_generation(role: str, given: Generation, needed: Generation, discovery: str) -> None:
    if given is not needed:
        raise OptionError(f"argument --{role}-option: the {role} is a cluster of {needed.title}: {discovery}")


@dataclass(frozen=True)
class Clusters:
    """Source and target, as a task sees them. ``source_headers`` is true if messages carry them. With
    ``write.transactions`` messages are written in transactions, and only committed ones are read."""

    source: ReadOptions
    target: ReadOptions
    write: WriteOptions
    source_headers: bool = False

    def copy_for_tasks(self) -> Clusters:
        """A copy without ZooKeeper's credential, which only the driver needs, and with the versions that the
        target's brokers offered, below which none may fall; with a delegation token as the login if the
        driver gets one."""
        from spark_kafkawire.cluster.modern.delegation_tokens import net_of_tasks

        discovery = replace(self.source.discovery, zookeeper_auth=None)
        minimum = BROKER_VERSIONS.minimum(self.write.net.connection)
        return replace(
            self,
            source=replace(self.source, discovery=discovery),
            target=replace(self.target, net=net_of_tasks(self.target.net.adapt_to_brokers(minimum))),
            write=replace(self.write, net=net_of_tasks(self.write.net.adapt_to_brokers(minimum))),
        )

    def copy_in_transactions(self, prefix: str | None = None, timeout_ms: int | None = None) -> Clusters:
        """A copy with another name of the transactions, or another timeout."""
        before = self.write.transactions
        assert before is not None
        after = replace(before, prefix=prefix or before.prefix, timeout_ms=timeout_ms or before.timeout_ms)
        return replace(self, write=replace(self.write, transactions=after))

    @property
    def are_in_transactions(self) -> bool:
        """True if messages are written in transactions."""
        return self.write.transactions is not None

    @cached_property
    def metadata(self) -> Metadata:
        """The leaders of the target's partitions."""
        return Metadata(self.write.discovery.bootstrap_servers, self.write.net)

    @cached_property
    def target_cluster(self) -> Cluster:
        return cluster_of(self.target)

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("source", "target", "write", "source_headers")}

    def target_end(self, partition: TopicPartition) -> int:
        """The offset of the target's next record, after uncommitted records, too."""
        return self.target_cluster.bounds([partition])[partition].latest

    def producer(self, partition: TopicPartition, position: ProducerPosition) -> Producer:
        """A producer that continues in a partition of the target."""
        return Producer(self.metadata, self.write, {partition: position})

    def member(self, transaction: ProducerTransaction) -> Producer:
        """A producer of a transaction."""
        return Producer(self.metadata, self.write, transaction=transaction)

    def source_columns(self, task: FetchTask) -> Generator[Columns]:
        """The messages of a range of the source; the last row of each piece ends an outermost one. A caller
        that does not read to the end closes it: it holds a connection.

        Messages that are lost after the run was planned, or damaged, are an error, whatever
        ``failOnDataLoss`` and ``badRecords`` say.
        """
        cluster = cluster_of(self.source, (task.leader.broker,))
        if self.source.discovery.directories is not None:
            for part in with_files((task,), cluster):
                yield from LogFiles(part, _strict(self.source)).columns()
            return
        yield from Fetcher(task, cluster, _strict(self.source), self.source.net).columns()

    def source_start(self, task: FetchTask) -> int:
        """The first offset of the log that a range is of, now."""
        partition = task.range.topic_partition
        return cluster_of(self.source, (task.leader.broker,)).bounds([partition])[partition].earliest

    def read_copied_values(
        self, source: TopicPartition, target: TopicPartition, start_offset: int, stop_offset: int
    ) -> Generator[pa.Array]:
        """The values in a range of the target: with source headers, of messages from ``source`` alone. To be
        closed as ``source_columns``."""
        wanted = frozenset({"value", "headers"} if self.source_headers else {"value"})
        for columns in self._target_columns(OffsetRange(target, start_offset, stop_offset), wanted):
            assert columns.values is not None
            if self.source_headers:
                yield columns.values.filter(are_from(source, columns.headers, columns.count))
            else:
                yield columns.values

    def first_offset(self, target: TopicPartition, start_offset: int, stop_offset: int) -> int | None:
        """The offset of the first message in a range of the target that counts; None if the range has no such
        message."""
        with closing(
            self._target_columns(OffsetRange(target, start_offset, stop_offset), {"offset"})
        ) as pieces:
            return next((int(columns.offset[0]) for columns in pieces if columns.count), None)

    def _target_columns(self, offset_range: OffsetRange, wanted: Container[str]) -> Generator[Columns]:
        """The records that count in a range of the target: with transactions, the committed ones."""
        if not offset_range.size:
            return
        fetch = _strict(self.target)
        if self.are_in_transactions:
            fetch = replace(fetch, isolation_level=READ_COMMITTED)
        leader = self.target_cluster.leaders_of([offset_range.topic_partition])[offset_range.topic_partition]
        task = FetchTask(offset_range, leader, minimum_versions=self.target.net.connection.minimum_versions)
        yield from Fetcher(task, self.target_cluster, fetch, self.target.net, wanted=wanted).columns()


def _strict(options: ReadOptions) -> FetchOptions:
    return replace(options.fetch, fail_on_data_loss=True, bad_records=BadRecords.FAIL)


TOPIC: Final = "source.topic"
BROKER: Final = "source.broker"
PARTITION: Final = "source.partition"
OFFSET: Final = "source.offset"
INDEX: Final = "source.index"


def headers_of(topic_partition: TopicPartition, columns: Columns) -> pa.ListArray:
    """The headers of each message, as the column ``headers`` of a write."""
    count = columns.count
    fields = {
        TOPIC: pa.repeat(pa.scalar(topic_partition.topic.encode()), count),
        BROKER: pa.repeat(pa.scalar(b"%d" % (topic_partition.broker or 0)), count),
        PARTITION: pa.repeat(pa.scalar(b"%d" % topic_partition.partition), count),
        OFFSET: _decimal(columns.offset),
        INDEX: _decimal(columns.index if columns.index is not None else np.zeros(count, np.int32)),
    }
    size = len(fields)
    # Field by field becomes message by message.
    order = pa.array(np.arange(size * count).reshape(size, count).T.ravel())
    values = pa.concat_arrays(list(fields.values())).take(order)
    keys = pa.array(list(fields)).take(pa.array(np.tile(np.arange(size), count)))
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * np.int32(size))
    return pa.ListArray.from_arrays(offsets, pairs, type=HEADERS)


def are_from(topic_partition: TopicPartition, headers: pa.ListArray | None, count: int) -> pa.BooleanArray:
    """A mask of the ``count`` messages that came from this partition, by their headers."""
    mask = np.zeros(count, np.bool_)
    if headers is None or not count:
        return pa.array(mask)
    pairs, rows = pc.list_flatten(headers), pc.list_parent_indices(headers)
    keys, values = pairs.field("key"), pairs.field("value")
    located = [
        (TOPIC, topic_partition.topic.encode()),
        (BROKER, b"%d" % (topic_partition.broker or 0)),
        (PARTITION, b"%d" % topic_partition.partition),
    ]
    mask[:] = True
    for key, value in located:
        is_located = pc.fill_null(pc.and_(pc.equal(keys, key), pc.equal(values, pa.scalar(value))), False)
        is_stated = np.zeros(count, np.bool_)
        is_stated[rows.filter(is_located).to_numpy(zero_copy_only=False)] = True
        mask &= is_stated
    return pa.array(mask)


def _decimal(numbers: np.typing.NDArray[np.integer]) -> pa.BinaryArray:
    return pa.array(numbers).cast(pa.string()).cast(pa.binary())
