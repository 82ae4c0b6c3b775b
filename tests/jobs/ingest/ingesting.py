"""Messages, options, checks, and runs without Spark that the tests of ingest share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.jobs.files import LocalFiles
from spark_kafkawire.jobs.ingest.output import Output, OutputOptions
from spark_kafkawire.jobs.ingest.run import Ingest, IngestOptions
from spark_kafkawire.jobs.ingest.state import Plan
from spark_kafkawire.jobs.progress import Progress
from spark_kafkawire.jobs.spark import Files
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

QUIET: Final = Progress()


def produce(bootstrap_servers: str, topic: str, values: range, partitions: int = 2) -> None:
    """Messages that hold a number each, the partitions in turn."""
    records = [Record(b'{"n": %d}' % number, partition=number % partitions) for number in values]
    librdkafka.produce(bootstrap_servers, topic, records)


def values_of(spark: SparkSession, output: OutputOptions) -> list[int]:
    """The numbers in the output, sorted; doubled ones twice."""
    rows = spark.read.parquet(output.path).selectExpr("get_json_object(CAST(value AS STRING), '$.n') AS n")
    return sorted(int(row.n) for row in rows.collect())


def offsets_of(output: OutputOptions) -> list[int]:
    """The offsets that runs without Spark have written, of all partitions, sorted; doubled ones twice."""
    files = Path(output.path).glob("batch=*/part-0")
    return sorted(int(line) for file in files for line in file.read_text().split())


def options_of(broker: NoidaBroker, topic: str, output: OutputOptions, **options: Any) -> IngestOptions:
    """Options of a run on one topic of a modern broker."""
    connection = {"kafka.bootstrap.servers": broker.bootstrap_servers, **options.pop("connection", {})}
    return IngestOptions(connection=connection, output=output, selection={"subscribe": topic}, **options)


class Crash(BaseException):
    """An end of a run at an instruction, as by a kill: nothing of the package catches it."""


def crash(*_: Any) -> None:
    """A step at which the run ends."""
    raise Crash


class Crashing:
    """Counts the steps that change files, and ``more``, and ends the run before or after one of them."""

    CHANGES: Final = ("create", "rename", "remove", "make_folder")

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *more: tuple[type, str]) -> None:
        self.left = 0
        self.after = False
        for owner, name in [*((Files, name) for name in self.CHANGES), *more]:
            monkeypatch.setattr(owner, name, self._crashing(getattr(owner, name)))

    def around_each(self, steps: range, run: Callable[[], Any]) -> int:
        """Run with a crash before and one after each of these steps. Returns how many crashed: a run may have
        fewer steps."""
        crashes = 0
        for self.after in (False, True):
            for step in steps:
                self.left = step
                try:
                    run()
                except Crash:
                    crashes += 1
        self.left = 0
        return crashes

    def _crashing(self, step: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **options: self._step(lambda: step(*arguments, **options))

    def _step(self, step: Callable[[], Any]) -> Any:
        self.left -= 1
        crashes = self.left == 0
        if crashes and not self.after:
            raise Crash
        result = step()
        if crashes:
            raise Crash
        return result


class LocalOutput(Output):
    """Writes the offsets of a batch into a file, as Spark would write its messages."""

    def write(self, plan: Plan, messages: Any, _: str | None) -> int:
        attempt = self._begun(plan)
        offsets = "".join(f"{at}\n" for item in messages for at in range(item.start_offset, item.stop_offset))
        self._files.create(f"{attempt}/part-0", offsets)
        self._show(plan, attempt)
        return offsets.count("\n")


class LocalIngest(Ingest):
    """A run without Spark."""

    def __init__(self, options: Any) -> None:
        super().__init__(None, options, QUIET, LocalFiles())  # type: ignore[arg-type]
        self._output = LocalOutput(self._files, options.output)

    def _write(self, plan: Plan, ranges: Any) -> int:
        if not ranges:
            return super()._write(plan, ranges)
        self._losses += self._describe_lost_meanwhile(ranges)
        return self._output.write(plan, ranges, None)
