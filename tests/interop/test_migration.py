"""Migrations to Apache Kafka itself: it creates the topics, and holds each partition to its order."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.migration.run import check
from spark_kafkawire.jobs.migration.state import load_state
from tests.jobs.drivers import Runs, starting_runs
from tests.jobs.migration.migrating import (
    FETCH,
    PIECE_BYTES,
    VALUES,
    Died,
    clusters_of,
    dying,
    pieces_to_copy,
    run,
    without_comparing,
)
from tests.support import librdkafka
from tests.support.corpus import GZIP_TOPIC, recorded
from tests.support.golden import values_sha256
from tests.support.polling import poll

from .apache_kafka import ApacheKafka
from .versions import newest

#: How often drivers are killed that copy in transactions.
KILLS: Final = int(os.environ.get("KAFKAWIRE_MIGRATION_KILLS", "4"))
SEED: Final = os.environ.get("KAFKAWIRE_MIGRATION_SEED", "1")


def counted(kafka: ApacheKafka, topic: str, partition: int = 0) -> list[bytes]:
    """The values that librdkafka reads of what is committed."""
    records = librdkafka.consume(
        kafka.bootstrap_servers(), topic, partition, isolation_level="read_committed"
    )
    return [record.value or b"" for record in records]


def counted_partitions(kafka: ApacheKafka, topic: str) -> list[tuple[int, str]]:
    """Count of the committed messages of each partition of a target, and their checksum."""
    result = (counted(kafka, topic, partition) for partition in range(6))
    return [(len(values), values_sha256(iter(values))) for values in result]


def saved(state: Path) -> bool:
    """True if a run has saved its state there."""
    return any(state.glob("migration-*.json"))


def test_a_run_in_transactions_that_dies_at_any_step_is_gone_on_with_and_compares_nothing(
    kafka: ApacheKafka, corpus: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_comparing(monkeypatch)
    servers, topic = kafka.bootstrap_servers(), pieces_to_copy(corpus)

    def again(state: Path, name: str) -> dict[str, Any]:
        clusters = clusters_of(
            corpus.zookeeper_connect, servers, [topic], exactly_once=True, fetchBytes=FETCH
        )
        return run(clusters, state, {topic: name}, PIECE_BYTES)

    with dying(1 << 30, after_it=False) as steps:
        check(again(tmp_path / "whole", topic))
    assert steps.count("commit_offsets") == len(VALUES)
    assert counted(kafka, topic) == VALUES
    # From the end of the first piece to that of the second; or all, which takes a minute.
    _opened, first, second, *_ = (at for at, name in enumerate(steps) if name == "save")
    ends = range(first, second + 1) if "KAFKAWIRE_MIGRATION_KILLS" not in os.environ else range(len(steps))
    for at, after_it in itertools.product(ends, (False, True)):
        name, state = f"{topic}-{at}-{after_it}", tmp_path / f"{at}-{after_it}"
        with dying(at, after_it=after_it), pytest.raises(Died):
            again(state, name)
        check(again(state, name))
        assert counted(kafka, name) == VALUES, (at, after_it, steps)
        known = load_state(state)
        assert known is not None
        assert not any(partition.is_open for partition in known.partitions.values())


@newest
def test_a_new_state_is_noticed_also_where_the_target_begins_with_what_was_aborted(
    kafka: ApacheKafka, corpus: EmbeddedCluster, tmp_path: Path
) -> None:
    servers, topic = kafka.bootstrap_servers(), pieces_to_copy(corpus)
    clusters, other = (
        clusters_of(corpus.zookeeper_connect, servers, [topic], exactly_once=True) for _ in range(2)
    )
    with dying("commit_offsets", after_it=False), pytest.raises(Died):
        run(clusters, tmp_path / "state", {topic: topic})
    assert librdkafka.offsets(servers, topic)[1] == len(VALUES)
    check(run(clusters, tmp_path / "state", {topic: topic}))
    assert counted(kafka, topic) == VALUES
    with pytest.raises(OptionError, match=rf"{topic} 0 begins with the messages of {topic} 0-0 already"):
        run(other, tmp_path / "new", {topic: topic})


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    (tmp_path / "runs").mkdir()
    with starting_runs(["tests.jobs.driver"], tmp_path / "runs") as runs:
        yield runs


@pytest.mark.timeout(480 + 60 * KILLS)
def test_a_migration_in_transactions_that_is_killed_at_random_moments_copies_each_message_once(
    runs: Runs, kafka: ApacheKafka, corpus: EmbeddedCluster, tmp_path: Path
) -> None:
    """Of six partitions, each in a process of its own."""
    draw = random.Random(f"{SEED} {kafka.version}")
    where = {"zookeeper_connect": corpus.zookeeper_connect, "bootstrap_servers": kafka.bootstrap_servers()}
    whole_run_s = 0.0
    kills = aborted = 0
    # What no kill struck while it was open proves nothing: there are more of them until one did.
    for number in itertools.count():
        name, state = f"killed-in-transactions-{number}", tmp_path / f"state-{number}"
        code, still = -signal.SIGKILL, max(KILLS - kills, 1)
        while code != 0:
            began_s = time.monotonic()
            named = {**where, "exactly_once": True, "state": str(state), "names": {GZIP_TOPIC: name}}
            child = runs.start("migrate", named, {"gate": None, "clock_s": 0, "stops": False})
            # The first one is not killed: it tells how long the moments are.
            if number and still:
                poll(partial(saved, state), "the migration to begin")
                time.sleep(draw.uniform(0, whole_run_s / 2))
                child.signal(signal.SIGKILL)
            code = runs.ended(child)
            assert code in (0, -signal.SIGKILL), child.output.read_text()
            kills, still = kills + (code != 0), still - (code != 0)
            whole_run_s = whole_run_s or time.monotonic() - began_s
        result = counted_partitions(kafka, name)
        assert result == recorded()
        everything = librdkafka.consume_partitions(
            kafka.bootstrap_servers(), [(name, partition) for partition in range(6)]
        )
        aborted += sum(map(len, everything.values())) - sum(count for count, _ in result)
        print(
            f"{kafka.version}: {kills} kills, {number + 1} migrations, {aborted} records aborted", flush=True
        )
        if kills >= KILLS and aborted:
            break
