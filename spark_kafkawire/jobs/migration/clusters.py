"""The two clusters of a migration, and how tasks read from them. Travels to the tasks."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from ...clients.reading.fetcher import Fetcher, FetchTask
from ...clients.writing.modern.batches import Position
from ...clients.writing.modern.producer import Producer
from ...cluster.cluster import Cluster, cluster_of
from ...cluster.modern.metadata import Metadata
from ...errors import OptionError, shown
from ...model import Generation, OffsetRange, TopicPartition
from ...net.known_versions import KNOWN
from ...options import FetchOptions, ReadOptions, WriteOptions, reading_options
from ...records.columns import Columns
from .source_headers import are_from

#: What the job sets itself, or must be sure of.
_OWN_SOURCE: Final = ("subscribe", "assign", "starting", "ending", "minpartitions", "maxbytesperpartition")
_OWN_TARGET: Final = (
    "topic",
    "acks",
    "kafka.acks",
    "kafka.enable.idempotence",
    "partitioner",
    "delivery",
)
#: Clusters, and the options that name them.
_NAMED: Final[Mapping[Generation, str]] = MappingProxyType(
    {
        Generation.V07: "Kafka 0.7: zookeeper.connect or broker.list",
        Generation.MODERN: "Kafka 0.8 or later: kafka.bootstrap.servers",
    }
)


def source_options(options: Mapping[str, str], selection: Mapping[str, str]) -> ReadOptions:
    """Options of the source, with the topics to read. Raises ``OptionError`` (fatal)."""
    for name in options:
        if name.lower().startswith(_OWN_SOURCE):
            raise OptionError(f"argument --source-option: {shown(name)} is not for a migration")
    parsed = ReadOptions.parse({**options, **selection})
    _check_generation("source", parsed.discovery.generation, Generation.V07)
    return parsed


def target_options(options: Mapping[str, str]) -> tuple[ReadOptions, WriteOptions]:
    """Options to read the target, of topics that are told later, and to write it. Raises ``OptionError``."""
    for name in options:
        if name.lower() in _OWN_TARGET or name.lower().startswith("kafka.partitioner."):
            raise OptionError(
                f"argument --target-option: {name} is not for a migration, which waits for all replicas and "
                "keeps the order of each log"
            )
    write = WriteOptions.parse(options)
    _check_generation("target", write.discovery.generation, Generation.MODERN)
    return ReadOptions.parse({**reading_options(options), "subscribe": "any"}), write


def _check_generation(role: str, given: Generation, needed: Generation) -> None:
    if given is not needed:
        raise OptionError(f"argument --{role}-option: the {role} is a cluster of {_NAMED[needed]}")


@dataclass(frozen=True)
class Clusters:
    """Source and target, as a task sees them. ``source_headers`` tells that messages carry them."""

    source: ReadOptions
    target: ReadOptions
    write: WriteOptions
    source_headers: bool = False

    def for_tasks(self) -> Clusters:
        """The same without ZooKeeper's credential, which only the driver needs, and with what the
        target's brokers offered, below which none may fall."""
        discovery = replace(self.source.discovery, zookeeper_auth=None)
        floor = KNOWN.floor(self.write.net.connection)
        return replace(
            self,
            source=replace(self.source, discovery=discovery),
            target=replace(self.target, net=self.target.net.of_brokers(floor)),
            write=replace(self.write, net=self.write.net.of_brokers(floor)),
        )

    @cached_property
    def metadata(self) -> Metadata:
        """Who leads the target's partitions."""
        return Metadata(self.write.discovery.bootstrap_servers, self.write.net)

    @cached_property
    def target_cluster(self) -> Cluster:
        return cluster_of(self.target)

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in ("source", "target", "write", "source_headers")}

    def target_end(self, log: TopicPartition) -> int:
        """The offset of the target's next record."""
        return self.target_cluster.bounds([log])[log].latest

    def producer(self, log: TopicPartition, position: Position) -> Producer:
        """A producer that goes on in a partition of the target."""
        return Producer(self.metadata, self.write, {log: position})

    def source_columns(self, task: FetchTask) -> Generator[Columns]:
        """The messages of a range of the source; the last row of each piece ends an outermost one. Whoever
        does not read them to their end closes it: a connection is open meanwhile.

        What is lost after the run was planned is an error, whatever ``failOnDataLoss`` says.
        """
        cluster = cluster_of(self.source, (task.leader.broker,))
        yield from Fetcher(task, cluster, _strict(self.source), self.source.net).columns()

    def source_start(self, task: FetchTask) -> int:
        """The first offset of the log that a range is of, now."""
        log = task.range.log
        return cluster_of(self.source, (task.leader.broker,)).bounds([log])[log].earliest

    def copied_values(
        self, source: TopicPartition, target: TopicPartition, start_offset: int, stop_offset: int
    ) -> Generator[pa.Array]:
        """The values in a range of the target: with source headers, of messages from ``source`` alone. To be
        closed as ``source_columns``."""
        if start_offset >= stop_offset:
            return
        log_range = OffsetRange(target, start_offset, stop_offset)
        leader = self.target_cluster.leaders_of([target])[target]
        wanted = frozenset({"value", "headers"} if self.source_headers else {"value"})
        fetcher = Fetcher(
            FetchTask(log_range, leader, floor=self.target.net.connection.floor),
            self.target_cluster,
            _strict(self.target),
            self.target.net,
            wanted=wanted,
        )
        for columns in fetcher.columns():
            assert columns.values is not None
            if self.source_headers:
                yield columns.values.filter(are_from(source, columns.headers, columns.count))
            else:
                yield columns.values


def _strict(options: ReadOptions) -> FetchOptions:
    return replace(options.fetch, fail_on_data_loss=True)
