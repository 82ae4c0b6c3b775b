"""`jobs/migrate.py` as a user runs it, with only the zip shipped."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from tests.jobs.migration.test_migration import TOPIC, change_state, copied, recorded
from tests.support.noida import NoidaBroker
from tests.support.polling import poll

from ..submitting import ROOT, environment, make_zip, submit, submit_command

SCRIPT: Final = ROOT / "jobs" / "migrate.py"
Submit = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_zip(tmp_path_factory.mktemp("zip"))


@pytest.fixture
def both(corpus: EmbeddedCluster, noida: NoidaBroker) -> list[str]:
    """The arguments that name both clusters."""
    return [
        f"--source-option=zookeeper.connect={corpus.zookeeper_connect}",
        f"--target-option=kafka.bootstrap.servers={noida.bootstrap_servers}",
    ]


def test_topics_are_copied_and_verified_with_only_the_zip_shipped(
    package: Path, both: list[str], noida: NoidaBroker, tmp_path: Path
) -> None:
    arguments = [*both, "--topic", TOPIC, "--map", f"{TOPIC}=submitted", "--state", "state"]
    plan = submit(package, tmp_path, SCRIPT, *arguments, "--create-topics", "--dry-run", "--json")
    assert plan.returncode == 0, plan.stderr
    told = json.loads(plan.stdout)
    assert (told["logs"], told["topics_to_create"]) == (6, {"submitted": 6})

    done = submit(package, tmp_path, SCRIPT, *arguments, "--create-topics", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["messages"], summary["bytes"], summary["failed"]) == (15917, told["bytes"], [])
    assert copied(noida, "submitted") == recorded()

    def forget_one(logs: list[dict[str, object]]) -> None:
        logs[2].update(open=True, verified=[0, 1, 0])

    change_state(tmp_path / "state", forget_one)
    unequal = submit(package, tmp_path, SCRIPT, *arguments, "--quiet")
    assert unequal.returncode == 1
    [line] = unequal.stdout.splitlines()[:1]
    assert line.startswith(f"{TOPIC} 0-2  ->  submitted 2")
    assert "NOT EQUAL" in line
    assert f"migrate: verification failed for 1 of 1 logs: {TOPIC} 0-2 has" in unequal.stderr


def test_a_job_that_is_killed_and_submitted_again_copies_each_message_once(
    package: Path, both: list[str], noida: NoidaBroker, tmp_path: Path
) -> None:
    draw = random.Random("submitted")
    arguments = [
        *both,
        "--topic",
        TOPIC,
        "--map",
        f"{TOPIC}=resubmitted",
        "--state",
        "state",
        "--create-topics",
    ]
    arguments += ["--piece-bytes", "100000", "--json"]
    for _ in range(2):
        kill_copying(submit_command(package, SCRIPT, *arguments), tmp_path, draw.uniform(0, 3))
    done = submit(package, tmp_path, SCRIPT, *arguments)
    assert done.returncode == 0, done.stderr
    assert copied(noida, "resubmitted") == recorded()


def kill_copying(command: Sequence[str], folder: Path, wait_s: float) -> None:
    """Submit a job, and end all its processes at once some time after it began to copy."""
    with (folder / "progress").open("w") as progress:
        job = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(folder),
            stderr=progress,
            stdout=progress,
            start_new_session=True,
        )
    try:
        poll(lambda: "copying" in (folder / "progress").read_text() or job.poll() is not None, "copying", 90)
        time.sleep(wait_s)
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
