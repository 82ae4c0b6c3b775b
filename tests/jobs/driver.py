"""A job's driver program that can be killed for little: its JVM, which takes seconds to start, stays.

    python -m tests.jobs.driver      forks a process for each run; ``drivers`` asks for them

The environment names the JVM. Killing a driver program in the middle leaves its Spark job running, as
executors of a cluster go on for a while when their driver is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from spark_kafkawire.jobs.ending import explain, failures
from spark_kafkawire.jobs.files import LocalFiles
from spark_kafkawire.jobs.ingest.output import OutputOptions
from spark_kafkawire.jobs.ingest.run import Ingest, IngestOptions
from spark_kafkawire.jobs.migration.run import check
from spark_kafkawire.jobs.progress import Progress
from spark_kafkawire.jobs.publish.options import MessageColumns, PublishOptions, messages
from spark_kafkawire.jobs.publish.run import publish as publish_rows
from spark_kafkawire.jobs.publish.run import report
from spark_kafkawire.source.datasource import KafkaWireDataSource
from spark_kafkawire.source.spark_versions import register

from .clock.sitecustomize import SHIFT, shift_clock
from .drivers import serve
from .migration.migrating import clusters_of
from .migration.migrating import run as run_migration
from .submitting import command

#: Where Python's workers find the module that shifts their clock.
CLOCK: Final = Path(__file__).with_name("clock")

#: Called when all is loaded and connected, before the run.
Wait = Callable[[], None]


def session() -> SparkSession:
    """A session of its own in the JVM that the environment names; its workers have this process's clock."""
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    scala_context = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    context = gateway.jvm.org.apache.spark.api.java.JavaSparkContext(scala_context)
    shift = os.environ.get(SHIFT)
    workers = {} if shift is None else {SHIFT: shift, "PYTHONPATH": str(CLOCK)}
    spark = SparkSession(SparkContext(gateway=gateway, jsc=context, environment=workers)).newSession()
    register(spark, KafkaWireDataSource)
    return spark


def ingest(given: dict[str, Any], wait: Wait) -> dict[str, Any]:
    """The summary of a run."""
    options = IngestOptions(output=OutputOptions(given.pop("output")), **given)
    run = Ingest(session(), options, Progress())
    wait()
    return run.run()


def publish(given: dict[str, Any], wait: Wait) -> dict[str, Any]:
    """The summary of a run."""
    rows = messages(session().read.parquet(given["input"]), MessageColumns(**given["columns"]))
    options = PublishOptions(
        connection=given["options"],
        folder=given["state"],
        settle_s=given["settle_s"],
        exactly_once=given.get("exactly_once", False),
    )
    wait()
    return dict(report(publish_rows(rows, options, Progress()), as_json=True))


def migrate(given: dict[str, Any], wait: Wait) -> dict[str, Any]:
    """The summary of a run without Spark."""
    names = given["names"]
    clusters = clusters_of(
        given["zookeeper_connect"],
        given["bootstrap_servers"],
        sorted(names),
        exactly_once=given.get("exactly_once", False),
    )
    wait()
    summary = run_migration(clusters, Path(given["state"]), names)
    check(summary)
    return summary


def offsets(given: dict[str, Any], wait: Wait) -> dict[str, Any]:
    """Nothing: files and offsets tell of a run."""
    wait()
    with contextlib.redirect_stdout(sys.stderr):
        code = command("offsets").JOB.main(given["argv"])
    assert code == 0
    return {}


JOBS: Final[Mapping[str, Callable[[dict[str, Any], Wait], dict[str, Any]]]] = MappingProxyType(
    {"ingest": ingest, "publish": publish, "migrate": migrate, "offsets": offsets}
)


def fork_main(job: str, given: dict[str, Any], how: dict[str, Any], output: str) -> None:
    """Do a run in a forked process, and nothing that its parent would do on the way out.

    Exits with 0, its summary in the output; with 1, one line there; with 2, a traceback.
    """
    code, text = 2, ""
    try:
        if how["clock_s"]:
            os.environ[SHIFT] = str(how["clock_s"])
            shift_clock(how["clock_s"])
        if how["stops"]:
            stop_when_a_file_is_made()
        code, text = 0, json.dumps(JOBS[job](given, lambda: _wait(how["gate"], output)))
    except failures() as error:
        code, text = 1, explain(error)[0]
    except BaseException:
        text = traceback.format_exc()
    finally:
        Path(output).write_text(text)
        os._exit(code)


def stop_when_a_file_is_made() -> None:
    """Stop this process when it has made the first of its files."""
    create = LocalFiles.create

    def stopping(files: LocalFiles, path: str, text: str) -> None:
        create(files, path, text)
        os.kill(os.getpid(), signal.SIGSTOP)

    setattr(LocalFiles, "create", stopping)  # noqa: B010


def _wait(gate: str | None, output: str) -> None:
    """Tell to be ready, and begin when the gate's lock is free."""
    if gate is not None:
        Path(f"{output}-ready").touch()
        with open(gate) as file:
            fcntl.flock(file, fcntl.LOCK_SH)


if __name__ == "__main__":
    serve(fork_main)
