"""The two clusters of a migration, and how tasks read from them. Travels to the tasks."""

from __future__ import annotations

from collections.abc import Container, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from ...clients.reading.fetcher import Fetcher
from ...clients.reading.task import FetchTask
from ...clients.writing.modern.batches import Position
from ...clients.writing.modern.producer import Membership, Producer
from ...cluster.cluster import Cluster, cluster_of
from ...cluster.modern.metadata import Metadata
from ...errors import OptionError, shown
from ...model import Generation, OffsetRange, TopicPartition
from ...net.known_versions import KNOWN
from ...options import FetchOptions, ReadOptions, WriteOptions, reading_options
from ...options.transactions import EXACTLY_ONCE
from ...protocol.modern.isolation import READ_COMMITTED
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
    "batch",
    "twophasecommit",
)
_NAME: Final = "kafka.transactional.id"
#: What arguments of the job tell.
_OF_TRANSACTIONS: Final = ("delivery", _NAME)
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


def target_options(
    options: Mapping[str, str], *, exactly_once: bool = False, transactional_id: str | None = None
) -> tuple[ReadOptions, WriteOptions]:
    """Options to read the target, of topics that are told later, and to write it: in transactions where that
    is to be ``exactly_once``, whose ids begin with a name. Raises ``OptionError``."""
    if transactional_id is not None and not exactly_once:
        raise OptionError("argument --transactional-id goes with --exactly-once")
    for name in options:
        if name.lower() in _OWN_TARGET or name.lower().startswith("kafka.partitioner."):
            raise OptionError(
                f"argument --target-option: {name} is not for a migration, which waits for all replicas and "
                "keeps the order of each log"
            )
    write = WriteOptions.parse({**options, **_of_transactions(options, exactly_once, transactional_id)})
    _check_generation("target", write.discovery.generation, Generation.MODERN)
    return ReadOptions.parse({**reading_options(options), "subscribe": "any"}), write


def _of_transactions(
    options: Mapping[str, str], exactly_once: bool, transactional_id: str | None
) -> dict[str, str]:
    """The options that make it transactions."""
    for name in options:
        if name.lower() in _OF_TRANSACTIONS:
            raise OptionError(
                f"argument --target-option: {name} is told by --exactly-once and --transactional-id"
            )
        if exactly_once and name.lower() == "kafka.isolation.level":
            raise OptionError(
                f"argument --target-option: {name} is not for --exactly-once, which reads what is committed"
            )
    if not exactly_once:
        return {}
    return {"delivery": EXACTLY_ONCE, **({} if transactional_id is None else {_NAME: transactional_id})}


def _check_generation(role: str, given: Generation, needed: Generation) -> None:
    if given is not needed:
        raise OptionError(f"argument --{role}-option: the {role} is a cluster of {_NAMED[needed]}")


@dataclass(frozen=True)
class Clusters:
    """Source and target, as a task sees them. ``source_headers`` tells that messages carry them;
    ``write.transactions`` that they are written in transactions, and then what is committed is read."""

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

    def in_transactions(self, prefix: str | None = None, timeout_ms: int | None = None) -> Clusters:
        """The same with another name of the transactions, or another timeout."""
        before = self.write.transactions
        assert before is not None
        after = replace(before, prefix=prefix or before.prefix, timeout_ms=timeout_ms or before.timeout_ms)
        return replace(self, write=replace(self.write, transactions=after))

    @property
    def are_in_transactions(self) -> bool:
        """Whether messages are written in transactions."""
        return self.write.transactions is not None

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
        """The offset of the target's next record, also of what is not committed."""
        return self.target_cluster.bounds([log])[log].latest

    def producer(self, log: TopicPartition, position: Position) -> Producer:
        """A producer that goes on in a partition of the target."""
        return Producer(self.metadata, self.write, {log: position})

    def member(self, membership: Membership) -> Producer:
        """A producer of a transaction."""
        return Producer(self.metadata, self.write, membership=membership)

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
        wanted = frozenset({"value", "headers"} if self.source_headers else {"value"})
        for columns in self._target_columns(OffsetRange(target, start_offset, stop_offset), wanted):
            assert columns.values is not None
            if self.source_headers:
                yield columns.values.filter(are_from(source, columns.headers, columns.count))
            else:
                yield columns.values

    def first_offset(self, target: TopicPartition, start_offset: int, stop_offset: int) -> int | None:
        """The offset of the first message in a range of the target that counts; None where there is none."""
        with closing(
            self._target_columns(OffsetRange(target, start_offset, stop_offset), {"offset"})
        ) as pieces:
            return next((int(columns.offset[0]) for columns in pieces if columns.count), None)

    def _target_columns(self, log_range: OffsetRange, wanted: Container[str]) -> Generator[Columns]:
        """What counts in a range of the target: in transactions what is committed."""
        if not log_range.size:
            return
        fetch = _strict(self.target)
        if self.are_in_transactions:
            fetch = replace(fetch, isolation_level=READ_COMMITTED)
        leader = self.target_cluster.leaders_of([log_range.log])[log_range.log]
        task = FetchTask(log_range, leader, floor=self.target.net.connection.floor)
        yield from Fetcher(task, self.target_cluster, fetch, self.target.net, wanted=wanted).columns()


def _strict(options: ReadOptions) -> FetchOptions:
    return replace(options.fetch, fail_on_data_loss=True)
