"""Code that the tests of migrations share: runs without Spark, and their copies."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.cluster.cluster import cluster_of
from spark_kafkawire.jobs.migration.clusters import Clusters, source_options, target_options
from spark_kafkawire.jobs.migration.copying import Copier
from spark_kafkawire.jobs.migration.run import Runner, Settings, migrate
from spark_kafkawire.jobs.shell.progress import progress_on
from spark_kafkawire.jobs.state.sealed import seal, unseal
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.records.message_set.encoding import encode
from tests.support import librdkafka
from tests.support.golden import values_sha256
from tests.support.noida import NoidaBroker
from tests.support.writing import binary

#: Deadlines and sizes for tests: a small partition is many pieces, and each of them some batches.
SOURCE = {"retryBackoff": "5ms", "requestTimeout": "10s", "fetchBytes": "16KiB"}
TARGET = {"retryBackoff": "5ms", "requestTimeout": "10s", "batchBytes": "8KiB"}
PIECE_BYTES = 20_000


def clusters_of(
    zookeeper_connect: str,
    bootstrap_servers: str,
    topics: Sequence[str],
    *,
    source_headers: bool = False,
    exactly_once: bool = False,
    transactional_id: str | None = None,
    **source: str,
) -> Clusters:
    """Both clusters, as the job makes them of its arguments."""
    given = {"zookeeper.connect": zookeeper_connect, **SOURCE, **source}
    target = {"kafka.bootstrap.servers": bootstrap_servers, **TARGET}
    return Clusters(
        source_options(given, {"subscribe": ",".join(topics)}),
        *target_options(target, exactly_once=exactly_once, transactional_id=transactional_id),
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


def driver_arguments(
    corpus: EmbeddedCluster, noida: NoidaBroker, state: Path, names: dict[str, str]
) -> dict[str, Any]:
    """Arguments for a driver that copies topics to others (``..driver``)."""
    servers = {"zookeeper_connect": corpus.zookeeper_connect, "bootstrap_servers": noida.bootstrap_servers}
    return {**servers, "state": str(state), "names": names}


class Killed(Exception):
    """Stands for the end of the process."""


def copied(
    noida: NoidaBroker, topic: str, partition_count: int = 6, isolation_level: str = "read_uncommitted"
) -> list[tuple[int, str]]:
    """Count of the messages of each partition of the target, and their checksum, as librdkafka reads them."""
    found = []
    for partition in range(partition_count):
        values = read(noida, topic, partition, isolation_level)
        found.append((len(values), values_sha256(iter(values))))
    return found


def read(
    noida: NoidaBroker, topic: str, partition: int = 0, isolation_level: str = "read_uncommitted"
) -> list[bytes]:
    """The values in a partition of the target."""
    records = librdkafka.consume(noida.bootstrap_servers, topic, partition, isolation_level=isolation_level)
    return [record.value or b"" for record in records]


def killed_after(count: int, kind: type[Any] = Copier) -> Callable[[Any, Sequence[Any]], list[Any]]:
    """Runs tasks of a kind until so many are done; their results are lost with the process."""
    left = itertools.count(count, -1)

    def runner(function: Any, tasks: Sequence[Any]) -> list[Any]:
        results = []
        for task in tasks:
            if isinstance(function, kind) and next(left) == 0:
                raise Killed
            results.append(function(task))
        return results

    return runner


def change_state(folder: Path, change: Callable[[list[Any]], object]) -> None:
    """Change what a state tells of its partitions."""
    [file] = folder.glob("migration-*.json")
    content = unseal(file.read_text(), "migration 2")
    change(content["logs"])
    file.write_text(seal("migration 2", content))


def log_count(corpus: EmbeddedCluster, topic: str) -> int:
    cluster = cluster_of(
        ReadOptions.parse({"zookeeper.connect": corpus.zookeeper_connect, "subscribe": topic})
    )
    return len(cluster.partitions_of([topic])) if topic in cluster.topics() else 0


def ports(corpus: EmbeddedCluster) -> list[int]:
    return [int(entry.rsplit(":", 1)[1]) for entry in corpus.broker_list.split(",")]


def message_set(*values: bytes) -> bytes:
    return bytes(encode(binary(values)))
