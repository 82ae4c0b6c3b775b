"""A run of a migration: plan, open, copy, verify, close; and the report at its end.

The plan has the partitions to copy and the topics that must exist for them. The opening of a partition finds
where its copy continues, and gets its producer id.

The target may hold messages that the state directory does not know, because the directory was restored
from an older copy or is new. So the target is checked: messages of the source after the mark, or at the
beginning of a target that the state has never written to, reveal this.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.clients.writing.modern import ModernWritePartitions
from spark_kafkawire.clients.writing.modern.batches import obtain_producer_id
from spark_kafkawire.cluster import cluster_of
from spark_kafkawire.cluster.modern.admin import create_topics
from spark_kafkawire.errors import (
    DataLossError,
    DeliveryError,
    DiscoveryError,
    KafkaWireError,
    OptionError,
    counted,
    plural,
    quote,
)
from spark_kafkawire.model import Leader, OffsetRange, PartitionBounds, TopicPartition
from spark_kafkawire.planner.batch import select
from spark_kafkawire.protocol.modern.admin import BROKER_DEFAULT

from ..arguments import (
    TRANSACTION_OPTIONS,
    arg,
    check_needs,
    connection_args,
    exactly_once_options,
    flag,
    gone_broker_arg,
    positive,
    topic_args,
)
from ..ending import Interrupted
from ..progress import Progress, Work, align_rows, print_summary, repeating
from ..state import ExpectedPartitions, missing_lines, missing_text
from .clusters import Clusters, source_options, target_options
from .copying import CopiedPiece, Copier, CopyTask, Verified, Verifier, VerifyTask
from .exactly_once import PartitionTransaction, begin, check_topic_acls, end_open
from .state import (
    Mark,
    PartitionProgress,
    Route,
    State,
    StateDirectory,
    load_state,
    parse_names,
    partition_counts,
    routes_of,
)


@dataclass(frozen=True, slots=True)
class PartitionCopy:
    """A partition to copy: its target, its offsets, and the progress of earlier runs.

    ``lost_bytes`` of the source are gone since then.
    """

    route: Route
    leader: Leader
    start_offset: int
    stop_offset: int
    progress: PartitionProgress | None = None
    lost_bytes: int = 0

    @property
    def size(self) -> int:
        """Bytes of the source to copy."""
        return self.stop_offset - self.start_offset

    def fetch_task(self, start_offset: int, stop_offset: int | None = None) -> FetchTask:
        """Read the source from an offset on, to the copy's end unless another is given."""
        stop = self.stop_offset if stop_offset is None else stop_offset
        return FetchTask(OffsetRange(self.route.source, start_offset, stop), self.leader)


def plan(
    clusters: Clusters, names: Mapping[str, str], state: State, gone_brokers: Collection[int] = ()
) -> tuple[tuple[PartitionCopy, ...], list[str]]:
    """A copy for each partition that the options select, up to its end now; and a line for each partition
    that earlier runs have copied and that is skipped, because its broker is among the ``gone_brokers``.

    Raises ``OptionError``, ``UnknownTopicError``, ``DiscoveryError``, ``DataLossError``, and the errors of
    asking the brokers (all fatal).
    """
    cluster = cluster_of(clusters.source)
    known = ExpectedPartitions(clusters.source, state.partitions, gone_brokers)
    known.await_brokers(cluster)
    partitions = select(clusters.source.selection, cluster)
    missing = known.missing(partitions)
    if others := [tp for tp in missing if not known.is_given_up(tp)]:
        raise DiscoveryError(f"{missing_text(others)}; start its broker, or give --gone-broker")
    routes = routes_of(partitions, names, {tp: done.target for tp, done in state.partitions.items()})
    leaders = cluster.leaders_of(partitions)
    if dead := [tp for tp in partitions if tp not in leaders]:
        raise DiscoveryError(
            f"{dead[0]}: broker {dead[0].broker} is not alive, and {len(dead)} of the {len(partitions)} "
            "partitions to copy cannot be read; start all brokers"
        )
    bounds = cluster.bounds(partitions)
    allowed = not clusters.source.fetch.fail_on_data_loss
    copies = tuple(
        _partition_copy(
            route, leaders[route.source], bounds[route.source], state.partitions.get(route.source), allowed
        )
        for route in routes
    )
    copied = {tp: progress.copied.source_offset for tp, progress in state.partitions.items()}
    return copies, missing_lines(missing, copied)


def _partition_copy(
    route: Route, leader: Leader, bounds: PartitionBounds, progress: PartitionProgress | None, allowed: bool
) -> PartitionCopy:
    start = bounds.earliest if progress is None else progress.copied.source_offset
    if start > bounds.latest:
        raise DataLossError(
            f"{route.source} ends at {bounds.latest} and was copied up to {start}: it is another partition "
            "than that of the state directory; begin with an empty one and a new topic"
        )
    lost = max(bounds.earliest - start, 0)
    if lost and (not allowed or (progress is not None and progress.is_open)):
        open_advice = "begin with an empty state directory and a new topic"
        advice = open_advice if allowed else "--source-option failOnDataLoss=false copies what is left"
        raise DataLossError(
            f"{route.source}: {lost} bytes from offset {start} on were deleted before they were copied; "
            f"{advice}"
        )
    return PartitionCopy(route, leader, start + lost, bounds.latest, progress, lost)


def missing_topics(clusters: Clusters, copies: Sequence[PartitionCopy], *, create: bool) -> dict[str, int]:
    """The target's missing topics, and the number of partitions that each gets.

    Raises ``OptionError`` (fatal) for names that brokers refuse, for topics with too few partitions,
    and if topics are missing but may not be created.
    """
    counts = partition_counts(copy.route for copy in copies)
    for topic in counts:
        if fault := ModernWritePartitions.topic_fault(topic):
            raise OptionError(f"topic {quote(topic)} of the target: {fault}; give it another name by --map")
    there = {topic.name: topic for topic in clusters.metadata.topics() if topic.leaders}
    for topic, count in counts.items():
        if topic in there and len(there[topic].leaders) < count:
            raise OptionError(
                f"topic {quote(topic)} of the target has {counted(len(there[topic].leaders), 'partition')}, "
                f"and {counted(count, 'partition is', 'partitions are')} copied to it; add partitions, or "
                "copy to another topic by --map"
            )
    missing = {topic: count for topic, count in counts.items() if topic not in there}
    if missing and not create:
        raise OptionError(
            f"topic {quote(min(missing))} ({len(missing)} in all) is not in the target; create it: "
            f"--create-topics does so with {counted(missing[min(missing)], 'partition')}"
        )
    return missing


def prepare_topics(
    clusters: Clusters,
    copies: Sequence[PartitionCopy],
    *,
    create: bool,
    replication_factor: int = BROKER_DEFAULT,
) -> dict[TopicPartition, str | None]:
    """Create missing topics. Returns the topic id of each target, None where topics have none.

    Raises as ``missing_topics`` and ``create_topics``, and ``OptionError`` for a topic that was deleted and
    created again since an earlier run.
    """
    missing = missing_topics(clusters, copies, create=create)
    create_topics(clusters.metadata, missing, clusters.write.net, replication_factor)
    leaders = clusters.metadata.leaders_of(copy.route.target for copy in copies)
    ids = {tp: str(leader.topic_id) if leader.topic_id else None for tp, leader in leaders.items()}
    for copy in copies:
        target, before = copy.route.target, copy.progress.topic_id if copy.progress else None
        if None is not before != ids[target] is not None:
            raise OptionError(
                f"topic {quote(target.topic)} of the target was deleted and created again since the "
                "last run; begin with an empty state directory"
            )
    return ids


#: Format of records whose batches carry an identity (Kafka 0.11).
_IDEMPOTENT_MAGIC: Final = 2
_ADVICE: Final = (
    "another --state copied it: continue with that one, or copy to a new topic with --map; otherwise all "
    "messages would be there twice"
)


def open_partition(
    clusters: Clusters, copy: PartitionCopy, target: PartitionBounds, topic_id: str | None
) -> PartitionProgress:
    """The partition's progress, to be saved before anything is sent.

    Raises ``OptionError`` (fatal) where another state directory has begun to copy it, and the errors of
    reading and of asking for a producer id.
    """
    before, note = copy.progress, _note(clusters, copy)
    if before is None:
        _check_new(clusters, copy, target, note)
        producer = None
        if not clusters.are_in_transactions:
            producer = obtain_producer_id(clusters.metadata, clusters.write, _IDEMPOTENT_MAGIC)
        mark = Mark(copy.start_offset, target.latest)
    else:
        producer = before.producer
        is_old = _is_old(clusters, copy, before.copied, target, note)
        at = before.copied.target_offset if is_old else target.latest
        mark = Mark(copy.start_offset, at, before.copied.message_count)
    return PartitionProgress(copy.route.source, copy.route.target, topic_id, producer, mark, mark)


def _note(clusters: Clusters, copy: PartitionCopy) -> Mark | None:
    """The mark that brokers keep, if the partition is copied in transactions."""
    if not clusters.are_in_transactions:
        return None
    with PartitionTransaction(clusters, copy.route) as transaction:
        return transaction.note()


def _is_old(
    clusters: Clusters, copy: PartitionCopy, mark: Mark, target: PartitionBounds, note: Mark | None
) -> bool:
    """True if more was copied than the state's mark says, as with an older copy of the state."""
    if note is not None and note.message_count >= mark.message_count:
        return note.is_after(mark)
    # Messages that the state does not know are after its mark.
    return _holds_next(clusters, copy, mark.target_offset, target.latest)


def _holds_next(clusters: Clusters, copy: PartitionCopy, start_offset: int, stop_offset: int) -> bool:
    """True if the target holds, in a range of it, the messages to copy next.

    With source headers a message anywhere in the range says so, without them its first one, by its
    value: other programs may have written there. Raises the errors of reading.
    """
    if not copy.size:
        return False
    target = copy.route.target
    with closing(clusters.read_copied_values(copy.route.source, target, start_offset, stop_offset)) as pieces:
        there = next((values[0] for values in pieces if len(values)), None)
    if there is None or clusters.source_headers:
        return there is not None
    with closing(clusters.source_columns(copy.fetch_task(copy.start_offset))) as source:
        first = next((item.values[0] for item in source if item.values is not None and item.count), None)
    return bool(there == first)


def _check_new(clusters: Clusters, copy: PartitionCopy, target: PartitionBounds, note: Mark | None) -> None:
    """Raise ``OptionError`` (fatal) where a partition that was never copied, by the state's account, was."""
    if note is not None:
        raise OptionError(
            f"argument --state: {copy.route.source} is copied to {copy.route.target} already, with this name "
            f"of transactions: {_ADVICE}"
        )
    # The first message is enough: a copy of another directory began there.
    first = clusters.first_offset(copy.route.target, target.earliest, target.latest)
    if first is not None and _holds_next(clusters, copy, first, first + 1):
        raise OptionError(
            f"argument --state: {copy.route.target} begins with the messages of {copy.route.source} already: "
            f"{_ADVICE}"
        )


T = TypeVar("T")
R = TypeVar("R")
#: A function that runs a function on many tasks, in parallel or not, and returns the results in their order.
Runner = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
#: A function that gets the messages of each topic that were read, and of each that were written.
Recorder = Callable[[Mapping[str, int], Mapping[str, int]], None]

#: Bytes of a partition that one task copies before the state is saved.
PIECE_BYTES: Final = 64 << 20
#: Seconds between two looks at how far the target's partitions have grown.
_LOOK_INTERVAL_S: Final = 2.0


#: Why options of a cluster are refused, by patterns.
_NOT_OF_SOURCE: Final = dict.fromkeys(
    ("subscribe*", "assign*", "starting*", "ending*", "minpartitions*", "maxbytesperpartition*"),
    "is not for a migration; leave it out",
)
_NOT_OF_TARGET: Final = dict.fromkeys(
    (
        "topic",
        "acks",
        "kafka.acks",
        "kafka.enable.idempotence",
        "partitioner",
        "kafka.partitioner.*",
        "batch",
        "twophasecommit",
    ),
    "is not for a migration, which waits for all replicas and keeps the order of each partition; leave it "
    "out",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the user; ``source`` and ``target`` are options of the data source."""

    selection: Mapping[str, str] = topic_args("copy", group="input")
    names: Mapping[str, str] = arg(
        "--map",
        "copy a topic to a topic with another name; may be repeated",
        metavar="OLD=NEW",
        many=True,
        make=parse_names,
        default=dict,
    )
    gone_brokers: frozenset[int] = gone_broker_arg()
    source_headers: bool = flag(
        "--source-headers",
        "add headers to each message with its topic, broker, partition, offset and index in the source",
    )
    state: Path = arg(
        "--state",
        "the directory on the driver that records progress",
        Path,
        required=True,
        metavar="DIR",
        group="copying",
    )
    create_topics: bool = flag(
        "--create-topics", "create missing topics, with one partition for each partition"
    )
    replication_factor: int | None = arg(
        "--replication-factor",
        "replicas of created topics (default: the brokers' default.replication.factor)",
        positive,
    )
    piece_bytes: int = arg(
        "--piece-bytes",
        "bytes of a partition to copy before the state is saved; the run after a killed one reads up "
        f"to this many bytes again (default: {PIECE_BYTES})",
        positive,
        default=PIECE_BYTES,
    )
    dry_run: bool = flag("--dry-run", "show what would be copied, and change nothing")
    exactly_once: bool = flag(
        "--exactly-once",
        "copy each piece in one transaction of the target (Kafka 0.11 or later), which also stores how "
        "far each partition is copied: the run after a killed one compares nothing",
    )
    transactional_id: str | None = arg(
        "--transactional-id",
        "with --exactly-once: the prefix of the ids of these transactions and their groups, which no "
        "other program may use (default: a name that --state generates)",
        metavar="NAME",
        needs=("exactly_once",),
    )
    source: Mapping[str, str] = connection_args(
        "source", "zookeeper.connect=HOST:PORT", refuses=_NOT_OF_SOURCE
    )
    target: Mapping[str, str] = connection_args(
        "target", "kafka.bootstrap.servers=HOST:PORT", refuses={**TRANSACTION_OPTIONS, **_NOT_OF_TARGET}
    )

    def __post_init__(self) -> None:
        check_needs(self)

    def clusters(self) -> Clusters:
        """Both clusters. Raises ``OptionError``."""
        source = source_options(self.source, self.selection)
        return Clusters(source, *target_options(self.target, exactly_once_options(self)), self.source_headers)


def describe(clusters: Clusters, settings: Settings) -> dict[str, Any]:
    """A description of a run, without any change. Raises as ``plan`` and ``missing_topics``."""
    state = _begin_state(load_state(settings.state), clusters)
    copies, passed_over = plan(clusters, settings.names, state, settings.gone_brokers)
    missing = missing_topics(clusters, copies, create=settings.create_topics)
    return {
        "dry_run": True,
        "logs": len(copies),
        "bytes": sum(copy.size for copy in copies),
        "topics_to_create": missing,
        "partitions": [
            {
                "source": str(copy.route.source),
                "target": str(copy.route.target),
                "start_offset": copy.start_offset,
                "stop_offset": copy.stop_offset,
                "bytes": copy.size,
            }
            for copy in copies
        ],
        "data_loss": _describe_lost(copies) + passed_over,
    }


def migrate(
    clusters: Clusters,
    settings: Settings,
    run: Runner,
    progress: Progress,
    record: Recorder = lambda *_: None,
) -> dict[str, Any]:
    """Copy new messages of the source, and verify them; ``record`` gets the messages of each topic that were
    read, and of each that were written. Returns the summary.

    ``failed`` of the summary names the partitions that are not equal. Raises ``OptionError``,
    ``DataLossError``, ``DeliveryError`` and the errors of brokers (all fatal); copied messages
    stay, and the next run continues from there.
    """
    with StateDirectory(settings.state) as directory:
        return _Run(clusters, settings, run, progress, directory, record).all()


@dataclass
class _Run:
    clusters: Clusters
    settings: Settings
    run: Runner
    progress: Progress
    directory: StateDirectory
    record: Recorder
    found_count: int = 0
    copied_count: int = 0

    def __post_init__(self) -> None:
        self.state = _begin_state(self.directory.load(), self.clusters)
        if (name := self.state.transactional_id) is not None:
            self.clusters = self.clusters.copy_in_transactions(name)

    def all(self) -> dict[str, Any]:
        started_s = time.monotonic()
        self.progress.step("asking both clusters")
        copies, passed_over = plan(self.clusters, self.settings.names, self.state, self.settings.gone_brokers)
        self._open(copies)
        copies = tuple(copy for copy in copies if self.state.partitions[copy.route.source].is_open)
        size = sum(copy.stop_offset - self._mark(copy).source_offset for copy in copies)
        with self.progress.work(f"copying {len(copies)} partition(s)", size_total=size) as work:
            self._copy(copies, work)
        with self.progress.work(f"verifying {len(copies)} partition(s)") as work:
            partitions = self._verify(copies, work)
        self._record_topics(copies, partitions)
        return {
            "logs": len(copies),
            "messages": self.copied_count,
            "messages_found": self.found_count,
            "bytes": size,
            "partitions": partitions,
            "failed": [item["source"] for item in partitions if not item["equal"]],
            "data_loss": _describe_lost(copies) + passed_over,
            "seconds": round(time.monotonic() - started_s, 1),
        }

    def _record_topics(
        self, copies: Sequence[PartitionCopy], partitions: Sequence[Mapping[str, Any]]
    ) -> None:
        read: Counter[str] = Counter()
        wrote: Counter[str] = Counter()
        for copy, verified in zip(copies, partitions, strict=True):
            read[copy.route.source.topic] += verified["messages"]
            wrote[copy.route.target.topic] += verified["target_messages"]
        self.record(read, wrote)

    def _open(self, copies: Sequence[PartitionCopy]) -> None:
        """Note, before anything is sent, where each partition's copy begins and as whom it is sent."""
        if self.clusters.are_in_transactions:
            self.clusters = begin(self.clusters)
        ids = prepare_topics(
            self.clusters,
            copies,
            create=self.settings.create_topics,
            replication_factor=self.settings.replication_factor or BROKER_DEFAULT,
        )
        if self.clusters.are_in_transactions:
            check_topic_acls(self.clusters, (copy.route.target.topic for copy in copies))
        new = [copy for copy in copies if copy.progress is None or (copy.size and not copy.progress.is_open)]
        ends = self.clusters.target_cluster.bounds([copy.route.target for copy in new])
        self._save(
            open_partition(self.clusters, copy, ends[copy.route.target], ids[copy.route.target])
            for copy in new
        )

    def _copy(self, copies: Sequence[PartitionCopy], work: Work) -> None:
        copier = Copier(self.clusters)
        while left := [copy for copy in copies if self._mark(copy).source_offset < copy.stop_offset]:
            try:
                with self._counting(left, work):
                    results: list[CopiedPiece] = self.run(copier, [self._copy_task(copy) for copy in left])
            except Interrupted:
                if self.clusters.are_in_transactions:
                    end_open(self.clusters, [copy.route for copy in left])
                raise
            for copy, copied in zip(left, results, strict=True):
                mark = self._mark(copy)
                count = copied.mark.message_count - mark.message_count
                self.found_count += copied.found_count
                self.copied_count += count - copied.found_count
                work.advance(messages=count, size=copied.mark.source_offset - mark.source_offset)
            self._save(
                replace(self.state.partitions[copy.route.source], copied=copied.mark)
                for copy, copied in zip(left, results, strict=True)
            )

    @contextlib.contextmanager
    def _counting(self, copies: Sequence[PartitionCopy], work: Work) -> Iterator[None]:
        """Count what the target's partitions grow by in the block, which is about what is copied: the results
        of the tasks replace it."""
        marks = {copy.route.target: self._mark(copy).target_offset for copy in copies}
        counted = 0

        def look() -> None:
            nonlocal counted
            # Missing progress must never stop the job.
            with contextlib.suppress(KafkaWireError):
                ends = self.clusters.target_cluster.high_watermarks([*marks])
                grown = sum(max(ends[partition] - offset, 0) for partition, offset in marks.items())
                work.advance(messages=grown - counted)
                counted = grown

        try:
            with repeating(look, _LOOK_INTERVAL_S):
                yield
        finally:
            work.advance(messages=-counted)

    def _copy_task(self, copy: PartitionCopy) -> CopyTask:
        partition = self.state.partitions[copy.route.source]
        fetch_task = copy.fetch_task(partition.copied.source_offset)
        return CopyTask(
            fetch_task, partition.target, partition.copied, partition.producer, self.settings.piece_bytes
        )

    def _verify(self, copies: Sequence[PartitionCopy], work: Work) -> list[dict[str, Any]]:
        tasks = [self._verify_task(copy) for copy in copies]
        results: list[Verified] = self.run(Verifier(self.clusters), tasks) if tasks else []
        partitions = []
        closed = []
        for copy, task, verified in zip(copies, tasks, results, strict=True):
            equal = verified.matches(task.message_count)
            work.advance(messages=verified.source_count, size=task.source.range.size)
            partitions.append(_partition(copy, verified, equal=equal))
            partition = self.state.partitions[copy.route.source]
            if equal:
                closed.append(replace(partition, verified=partition.copied, is_open=False))
        self._save(closed)
        return partitions

    def _verify_task(self, copy: PartitionCopy) -> VerifyTask:
        partition = self.state.partitions[copy.route.source]
        start, stop = partition.verified, partition.copied
        return VerifyTask(
            copy.fetch_task(start.source_offset, stop.source_offset),
            OffsetRange(partition.target, start.target_offset, stop.target_offset),
            stop.message_count - start.message_count,
        )

    def _mark(self, copy: PartitionCopy) -> Mark:
        return self.state.partitions[copy.route.source].copied

    def _save(self, changed: Iterable[PartitionProgress]) -> None:
        partitions: dict[TopicPartition, PartitionProgress] = {
            **self.state.partitions,
            **{partition.source: partition for partition in changed},
        }
        self.state = replace(self.state, partitions=partitions)
        self.directory.save(self.state)


def _partition(copy: PartitionCopy, verified: Verified, *, equal: bool) -> dict[str, Any]:
    return {
        "source": str(copy.route.source),
        "target": str(copy.route.target),
        "messages": verified.source_count,
        "sha256": verified.source_sha256,
        "target_messages": verified.target_count,
        "target_sha256": verified.target_sha256,
        **({"deleted_since": verified.gone_count} if verified.gone_count else {}),
        "equal": equal,
    }


def _describe_lost(copies: Iterable[PartitionCopy]) -> list[str]:
    return [f"{copy.route.source}: {copy.lost_bytes} bytes" for copy in copies if copy.lost_bytes]


def _begin_state(state: State | None, clusters: Clusters) -> State:
    """The state, or the one of a first run. Raises ``OptionError`` (fatal) if it was begun with other
    options."""
    transactions = clusters.write.transactions
    if state is None:
        name = transactions.prefix if transactions else None
        return State(clusters.source_headers, transactional_id=name)
    if (state.transactional_id is None) is (transactions is not None):
        with_or_without = "without" if state.transactional_id is None else "with"
        raise OptionError(
            f"argument --exactly-once: the state directory was begun {with_or_without} it; continue the "
            "same way, or give an empty state directory"
        )
    name = state.transactional_id
    if transactions and transactions.is_named and transactions.prefix != name:
        raise OptionError(
            f"argument --transactional-id: the state directory was begun with {quote(name)}; continue with "
            "that, or leave the argument out"
        )
    if state.source_headers != clusters.source_headers:
        with_or_without = "with" if state.source_headers else "without"
        raise OptionError(
            f"argument --source-headers: the state directory was begun {with_or_without} it; continue the "
            "same way, or give an empty state directory"
        )
    return state


#: Digits of a checksum that a table shows.
_CHECKSUM_DIGITS: Final = 12


def report(summary: Mapping[str, Any], *, as_json: bool) -> dict[str, Any]:
    """The summary that is still to be printed: its partitions are printed here unless ``as_json``.

    Raises ``DeliveryError`` (fatal) where the verification has failed; all is printed then.
    """
    rest = dict(summary)
    if not as_json:
        partitions = rest.pop("partitions")
        for line in align_rows(
            [[item["source"], "->", item["target"], *_cells(item)] for item in partitions]
        ):
            print(line)
        rest = {key: value for key, value in rest.items() if value not in ([], {})}
    try:
        check(summary)
    except DeliveryError:
        print_summary(rest, as_json=as_json)
        raise
    return rest


def check(summary: Mapping[str, Any]) -> None:
    """Raise ``DeliveryError`` (fatal) where the verification of a run has failed."""
    partitions = summary["partitions"]
    failed = [item for item in partitions if item.get("equal") is False]
    if failed:
        first = failed[0]
        theirs = {"messages": first["target_messages"], "sha256": first["target_sha256"]}
        raise DeliveryError(
            f"verification failed for {len(failed)} of {len(partitions)} partitions: {first['source']} has "
            f"{_content(first)}, {first['target']} has {_content(theirs)}; copy to a new topic with an empty "
            "state directory"
        )


def _content(side: Mapping[str, Any]) -> str:
    count = side["messages"]
    return f"{count:,} {plural(count, 'message')} (sha256 {side['sha256'][:_CHECKSUM_DIGITS]})"


def _cells(each: Mapping[str, Any]) -> list[str]:
    if "equal" not in each:
        return [f"{each['start_offset']} to {each['stop_offset']}", f"{each['bytes']:,} bytes"]
    gone = each.get("deleted_since", 0)
    equal = f"equal except for {gone:,} that the source has deleted since" if gone else "equal"
    verdict = equal if each["equal"] else f"NOT EQUAL to {each['target_messages']:,} there"
    return [
        f"{each['messages']:,} {plural(each['messages'], 'message')}",
        f"sha256 {each['sha256'][:_CHECKSUM_DIGITS]}",
        verdict,
    ]
