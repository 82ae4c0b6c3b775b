"""A run of ingest: finishes the batch of an earlier run, then plans and writes one batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.cluster.cluster import Cluster, cluster_of
from spark_kafkawire.errors import UnknownTopicError, counted
from spark_kafkawire.model import OffsetRange, OffsetUnit

from ..shell.progress import Progress
from ..shell.summary import DATA_LOSS_KEY
from ..spark.hadoop_files import Files
from ..spark.reading import read_ranges
from ..spark.stages import watching
from ..state.file_system import FileSystem
from ..state.sole_run import sole_run
from .json_values import given_schema, inferred_schema
from .options import IngestOptions
from .output import HIDDEN, Output
from .plan import Plan, deleted
from .planning import Planning
from .state import IngestState, Remembered


class Ingest:
    """A run."""

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
        self._cluster: Cluster = cluster_of(options.read)
        files = Files(spark) if files is None else files
        hidden = f"{options.output.path}/{HIDDEN}"
        self._own_folders = (hidden, options.checkpoint or hidden)
        self._files = files
        self._state = IngestState(files, options.checkpoint or hidden)
        self._output = Output(files, options.output)
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
            **({"group_moved": self._planning.moved} if self._planning.moved else {}),
            DATA_LOSS_KEY: self._losses,
            "seconds": round(time.monotonic() - began_s, 1),
        }

    def _check_output(self, newest: Remembered | None) -> None:
        """Raise ``FileError`` where output and state do not go together."""
        batches = self._output.batches()
        there = batches[-1] if batches else -1
        if newest is not None and there == newest.plan.batch:
            self._output.check_recorded(there, newest.plan)
        else:
            self._output.check_recorded(there, self._state.done(there))
        if newest is not None and (written := newest.plan.batch - (not newest.done)) >= 0:
            self._output.check_whole(batches, written)

    def _finish(self, plan: Plan) -> dict[str, Any]:
        """Do those of the steps 2 to 5 that are not done. Returns the result of the batch."""
        is_there = self._output.holds(plan)
        left = self._left(plan)
        self._losses += plan.losses
        if not is_there:
            self._pass_over([each for each in plan.ranges if each not in left])
            left = self._without_given_up(left)
        messages = 0 if is_there else self._write(plan, left)
        if self._options.group is not None:
            after = {each.topic_partition: each.stop_offset for each in left}
            self._cluster.groups.commit(self._options.group, after)
        self._state.finish(plan)
        ranges = [
            {"partition": str(each.topic_partition), "start": each.start_offset, "stop": each.stop_offset}
            for each in plan.ranges
        ]
        noted = {"written_by": "an earlier run"} if is_there else {}
        return {"batch": plan.batch, "messages": messages, **noted, "ranges": ranges}

    def _left(self, plan: Plan) -> list[OffsetRange]:
        """The plan's ranges, without topics that were deleted since."""
        ids = self._planning.topic_ids(plan.topic_ids)
        gone = {topic for topic in plan.topic_ids.keys() - ids.keys() if self._is_gone(topic)}
        gone |= plan.recreated(ids)
        return [each for each in plan.ranges if each.topic_partition.topic not in gone]

    def _without_given_up(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """The ranges without those of brokers that the user has given up. The summary names these."""
        suspects = [
            each.topic_partition
            for each in ranges
            if each.topic_partition.broker in self._options.gone_brokers
        ]
        if not suspects:
            return [*ranges]
        dead = set(suspects) - self._cluster.leaders_of(suspects).keys()
        self._losses += [
            f"{each} is not read: its broker is gone" for each in ranges if each.topic_partition in dead
        ]
        return [each for each in ranges if each.topic_partition not in dead]

    def _is_gone(self, topic: str) -> bool:
        """True if brokers say that the topic does not exist, and not only that it is unavailable now."""
        try:
            return not self._cluster.partitions_of([topic])
        except UnknownTopicError:
            return True

    def _pass_over(self, gone: Sequence[OffsetRange]) -> None:
        losses = [f"{deleted(each)}: the topic no longer exists" for each in gone if each.size]
        self._planning.check_borne(losses)
        self._losses += losses

    def _write(self, plan: Plan, ranges: Sequence[OffsetRange]) -> int:
        if not ranges:
            self._output.write_nothing(plan)
            return 0
        partitions = len(ranges)
        unit = self._options.offset_unit
        is_records = unit is OffsetUnit.RECORDS
        what = f"batch {plan.batch}: {plan.size:,} {unit.value} of {counted(partitions, 'partition')}"
        schema = self._schema(ranges, plan.schema)
        with (
            self._progress.work(what, messages_total=plan.size if is_records else None) as work,
            watching(self._spark, work),
        ):
            messages = self._output.write(plan, self._messages(ranges), schema)
        self._losses += self._lost_meanwhile(ranges)
        return messages

    def _next(self, last: Plan | None) -> Plan | None:
        plan = self._planning.next(last, self._schema)
        self._losses += self._planning.losses
        return plan

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
            return inferred_schema(self._spark, self._messages(ranges, "value binary"))

    def _messages(self, ranges: Sequence[OffsetRange], schema: str | None = None) -> DataFrame:
        """Exactly the messages of the ranges."""
        return read_ranges(self._spark, self._options.connection, ranges, schema)

    def _lost_meanwhile(self, ranges: Sequence[OffsetRange]) -> list[str]:
        """Lines about messages that may be missing because they were deleted before or during the read."""
        if self._options.read.fetch.fail_on_data_loss:
            return []
        found = self._cluster.bounds([each.topic_partition for each in ranges])
        return [
            deleted(
                OffsetRange(
                    each.topic_partition,
                    each.start_offset,
                    min(found[each.topic_partition].earliest, each.stop_offset),
                )
            )
            for each in ranges
            if found[each.topic_partition].earliest > each.start_offset
        ]
