"""Jobs on a cluster that loses a worker while they run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.jobs.submitting import ROOT, environment, submit_command
from tests.support.polling import poll
from tests.support.spark_cluster import SparkCluster

#: For a driver and its executors to start, and to get to the middle of the job, on a busy machine.
MIDDLE_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Losing:
    """Submits jobs from ``folder``, with the zip and the Python of ``workplace``."""

    cluster: SparkCluster
    workplace: Path
    folder: Path

    def run(self, job: str, *arguments: str, in_the_middle: Callable[[], bool]) -> dict[str, Any]:
        """The summary of a job. A worker is killed as soon as it is in the middle."""
        with self._started(job, *arguments) as process:
            try:
                poll(lambda: in_the_middle() or process.poll() is not None, "the middle", MIDDLE_TIMEOUT_S)
                assert process.poll() is None, self._said()
            except BaseException:
                process.kill()
                raise
            self.cluster.kill_worker()
        return self._summary(process)

    def run_undisturbed(self, job: str, *arguments: str) -> dict[str, Any]:
        """The summary of a job."""
        with self._started(job, *arguments) as process:
            pass
        return self._summary(process)

    def _started(self, job: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = submit_command(
            self.workplace / "spark_kafkawire.zip",
            ROOT / "jobs" / job,
            *(*arguments, "--json", "--quiet"),
            master=self.cluster.master,
            conf={"spark.executor.memory": "512m"},
        )
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment(self.workplace),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    def _summary(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        assert process.returncode == 0, self._said()
        summary: dict[str, Any] = json.loads((self.folder / "out").read_text())
        return summary

    def _said(self) -> str:
        return (self.folder / "err").read_text("utf-8", "replace")
