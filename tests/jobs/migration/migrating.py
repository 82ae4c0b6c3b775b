"""Code that the tests of migrations share: runs without Spark, their copies, and their ends as by a kill.

topic = pieces_to_copy(corpus)
with dying(7, after_it=True), pytest.raises(Died):
    run(clusters, state, {topic: topic}, PIECE_BYTES)       # after the seventh step, or a named one
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.clients.writing.modern.producer import Producer
from spark_kafkawire.cluster import cluster_of
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.jobs.migration.clusters import (
    Clusters,
)
from spark_kafkawire.jobs.migration.copying import Copier, Present
from spark_kafkawire.jobs.migration.run import Runner, Settings, migrate
from spark_kafkawire.jobs.migration.state import StateDirectory
from spark_kafkawire.jobs.progress import progress_on
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.records.message_set.encoding import encode
from tests.support import librdkafka, replay
from tests.support.golden import values_sha256
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.writing import binary

#: Deadlines and sizes for tests.
SOURCE = {"retryBackoff": "5ms", "requestTimeout": "10s", "fetchBytes": "16KiB"}
TARGET = {"retryBackoff": "5ms", "requestTimeout": "10s", "batchBytes": "8KiB"}


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
    return Settings(
        state=Path(),
        selection={"subscribe": ",".join(topics)},
        source=given,
        target=target,
        source_headers=source_headers,
        exactly_once=exactly_once,
        transactional_id=transactional_id,
    ).clusters()


def one_by_one(function: Any, tasks: Sequence[Any]) -> list[Any]:
    """Runs tasks as Spark does, without Spark."""
    return [function(task) for task in tasks]


def run(
    clusters: Clusters,
    state: Path,
    names: Mapping[str, str],
    piece_bytes: int = 20_000,
    runner: Runner = one_by_one,
    gone_brokers: frozenset[int] = frozenset(),
) -> dict[str, Any]:
    """One run to its end; the summary. A small partition is many pieces, and each of them some batches."""
    settings = Settings(
        state=state, names=names, create_topics=True, piece_bytes=piece_bytes, gone_brokers=gone_brokers
    )
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
    result = []
    for partition in range(partition_count):
        values = read(noida, topic, partition, isolation_level)
        result.append((len(values), values_sha256(iter(values))))
    return result


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
    content = StateDirectory.form.unseal(file.read_text())
    change(content["logs"])
    file.write_text(StateDirectory.form.seal(content))


def log_count(corpus: EmbeddedCluster, topic: str) -> int:
    cluster = cluster_of(
        ReadOptions.parse({"zookeeper.connect": corpus.zookeeper_connect, "subscribe": topic})
    )
    return len(cluster.partitions_of([topic])) if topic in cluster.topics() else 0


def ports(corpus: EmbeddedCluster) -> list[int]:
    return [int(entry.rsplit(":", 1)[1]) for entry in corpus.broker_list.split(",")]


def message_set(*values: bytes) -> bytes:
    return bytes(encode(binary(values)))


_NAMES: Final = itertools.count()
#: Each message is a fetch, and a piece.
FETCH: Final = "1KiB"
PIECE_BYTES: Final = 1
VALUES: Final = [name.ljust(900, b".") for name in (b"one", b"two", b"three")]


class Died(BaseException):
    """The process ended here, and nothing that it would have done after an error happens."""


def pieces_to_copy(corpus: EmbeddedCluster) -> str:
    """A topic of the source with three messages in one partition, 0-0."""
    topic = f"pieces-{os.getpid()}-{next(_NAMES)}"
    for value in VALUES:
        replay.produce(ports(corpus)[0], (topic, 0), message_set(value))
    poll(lambda: log_count(corpus, topic) == 3, "the broker to register the topic")
    return topic


@contextlib.contextmanager
def dying(at: int | str, *, after_it: bool) -> Iterator[list[str]]:
    """The process dies at a step, counted from 0 or by its name, before or after it was done; gives the steps
    so far."""
    steps: list[str] = []
    died: list[bool] = []

    def patched(owner: type, name: str) -> Any:
        method = getattr(owner, name)

        def dies(*args: Any, **kwargs: Any) -> Any:
            if died:
                raise Died
            steps.append(name)
            died.extend([True] * (at in (name, len(steps) - 1)))
            if died and not after_it:
                raise Died
            result = method(*args, **kwargs)
            if died:
                raise Died
            return result

        return dies

    with pytest.MonkeyPatch.context() as patch:
        for name in ("begin", "commit_offsets", "end"):
            patch.setattr(Transactions, name, patched(Transactions, name))
        patch.setattr(Producer, "finish", patched(Producer, "finish"))
        patch.setattr(StateDirectory, "save", patched(StateDirectory, "save"))
        yield steps


def unheard(function: Any, tasks: Sequence[Any]) -> list[Any]:
    """Runs tasks, and dies before it hears of what they have copied."""
    results = one_by_one(function, tasks)
    if isinstance(function, Copier):
        raise Killed
    return results


def without_comparing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever compares a message of the target fails."""
    match = Present.match

    def unmatched(present: Present, values: Any) -> int:
        matched = match(present, values)
        assert not matched, "what a transaction proves was compared"
        return matched

    monkeypatch.setattr(Present, "match", unmatched)
