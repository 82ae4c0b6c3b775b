"""A run of ``ingest``: finishes the batch of an earlier run, then plans and writes one batch.

The plan reads from the position of each partition to its end now, which the brokers say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.cluster import Cluster, cluster_of
from spark_kafkawire.errors import DataLossError, OptionError, UnknownTopicError, counted, quote
from spark_kafkawire.model import OffsetRange, OffsetUnit, PartitionBounds, TopicPartition
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.planner.batch import keep_led, select, starts_of
from spark_kafkawire.planner.limits import check_names

from ..arguments import (
    SET_BY_ARGUMENTS,
    arg,
    connection_args,
    gone_broker_arg,
    nest_options,
    positive,
    size_limit,
    spark_path,
    starting_arg,
    topic_args,
)
from ..files import FileSystem
from ..progress import DATA_LOSS_KEY, Progress
from ..spark import Files, read_ranges, watching
from ..state import ExpectedPartitions, Positions, missing_lines, missing_text, sole_run
from .output import HIDDEN, Output, OutputOptions, TableOutput, given_schema, infer_schema
from .state import IngestState, Plan, describe_deleted, limit_ranges, next_plan, ranges_to_read

_ENDS: Final = dict.fromkeys(
    ("endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"),
    "is set by the job itself; a run ends where the partitions do",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """Options of a run; ``connection`` are options of the data source.

    ``read`` are the parsed options of a read of all partitions, with the start of topics that were never
    read. Raises ``OptionError`` (fatal).
    """

    selection: Mapping[str, str] = topic_args("read", group="input")
    starting: Mapping[str, str] | None = starting_arg(
        "where to start a topic that was never read: earliest (default), latest, a time such as "
        '2026-01-31T00:00:00Z or milliseconds since 1970, or offsets such as {"t":{"0":123}}, for 0.7 '
        '{"t":{"0-1":123}}'
    )
    bytes_max: int | None = arg("--max-bytes", "read at most about N bytes (0.7)", positive)
    records_max: int | None = arg(
        "--max-records", "read at most N records, but at least one of each partition (0.8 or later)", positive
    )
    gone_brokers: frozenset[int] = gone_broker_arg()
    group: str | None = arg(
        "--group",
        "also commit progress to this consumer group, which makes lag visible: in ZooKeeper for 0.7, "
        "otherwise on the brokers; it must have no active members, and is reset if another program moved it",
        group="progress",
        one_of="progress",
    )
    checkpoint: str | None = arg(
        "--checkpoint",
        "keep progress in this folder (default: OUTPUT/_kafkawire)",
        spark_path,
        one_of="progress",
    )
    output: OutputOptions = nest_options(OutputOptions)
    connection: Mapping[str, str] = connection_args(
        sets_itself=SET_BY_ARGUMENTS, refuses=_ENDS, place="option "
    )
    read: ReadOptions = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.output.table is not None and self.checkpoint is None:
            raise OptionError("argument --table needs --checkpoint, which keeps the progress; add that")
        if self.group is not None and not self.group.strip():
            raise OptionError(
                f"argument --group: {quote(self.group)} is not the name of a consumer group; correct it"
            )
        # A partition without a message that is young enough is no error of a run.
        strategy = {"startingOffsetsByTimestampStrategy": "latest"} if self.starting else {}
        raw = {**strategy, **self.connection, **(self.starting or {}), **self.selection}
        object.__setattr__(self, "read", ReadOptions.parse(raw))
        if self.gone_brokers and not self.read.discovery.generation.has_partitions_of_brokers:
            raise OptionError(
                "argument --gone-broker: only partitions of 0.7 are of one broker; leave it out"
            )
        _ = self.size_max

    @property
    def offset_unit(self) -> OffsetUnit:
        """The unit of offsets."""
        return self.read.discovery.generation.offset_unit

    @property
    def size_max(self) -> int | None:
        """The maximum number of offsets to read."""
        limits = {
            OffsetUnit.BYTES: ("--max-bytes", self.bytes_max),
            OffsetUnit.RECORDS: ("--max-records", self.records_max),
        }
        return size_limit(self.offset_unit, limits)


class Ingest:
    """A run."""

    def __init__(
        self, spark: SparkSession, options: IngestOptions, progress: Progress, files: FileSystem | None = None
    ) -> None:
        self._spark = spark
        self._options = options
        self._progress = progress
        self._cluster: Cluster = cluster_of(options.read)
        files = Files(spark) if files is None else files
        output, table = options.output, options.output.table
        hidden = options.checkpoint or "" if table else f"{output.path}/{HIDDEN}"
        self._own_folders = (hidden, options.checkpoint or hidden)
        self._files = files
        self._state = IngestState(files, options.checkpoint or hidden)
        self._output = TableOutput(spark, output, table) if table else Output(files, output)
        self._planning = Planning(options, self._cluster, progress)
        self._losses: list[str] = []

    def run(self) -> dict[str, Any]:
        """Finish the batch that an earlier run left, then read one batch. Returns the summary.

        Raises the error that stops it; the next run continues from there.
        """
        with sole_run(self._files, self._own_folders):
            return self._run()

    def _run(self) -> dict[str, Any]:
        began_s = time.monotonic()
        batches = []
        newest = self._state.newest()
        self._output.check(newest, self._state.done)
        if newest and not newest.done:
            self._progress.step(f"finishing batch {newest.plan.batch}, which an earlier run began")
            batches.append(self._finish(newest.plan))
        plan = self._planning.next(newest.plan if newest else None, self._schema)
        self._losses += self._planning.losses
        if plan is not None:
            self._state.record(plan)
            batches.append(self._finish(plan))
        return {
            "messages": sum(batch["messages"] for batch in batches),
            "output": str(self._options.output.table or self._options.output.path),
            "batches": batches,
            **({"group_moved": self._planning.moved} if self._planning.moved else {}),
            DATA_LOSS_KEY: self._losses,
            "seconds": round(time.monotonic() - began_s, 1),
        }

    def _finish(self, plan: Plan) -> dict[str, Any]:
        """Do those of the steps 2 to 5 that are not done. Returns the result of the batch."""
        is_there = self._output.holds(plan)
        left = self._left(plan)
        self._losses += plan.losses
        if not is_there:
            gone = [item for item in plan.ranges if item not in left and item.size]
            losses = [f"{describe_deleted(item)}: the topic no longer exists" for item in gone]
            self._planning.check_borne(losses)
            self._losses += losses
            left = self._without_given_up(left)
        messages = 0 if is_there else self._write(plan, left)
        if self._options.group is not None:
            after = {item.topic_partition: item.stop_offset for item in left}
            self._cluster.groups.commit(self._options.group, after)
        self._state.finish(plan)
        ranges = [
            {"partition": str(item.topic_partition), "start": item.start_offset, "stop": item.stop_offset}
            for item in plan.ranges
        ]
        noted = {"written_by": "an earlier run"} if is_there else {}
        return {"batch": plan.batch, "messages": messages, **noted, "ranges": ranges}

    def _left(self, plan: Plan) -> list[OffsetRange]:
        """The plan's ranges, without topics that were deleted since."""
        ids = self._planning.topic_ids(plan.topic_ids)
        gone = {topic for topic in plan.topic_ids.keys() - ids.keys() if self._is_gone(topic)}
        gone |= plan.recreated(ids)
        return [item for item in plan.ranges if item.topic_partition.topic not in gone]

    def _without_given_up(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """The ranges without those of brokers that the user has given up. The summary names these."""
        suspects = [
            item.topic_partition
            for item in ranges
            if item.topic_partition.broker in self._options.gone_brokers
        ]
        if not suspects:
            return [*ranges]
        dead = set(suspects) - self._cluster.leaders_of(suspects).keys()
        self._losses += [
            f"{item} is not read: its broker is gone" for item in ranges if item.topic_partition in dead
        ]
        return [item for item in ranges if item.topic_partition not in dead]

    def _is_gone(self, topic: str) -> bool:
        """True if brokers say that the topic does not exist, and not only that it is unavailable now."""
        try:
            return not self._cluster.partitions_of([topic])
        except UnknownTopicError:
            return True

    def _write(self, plan: Plan, ranges: Sequence[OffsetRange]) -> int:
        if not ranges:
            self._output.write_nothing(plan)
            return 0
        unit = self._options.offset_unit
        is_records = unit is OffsetUnit.RECORDS
        what = f"batch {plan.batch}: {plan.size:,} {unit.value} of {counted(len(ranges), 'partition')}"
        schema = self._schema(ranges, plan.schema)
        with (
            self._progress.work(what, messages_total=plan.size if is_records else None) as work,
            watching(self._spark, work),
        ):
            messages = self._output.write(plan, self._messages(ranges), schema)
        self._losses += self._describe_lost_meanwhile(ranges)
        return messages

    def _schema(self, ranges: Sequence[OffsetRange], planned: str | None = None) -> str | None:
        """The schema of the values' JSON. The user may change it, because the planned batch is not visible
        yet."""
        if self._options.output.decode != "json":
            return None
        if self._options.output.schema is not None:
            return given_schema(self._options.output.schema)
        if planned is not None:
            return planned
        with (
            self._progress.work("reading the messages for their schema") as work,
            watching(self._spark, work),
        ):
            return infer_schema(self._spark, self._messages(ranges, "value binary"))

    def _messages(self, ranges: Sequence[OffsetRange], schema: str | None = None) -> DataFrame:
        """Exactly the messages of the ranges."""
        return read_ranges(self._spark, self._options.connection, ranges, schema)

    def _describe_lost_meanwhile(self, ranges: Sequence[OffsetRange]) -> list[str]:
        """Lines about messages that may be missing because they were deleted before or during the read."""
        if self._options.read.fetch.fail_on_data_loss:
            return []
        result = self._cluster.bounds([item.topic_partition for item in ranges])
        return [
            describe_deleted(
                OffsetRange(
                    item.topic_partition,
                    item.start_offset,
                    min(result[item.topic_partition].earliest, item.stop_offset),
                )
            )
            for item in ranges
            if result[item.topic_partition].earliest > item.start_offset
        ]


#: Finds the schema of the JSON in ranges; None where values are not decoded.
SchemaOf = Callable[[Sequence[OffsetRange]], str | None]


class Planning:
    """The planning of one run. ``losses`` and ``moved`` are lines for its summary: lost messages that the
    plan does not name, and offsets of the group that another program moved."""

    def __init__(self, options: IngestOptions, cluster: Cluster, progress: Progress) -> None:
        self._options = options
        self._cluster = cluster
        self._progress = progress
        self.losses: list[str] = []
        self.moved: list[str] = []

    @property
    def _is_loss_fatal(self) -> bool:
        return self._options.read.fetch.fail_on_data_loss

    def next(self, last: Plan | None, schema_of: SchemaOf) -> Plan | None:
        """The plan after ``last``; None without new messages.

        Raises ``DataLossError`` (fatal) for lost messages, unless the options accept data loss.
        """
        self._progress.step("asking the brokers where the partitions end")
        bounds, given_up = self._look(last)
        topic_ids = self.topic_ids({tp.topic for tp in bounds})
        recreated = last.recreated(topic_ids) if last else set()
        remade = [
            f"{topic} was created again since it was read: its old messages are gone" for topic in recreated
        ]
        self.check_borne(remade)
        starts = self._starts(last, bounds, recreated)
        if self._options.group is not None:
            # A missing right to commit to the group is an error before anything is read.
            self._cluster.groups.commit(self._options.group, starts)
        ranges, lost = self._ranges(bounds, starts)
        # The start of a topic is recorded even while it has no messages to read.
        gone = {*(last.gone if last else ()), *given_up} - {*bounds}
        is_known = last is not None and starts.keys() <= last.positions.keys() and gone == last.gone
        if not ranges and not remade and is_known:
            return None
        schema = schema_of(ranges) if ranges else None
        losses = [*remade, *lost, *missing_lines(given_up, last.positions if last else {})]
        return next_plan(last, ranges, starts, schema, losses, topic_ids, gone)

    def _look(
        self, last: Plan | None
    ) -> tuple[Mapping[TopicPartition, PartitionBounds], Sequence[TopicPartition]]:
        """The partitions to read, and those to report as gone."""
        known = self._known(last)
        known.await_brokers(self._cluster)
        partitions = select(self._options.read.selection, self._cluster)
        partitions = keep_led(
            partitions, self._cluster.leaders_of(partitions), fail_on_data_loss=self._is_loss_fatal
        )
        given_up = self._give_up(known.missing(partitions), known, last)
        return self._cluster.bounds(partitions), given_up

    def _known(self, last: Plan | None) -> ExpectedPartitions:
        """Partitions that earlier runs, and in 0.7 the group, have read; without those that were given up and
        reported then."""
        known = set(last.positions if last else ())
        if (
            self._options.group is not None
            and self._options.read.discovery.generation.has_partitions_of_brokers
        ):
            known.update(self._cluster.groups.partitions(self._options.group))
        known -= last.gone if last else frozenset()
        return ExpectedPartitions(self._options.read, known, self._options.gone_brokers)

    def _give_up(
        self, missing: Sequence[TopicPartition], known: ExpectedPartitions, last: Plan | None
    ) -> list[TopicPartition]:
        """Missing partitions to report once: those that the user has given up, and those of deleted topics.

        Other missing partitions are an error, unless the options accept data loss. One of 0.7 is then
        reported in each run, because it returns with its broker.
        """
        others = [tp for tp in missing if not known.is_given_up(tp)]
        self.check_borne([missing_text(others)] if others else [])
        away = [tp for tp in others if tp.broker is not None]
        self.losses += missing_lines(away, last.positions if last else {})
        return [tp for tp in missing if tp not in away]

    def _starts(
        self, last: Plan | None, bounds: Mapping[TopicPartition, PartitionBounds], recreated: Collection[str]
    ) -> dict[TopicPartition, int]:
        """The start of each partition: see the head of the package."""
        known_topics = {tp.topic for tp in last.positions} if last else set()
        recorded = {tp: at for tp, at in last.positions.items() if tp.topic not in recreated} if last else {}
        committed = {tp: at for tp, at in self._committed(bounds).items() if tp.topic not in recreated}
        self._warn_of_moves(recorded, committed)
        known = {**committed, **recorded}
        starts = {tp: known[tp] for tp in bounds if tp in known}
        topics = known_topics | {tp.topic for tp in starts}
        starts |= {tp: bounds[tp].earliest for tp in bounds if tp not in starts and tp.topic in topics}
        return {**starts, **self._first_starts({tp: bounds[tp] for tp in bounds if tp not in starts})}

    def _committed(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The offsets that the group has committed."""
        if self._options.group is None:
            return {}
        offsets = self._cluster.groups.offsets(self._options.group, list(partitions))
        return {tp: offset for tp, offset in offsets.items() if offset is not None}

    def _first_starts(self, bounds: Mapping[TopicPartition, PartitionBounds]) -> dict[TopicPartition, int]:
        """The starts of partitions whose topics were never read."""
        if self._options.starting is None:
            return {tp: item.latest for tp, item in bounds.items()}
        if not bounds:
            return {}
        check_names(self._options.read.starting, list(bounds))
        return {tp: end.offset for tp, end in starts_of(self._options.read, self._cluster, bounds).items()}

    def _warn_of_moves(self, recorded: Positions, committed: Positions) -> None:
        """Report offsets of the group that another program moved: the run reads no message twice and skips
        none because of them."""
        moved = [
            f"{tp} was at {offset} and is reset to {recorded[tp]}, where the output ends"
            for tp, offset in committed.items()
            if offset != recorded.get(tp, offset)
        ]
        if moved:
            self._progress.step(f"group {quote(self._options.group)}: {moved[0]} ({len(moved)} in all)")
        self.moved += moved

    def _ranges(
        self, bounds: Mapping[TopicPartition, PartitionBounds], starts: Positions
    ) -> tuple[tuple[OffsetRange, ...], list[str]]:
        """The ranges to read, and lines about the losses in them."""
        whole, lost = ranges_to_read(bounds.values(), starts, fail_on_data_loss=self._is_loss_fatal)
        ranges = limit_ranges(whole, self._options.size_max, bounds)
        # A partition that lost all its messages gets an empty range: it is skipped and reported once.
        nothing_left = tuple(item for item in whole if item.topic_partition in lost and not item.size)
        return ranges + nothing_left, list(lost.values())

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """The topics' ids, where they have some."""
        return {topic: str(item) for topic, item in self._cluster.topic_ids(topics).items()} if topics else {}

    def check_borne(self, losses: Sequence[str]) -> None:
        """Raise ``DataLossError`` (fatal) for the first loss, unless losses are borne."""
        if losses and self._is_loss_fatal:
            raise DataLossError(f"{losses[0]}; to read what is there, set failOnDataLoss=false")
