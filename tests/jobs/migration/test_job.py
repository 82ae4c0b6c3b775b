"""`jobs/migrate.py` as a user runs it, in this process, from brokers and from their log directories."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.options import NetOptions, WriteOptions
from tests.support import librdkafka
from tests.support.corpus import GZIP_TOPIC, partitions_of, recorded
from tests.support.golden import CORPUS
from tests.support.noida import NoidaBroker

from ..arguments import RunHere
from .dying import VALUES, pieces_to_copy
from .migrating import change_state, read


@pytest.fixture
def both(corpus: EmbeddedCluster, noida: NoidaBroker) -> list[str]:
    """The arguments that name both clusters."""
    return [
        f"--source-option=zookeeper.connect={corpus.zookeeper_connect}",
        f"--target-option=kafka.bootstrap.servers={noida.bootstrap_servers}",
    ]


def test_topics_are_planned_copied_and_verified(
    run_here: RunHere, both: list[str], corpus: EmbeddedCluster, noida: NoidaBroker, tmp_path: Path
) -> None:
    topic = pieces_to_copy(corpus)
    target, size = f"copied-{topic}", sum(len(value) + 10 for value in VALUES)
    arguments = [*both, "--topic", topic, "--map", f"{topic}={target}", "--state", f"{tmp_path}/state"]
    code, out, _ = run_here("migrate", *arguments, "--create-topics", "--dry-run", "--json")
    reported = json.loads(out)
    assert (code, reported["bytes"], reported["topics_to_create"]) == (0, size, {target: 3})

    code, out, _ = run_here("migrate", *arguments, "--create-topics", "--json")
    summary = json.loads(out)
    assert (code, summary["messages"], summary["bytes"], summary["failed"]) == (0, len(VALUES), size, [])
    assert read(noida, target) == VALUES

    def forget_one(logs: list[dict[str, object]]) -> None:
        logs[0].update(open=True, verified=[0, 1, 0])

    change_state(tmp_path / "state", forget_one)
    code, out, err = run_here("migrate", *arguments, "--quiet")
    assert code == 1
    [line] = out.splitlines()[:1]
    assert line.startswith(f"{topic} 0-0  ->  {target} 0")
    assert "NOT EQUAL" in line
    assert f"migrate: verification failed for 1 of 1 partitions: {topic} 0-0 has" in err


def test_pieces_are_copied_in_transactions_that_the_user_names(
    run_here: RunHere, both: list[str], corpus: EmbeddedCluster, noida: NoidaBroker, tmp_path: Path
) -> None:
    topic = pieces_to_copy(corpus)
    arguments = [*both, "--topic", topic, "--state", f"{tmp_path}/state", "--create-topics", "--json"]
    named = ["--exactly-once", "--transactional-id", f"name-{topic}"]
    code, out, err = run_here("migrate", *arguments, *named)
    assert code == 0, err
    assert json.loads(out)["messages"] == len(VALUES)
    assert read(noida, topic, isolation_level="read_committed") == VALUES
    # Its marker is behind them.
    assert librdkafka.offsets(noida.bootstrap_servers, topic)[1] == len(VALUES) + 1
    listed = Transactions(*connection(noida)).listed()
    assert f"name-{topic}-{topic}-0-log" in {each.transactional_id for each in listed}

    code, out, err = run_here("migrate", *arguments)
    assert (code, out) == (2, "")
    assert (
        "argument --exactly-once: the state directory was begun with it; continue the same way, or give an "
        "empty state directory" in err
    )


def connection(noida: NoidaBroker) -> tuple[Metadata, NetOptions]:
    """Whom to ask about transactions."""
    options = WriteOptions.parse({"kafka.bootstrap.servers": noida.bootstrap_servers})
    return Metadata(options.discovery.bootstrap_servers, options.net), options.net


def test_a_dead_cluster_migrates_to_a_live_one(run_here: RunHere, noida: NoidaBroker, tmp_path: Path) -> None:
    paths = [shutil.copytree(CORPUS / name, tmp_path / name) for name in ("broker0", "broker1")]
    # A broker that was killed while it wrote.
    torn = paths[0] / f"{GZIP_TOPIC}-0" / "00000000000000000000.kafka"
    whole = torn.read_bytes()
    torn.write_bytes(whole + whole[:100])
    arguments = [
        f"--source-option=paths={json.dumps([str(path) for path in paths])}",
        f"--target-option=kafka.bootstrap.servers={noida.bootstrap_servers}",
        *("--topic", GZIP_TOPIC, "--map", f"{GZIP_TOPIC}=of-a-dead-cluster"),
        *("--state", f"{tmp_path}/state", "--create-topics", "--json"),
    ]
    code, out, _ = run_here("migrate", *arguments)
    summary = json.loads(out)
    messages = sum(count for count, _ in recorded())
    size = sum(each["log_bytes"] for each in partitions_of())
    assert (code, summary["messages"], summary["bytes"], summary["failed"]) == (0, messages, size, [])
    ends = [librdkafka.offsets(noida.bootstrap_servers, "of-a-dead-cluster", each)[1] for each in range(6)]
    assert sum(ends) == messages
    code, out, _ = run_here("migrate", *arguments)
    assert (code, json.loads(out)["messages"]) == (0, 0)
