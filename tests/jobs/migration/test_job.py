"""`jobs/migrate.py` as a user runs it, in this process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from tests.support.corpus import GZIP_TOPIC, recorded
from tests.support.noida import NoidaBroker

from ..arguments import RunHere
from .migrating import change_state, copied


@pytest.fixture
def both(corpus: EmbeddedCluster, noida: NoidaBroker) -> list[str]:
    """The arguments that name both clusters."""
    return [
        f"--source-option=zookeeper.connect={corpus.zookeeper_connect}",
        f"--target-option=kafka.bootstrap.servers={noida.bootstrap_servers}",
    ]


def test_topics_are_planned_copied_and_verified(
    run_here: RunHere, both: list[str], noida: NoidaBroker, tmp_path: Path
) -> None:
    arguments = [
        *both,
        "--topic",
        GZIP_TOPIC,
        "--map",
        f"{GZIP_TOPIC}=copied",
        "--state",
        f"{tmp_path}/state",
    ]
    code, out, _ = run_here("migrate", *arguments, "--create-topics", "--dry-run", "--json")
    told = json.loads(out)
    assert (code, told["logs"], told["topics_to_create"]) == (0, 6, {"copied": 6})

    code, out, _ = run_here("migrate", *arguments, "--create-topics", "--json")
    summary = json.loads(out)
    assert (code, summary["messages"], summary["bytes"], summary["failed"]) == (0, 15917, told["bytes"], [])
    assert copied(noida, "copied") == recorded()

    def forget_one(logs: list[dict[str, object]]) -> None:
        logs[2].update(open=True, verified=[0, 1, 0])

    change_state(tmp_path / "state", forget_one)
    code, out, err = run_here("migrate", *arguments, "--quiet")
    assert code == 1
    [line] = out.splitlines()[:1]
    assert line.startswith(f"{GZIP_TOPIC} 0-2  ->  copied 2")
    assert "NOT EQUAL" in line
    assert f"migrate: verification failed for 1 of 1 logs: {GZIP_TOPIC} 0-2 has" in err
