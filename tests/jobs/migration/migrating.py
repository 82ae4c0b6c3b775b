"""What the tests of migrations share: runs without Spark, here or in a process that can be killed.

``python -m tests.jobs.migration.migrating`` forks a process for each run (``forking``).
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.jobs.migration.clusters import Clusters, source_options, target_options
from spark_kafkawire.jobs.migration.run import Runner, Settings, migrate
from spark_kafkawire.jobs.shell.progress import progress_on

from ..forking import serve

#: Deadlines and sizes for tests: a small log is many pieces, and each of them some batches.
SOURCE = {"retryBackoff": "5ms", "requestTimeout": "10s", "fetchBytes": "16KiB"}
TARGET = {"retryBackoff": "5ms", "requestTimeout": "10s", "batchBytes": "8KiB"}
PIECE_BYTES = 20_000


def clusters_of(
    zookeeper_connect: str,
    bootstrap_servers: str,
    topics: Sequence[str],
    *,
    source_headers: bool = False,
    **source: str,
) -> Clusters:
    """Both clusters, as the job makes them of its arguments."""
    given = {"zookeeper.connect": zookeeper_connect, **SOURCE, **source}
    return Clusters(
        source_options(given, {"subscribe": ",".join(topics)}),
        *target_options({"kafka.bootstrap.servers": bootstrap_servers, **TARGET}),
        source_headers,
    )


def one_by_one(function: Any, tasks: Sequence[Any]) -> list[Any]:
    """Runs tasks as Spark does, without Spark."""
    return [function(task) for task in tasks]


def run(
    clusters: Clusters,
    state: Path,
    names: Mapping[str, str],
    piece_bytes: int = PIECE_BYTES,
    runner: Runner = one_by_one,
    gone_brokers: frozenset[int] = frozenset(),
) -> dict[str, Any]:
    """One run to its end; the summary."""
    settings = Settings(state, names, create_topics=True, piece_bytes=piece_bytes, gone_brokers=gone_brokers)
    return migrate(clusters, settings, runner, progress_on(io.StringIO(), "migrate", quiet=True))


def fork_main(connect: str, servers: str, state: str, names: dict[str, str], output: str) -> None:
    """What a forked process does: a run, and nothing that its parent would do on the way out."""
    try:
        summary = run(clusters_of(connect, servers, sorted(names)), Path(state), names)
        Path(output).write_text(json.dumps(summary))
        os._exit(0 if not summary["failed"] else 3)
    except KafkaWireError as error:
        Path(output).write_text(str(error))
        os._exit(1)
    finally:
        os._exit(2)


if __name__ == "__main__":
    serve(fork_main)
