"""Topics into files, from where the last run ended to the logs' ends, each message exactly once.

A run reads one batch. What it will read is decided and recorded first; then nothing about it changes:

    1  record      STATE/7.planned.json      which offsets of which log are batch 7
    2  write       OUTPUT/_kafkawire/unfinished/7-ATTEMPT/
    3  show        rename that to OUTPUT/batch=7
    4  commit      the batch's last offsets, to the group (with --group)
    5  finish      rename STATE/7.planned.json to 7.done.json

Whatever is killed between any two instructions, the next run finds one of these states:

    newest plan   OUTPUT/batch=N   the next run
    none or done  there            plans the next batch
    planned       not there        reads the plan's offsets again, goes on at 2
    planned       there            goes on at 4

1, 3 and 5 are one step each (see ``hadoop_files``); 2 is invisible until 3, and 4 says the same however
often it is said. So a message of batch 7 is in the output once if 3 was reached and not at all before that,
and the offsets of two batches do not overlap, since a plan begins where the one before it ends.

Where a plan begins: at what the group has committed; else at what the newest plan says, which also holds
where a broker has forgotten an idle group; else, for a topic that was never read, at ``--starting``. What
a topic gets later, as more partitions, is read from its beginning.

One run at a time may write to an output. Readers see whole batches only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ..cluster.cluster import Cluster, cluster_of
from ..model import LogBounds, OffsetRange, OffsetUnit, TopicPartition
from ..planner.batch import led, select, starts_of
from ..planner.limits import check_names
from .command_line import DATA_LOSS_KEY
from .hadoop_files import Files
from .ingest_options import IngestOptions
from .ingest_output import HIDDEN, Output, given_schema, inferred_schema
from .ingest_plan import Plan, deleted, limited, next_plan, ranges_to_read
from .ingest_state import IngestState
from .progress import Progress
from .reading import read_ranges
from .spark_progress import watching


class Ingest:
    """One run."""

    def __init__(self, spark: SparkSession, options: IngestOptions, progress: Progress) -> None:
        self._spark = spark
        self._options = options
        self._progress = progress
        self._read_options = options.parsed
        self._cluster: Cluster = cluster_of(self._read_options)
        files = Files(spark)
        self._state = IngestState(files, options.checkpoint or f"{options.output.path}/{HIDDEN}")
        self._output = Output(files, options.output)
        self._losses: list[str] = []

    def run(self) -> dict[str, Any]:
        """Finish what an earlier run left, then read one batch; the summary.

        Raises whatever stops it; the next run goes on from there.
        """
        began_s = time.monotonic()
        batches = []
        newest = self._state.newest()
        if newest and not newest.done:
            self._progress.step(f"finishing batch {newest.plan.batch}, which an earlier run began")
            batches.append(self._finish(newest.plan))
        plan = self._next(newest.plan if newest else None)
        if plan is not None:
            self._state.record(plan)
            batches.append(self._finish(plan))
        return {
            "messages": sum(batch["messages"] for batch in batches),
            "output": self._options.output.path,
            "batches": batches,
            DATA_LOSS_KEY: self._losses,
            "seconds": round(time.monotonic() - began_s, 1),
        }

    def _finish(self, plan: Plan) -> dict[str, Any]:
        """Steps 2 to 5, as far as they are not done; what became of the batch."""
        is_there = self._output.holds(plan.batch)
        messages = 0 if is_there or not plan.ranges else self._write(plan)
        if self._options.group is not None:
            after = {each.log: each.stop_offset for each in plan.ranges}
            self._cluster.commit_group_offsets(self._options.group, after)
        self._state.finish(plan)
        self._losses += plan.losses
        ranges = [
            {"log": str(each.log), "start": each.start_offset, "stop": each.stop_offset}
            for each in plan.ranges
        ]
        noted = {"written_by": "an earlier run"} if is_there else {}
        return {"batch": plan.batch, "messages": messages, **noted, "ranges": ranges}

    def _write(self, plan: Plan) -> int:
        logs = len(plan.ranges)
        unit = self._options.offset_unit
        is_records = unit is OffsetUnit.RECORDS
        what = f"batch {plan.batch}: {plan.size:,} {unit.value} of {logs} partition{'s' * (logs > 1)}"
        with (
            self._progress.work(what, messages_total=plan.size if is_records else None) as work,
            watching(self._spark, work),
        ):
            messages = self._output.write(plan.batch, self._messages(plan.ranges), plan.schema)
        self._losses += self._lost_meanwhile(plan)
        return messages

    def _next(self, last: Plan | None) -> Plan | None:
        """What to read after ``last``; None where there is nothing."""
        self._progress.step("asking the brokers where the logs end")
        fail = self._read_options.fetch.fail_on_data_loss
        logs = select(self._read_options.selection, self._cluster)
        logs = led(logs, self._cluster.leaders_of(logs), fail_on_data_loss=fail)
        found = self._cluster.bounds(logs)
        starts = self._starts(last, found)
        if self._options.group is not None:
            # A group that may not be committed to is told before anything is read.
            self._cluster.commit_group_offsets(self._options.group, starts)
        whole, losses = ranges_to_read(found.values(), starts, fail_on_data_loss=fail)
        ranges = limited(whole, self._options.size_max, found)
        # A log of which nothing is left is passed over once, and not told of again.
        ranges += tuple(each for each in whole if each.log in losses and not each.size)
        # Where a topic starts is remembered also while there is nothing to read of it.
        if not ranges and last is not None and starts.keys() <= last.positions.keys():
            return None
        schema = self._schema(ranges) if ranges else None
        return next_plan(last, ranges, starts, schema, losses.values())

    def _starts(
        self, last: Plan | None, found: Mapping[TopicPartition, LogBounds]
    ) -> dict[TopicPartition, int]:
        recorded = last.positions if last else {}
        group: Mapping[TopicPartition, int | None] = {}
        if self._options.group is not None:
            group = self._cluster.read_group_offsets(self._options.group, list(found))
        committed = {log: offset for log, offset in group.items() if offset is not None}
        known = {**recorded, **committed}
        starts = {log: known[log] for log in found if log in known}
        topics = {log.topic for log in (*recorded, *starts)}
        starts |= {log: found[log].earliest for log in found if log not in starts and log.topic in topics}
        return {**starts, **self._first_starts({log: found[log] for log in found if log not in starts})}

    def _first_starts(self, found: Mapping[TopicPartition, LogBounds]) -> dict[TopicPartition, int]:
        if self._options.starting is None:
            return {log: bounds.latest for log, bounds in found.items()}
        if not found:
            return {}
        check_names(self._read_options.starting, list(found))
        return {log: end.offset for log, end in starts_of(self._read_options, self._cluster, found).items()}

    def _schema(self, ranges: Sequence[OffsetRange]) -> str | None:
        if self._options.output.decode != "json":
            return None
        if self._options.output.schema is not None:
            return given_schema(self._options.output.schema)
        with (
            self._progress.work("reading the messages for their schema") as work,
            watching(self._spark, work),
        ):
            return inferred_schema(self._spark, self._messages(ranges, "value binary"))

    def _messages(self, ranges: Sequence[OffsetRange], schema: str | None = None) -> DataFrame:
        """Exactly the messages of the ranges."""
        return read_ranges(self._spark, self._options.connection, ranges, schema)

    def _lost_meanwhile(self, plan: Plan) -> list[str]:
        """What may be missing because it was deleted before or while it was read."""
        if self._read_options.fetch.fail_on_data_loss:
            return []
        found = self._cluster.bounds([each.log for each in plan.ranges])
        return [
            deleted(OffsetRange(each.log, each.start_offset, min(found[each.log].earliest, each.stop_offset)))
            for each in plan.ranges
            if found[each.log].earliest > each.start_offset
        ]
