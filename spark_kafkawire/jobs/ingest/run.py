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

Where a plan begins: where the newest plan ends, whatever was done to the group meanwhile; else, for a
topic that was never read, at what the group has committed; else at ``--starting``. What a topic gets
later, as more partitions, is read from its beginning, and so is a topic that was made anew.

One run at a time may write to an output: ``sole_run`` keeps others out, and where it cannot, the run
that is overtaken ends with an error before it shows anything. Readers see whole batches only.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ...cluster.cluster import Cluster, cluster_of
from ...errors import DataLossError, UnknownTopicError, quoted
from ...model import LogBounds, OffsetRange, OffsetUnit, TopicPartition
from ...planner.batch import led, select, starts_of
from ...planner.limits import check_names
from ..shell.progress import Progress
from ..shell.summary import DATA_LOSS_KEY
from ..spark.hadoop_files import Files
from ..spark.reading import read_ranges
from ..spark.stages import watching
from ..state.file_system import FileSystem
from ..state.known_logs import KnownLogs, passed_over, told_of
from ..state.positions import Positions
from ..state.sole_run import sole_run
from .json_values import given_schema, inferred_schema
from .options import IngestOptions
from .output import HIDDEN, Output
from .plan import Plan, deleted, limited, next_plan, ranges_to_read
from .state import IngestState, Remembered


class Ingest:
    """One run."""

    def __init__(
        self,
        spark: SparkSession,
        options: IngestOptions,
        progress: Progress,
        files: FileSystem | None = None,
    ) -> None:
        self._spark = spark
        self._options = options
        self._progress = progress
        self._read_options = options.parsed
        self._cluster: Cluster = cluster_of(self._read_options)
        files = Files(spark) if files is None else files
        hidden = f"{options.output.path}/{HIDDEN}"
        self._own_folders = (hidden, options.checkpoint or hidden)
        self._files = files
        self._state = IngestState(files, options.checkpoint or hidden)
        self._output = Output(files, options.output)
        self._losses: list[str] = []
        self._moved: list[str] = []

    def run(self) -> dict[str, Any]:
        """Finish what an earlier run left, then read one batch; the summary.

        Raises whatever stops it; the next run goes on from there.
        """
        with sole_run(self._files, self._own_folders):
            return self._run()

    def _run(self) -> dict[str, Any]:
        began_s = time.monotonic()
        batches = []
        newest = self._state.newest()
        self._check_output(newest)
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
            **({"group_moved": self._moved} if self._moved else {}),
            DATA_LOSS_KEY: self._losses,
            "seconds": round(time.monotonic() - began_s, 1),
        }

    def _check_output(self, newest: Remembered | None) -> None:
        """Raise ``FileError`` where output and state do not go together."""
        there = self._output.newest()
        if newest is not None and there == newest.plan.batch:
            self._output.check_recorded(there, newest.plan)
        else:
            self._output.check_recorded(there, self._state.done(there))

    def _finish(self, plan: Plan) -> dict[str, Any]:
        """Steps 2 to 5, as far as they are not done; what became of the batch."""
        is_there = self._output.holds(plan)
        left = self._left(plan)
        self._losses += plan.losses
        if not is_there:
            self._pass_over([each for each in plan.ranges if each not in left])
            left = self._without_given_up(left)
        messages = 0 if is_there else self._write(plan, left)
        if self._options.group is not None:
            after = {each.log: each.stop_offset for each in left}
            self._cluster.commit_group_offsets(self._options.group, after)
        self._state.finish(plan)
        ranges = [
            {"log": str(each.log), "start": each.start_offset, "stop": each.stop_offset}
            for each in plan.ranges
        ]
        noted = {"written_by": "an earlier run"} if is_there else {}
        return {"batch": plan.batch, "messages": messages, **noted, "ranges": ranges}

    def _left(self, plan: Plan) -> list[OffsetRange]:
        """The plan's ranges but for those of topics that were deleted since."""
        ids = self._topic_ids(plan.topic_ids)
        gone = {topic for topic in plan.topic_ids.keys() - ids.keys() if self._is_gone(topic)}
        gone |= plan.made_anew(ids)
        return [each for each in plan.ranges if each.log.topic not in gone]

    def _without_given_up(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """The ranges but for those of brokers that the user has given up, which are told."""
        suspects = [each.log for each in ranges if each.log.broker in self._options.gone_brokers]
        if not suspects:
            return [*ranges]
        dead = set(suspects) - self._cluster.leaders_of(suspects).keys()
        self._losses += [f"{each} is not read: its broker is gone" for each in ranges if each.log in dead]
        return [each for each in ranges if each.log not in dead]

    def _is_gone(self, topic: str) -> bool:
        """Whether brokers say that there is no such topic, and not only nothing of it now."""
        try:
            return not self._cluster.logs_of([topic])
        except UnknownTopicError:
            return True

    def _topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        return {topic: str(each) for topic, each in self._cluster.topic_ids(topics).items()} if topics else {}

    def _pass_over(self, gone: Sequence[OffsetRange]) -> None:
        losses = [f"{deleted(each)}: the topic is not there any more" for each in gone if each.size]
        self._check_borne(losses)
        self._losses += losses

    def _check_borne(self, losses: Sequence[str]) -> None:
        if losses and self._read_options.fetch.fail_on_data_loss:
            raise DataLossError(f"{losses[0]}; to read what is there, set failOnDataLoss=false")

    def _write(self, plan: Plan, ranges: Sequence[OffsetRange]) -> int:
        if not ranges:
            self._output.write_nothing(plan)
            return 0
        logs = len(ranges)
        unit = self._options.offset_unit
        is_records = unit is OffsetUnit.RECORDS
        what = f"batch {plan.batch}: {plan.size:,} {unit.value} of {logs} partition{'s' * (logs > 1)}"
        schema = self._schema(ranges, plan.schema)
        with (
            self._progress.work(what, messages_total=plan.size if is_records else None) as work,
            watching(self._spark, work),
        ):
            messages = self._output.write(plan, self._messages(ranges), schema)
        self._losses += self._lost_meanwhile(ranges)
        return messages

    def _next(self, last: Plan | None) -> Plan | None:
        """What to read after ``last``; None where there is nothing."""
        self._progress.step("asking the brokers where the logs end")
        fail = self._read_options.fetch.fail_on_data_loss
        known = self._known(last)
        known.await_brokers(self._cluster)
        logs = select(self._read_options.selection, self._cluster)
        logs = led(logs, self._cluster.leaders_of(logs), fail_on_data_loss=fail)
        given_up = self._given_up(known.missing(logs), known, last)
        found = self._cluster.bounds(logs)
        topic_ids = self._topic_ids({log.topic for log in found})
        anew = last.made_anew(topic_ids) if last else set()
        remade = [f"{topic} was made anew since it was read: its old messages are gone" for topic in anew]
        self._check_borne(remade)
        starts = self._starts(last, found, anew)
        if self._options.group is not None:
            # A group that may not be committed to is told before anything is read.
            self._cluster.commit_group_offsets(self._options.group, starts)
        whole, losses = ranges_to_read(found.values(), starts, fail_on_data_loss=fail)
        ranges = limited(whole, self._options.size_max, found)
        # A log of which nothing is left is passed over once, and not told of again.
        ranges += tuple(each for each in whole if each.log in losses and not each.size)
        # Where a topic starts is remembered also while there is nothing to read of it.
        gone = {*(last.gone if last else ()), *given_up} - {*found}
        is_known = last is not None and starts.keys() <= last.positions.keys() and gone == last.gone
        if not ranges and not remade and is_known:
            return None
        schema = self._schema(ranges) if ranges else None
        told = [*remade, *losses.values(), *told_of(given_up, last.positions if last else {})]
        return next_plan(last, ranges, starts, schema, told, topic_ids, gone)

    def _known(self, last: Plan | None) -> KnownLogs:
        """What earlier runs have read, and in 0.7 the group; but for what was given up and told then."""
        known = set(last.positions if last else ())
        if self._options.group is not None and self._options.offset_unit is OffsetUnit.BYTES:
            known.update(self._cluster.logs_of_group(self._options.group))
        known -= last.gone if last else frozenset()
        return KnownLogs(self._read_options, known, self._options.gone_brokers)

    def _given_up(
        self, missing: Sequence[TopicPartition], known: KnownLogs, last: Plan | None
    ) -> list[TopicPartition]:
        """Those of the missing logs that are told of once; others are an error, or told in each run: a log of
        0.7 is there again when its broker is, and later ones are gone with their topic."""
        others = [log for log in missing if not known.is_given_up(log)]
        self._check_borne([passed_over(others)] if others else [])
        away = [log for log in others if log.broker is not None]
        self._losses += told_of(away, last.positions if last else {})
        return [log for log in missing if log not in away]

    def _starts(
        self, last: Plan | None, found: Mapping[TopicPartition, LogBounds], anew: Collection[str]
    ) -> dict[TopicPartition, int]:
        known_topics = {log.topic for log in last.positions} if last else set()
        recorded = {log: at for log, at in last.positions.items() if log.topic not in anew} if last else {}
        group: Mapping[TopicPartition, int | None] = {}
        if self._options.group is not None:
            group = self._cluster.read_group_offsets(self._options.group, list(found))
        committed = {
            log: offset for log, offset in group.items() if offset is not None and log.topic not in anew
        }
        self._tell_of_moves(recorded, committed)
        known = {**committed, **recorded}
        starts = {log: known[log] for log in found if log in known}
        topics = known_topics | {log.topic for log in starts}
        starts |= {log: found[log].earliest for log in found if log not in starts and log.topic in topics}
        return {**starts, **self._first_starts({log: found[log] for log in found if log not in starts})}

    def _first_starts(self, found: Mapping[TopicPartition, LogBounds]) -> dict[TopicPartition, int]:
        if self._options.starting is None:
            return {log: bounds.latest for log, bounds in found.items()}
        if not found:
            return {}
        check_names(self._read_options.starting, list(found))
        return {log: end.offset for log, end in starts_of(self._read_options, self._cluster, found).items()}

    def _tell_of_moves(self, recorded: Positions, committed: Positions) -> None:
        """Say where somebody else has moved the group: no message is read twice or left out for it."""
        moved = [
            f"{log} stood at {offset} and is put back to {recorded[log]}, where the output ends"
            for log, offset in committed.items()
            if offset != recorded.get(log, offset)
        ]
        if moved:
            self._progress.step(f"group {quoted(self._options.group)}: {moved[0]} ({len(moved)} in all)")
        self._moved += moved

    def _schema(self, ranges: Sequence[OffsetRange], planned: str | None = None) -> str | None:
        """The schema of the values' JSON; what was planned is not shown yet, so the user may change it."""
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
            return inferred_schema(self._spark, self._messages(ranges, "value binary"))

    def _messages(self, ranges: Sequence[OffsetRange], schema: str | None = None) -> DataFrame:
        """Exactly the messages of the ranges."""
        return read_ranges(self._spark, self._options.connection, ranges, schema)

    def _lost_meanwhile(self, ranges: Sequence[OffsetRange]) -> list[str]:
        """What may be missing because it was deleted before or while it was read."""
        if self._read_options.fetch.fail_on_data_loss:
            return []
        found = self._cluster.bounds([each.log for each in ranges])
        return [
            deleted(OffsetRange(each.log, each.start_offset, min(found[each.log].earliest, each.stop_offset)))
            for each in ranges
            if found[each.log].earliest > each.start_offset
        ]
