"""Runs of ingest without Spark, which write offsets where messages would be."""

from __future__ import annotations

from typing import Any

from spark_kafkawire.jobs.ingest.output import Output
from spark_kafkawire.jobs.ingest.plan import Plan
from spark_kafkawire.jobs.ingest.run import Ingest
from spark_kafkawire.jobs.state.local_files import LocalFiles

from .ingesting import QUIET


class LocalOutput(Output):
    """Writes the offsets of a batch into a file, as Spark would write its messages."""

    def write(self, plan: Plan, messages: Any, _: str | None) -> int:
        attempt = self._begun(plan)
        offsets = "".join(f"{at}\n" for each in messages for at in range(each.start_offset, each.stop_offset))
        self._files.create(f"{attempt}/part-0", offsets)
        self._show(plan, attempt)
        return offsets.count("\n")


class LocalIngest(Ingest):
    """A run without Spark."""

    def __init__(self, options: Any) -> None:
        super().__init__(None, options, QUIET, LocalFiles())  # type: ignore[arg-type]
        self._output = LocalOutput(self._files, options.output)

    def _write(self, plan: Plan, ranges: Any) -> int:
        return self._output.write(plan, ranges, None) if ranges else super()._write(plan, ranges)
