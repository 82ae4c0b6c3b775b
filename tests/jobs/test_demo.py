"""`make demo`: the whole way on recorded logs, and nothing left behind."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
DEMO = (sys.executable, "jobs/demo.py")


def test_help_needs_nothing_but_the_package(tmp_path: Path) -> None:
    script = shutil.copy(ROOT / "jobs" / "demo.py", tmp_path)
    reported = subprocess.run(
        (sys.executable, script, "--help"), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "usage: demo.py [-h]" in reported.stdout


@pytest.mark.nightly
@pytest.mark.timeout(1100)  # a minute or two, on a machine with nothing else to do
def test_demo_reads_counts_writes_reads_back_and_copies_to_a_modern_broker() -> None:
    demo = subprocess.run(DEMO, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert demo.returncode == 0, demo.stderr
    reports = [json.loads(line) for line in demo.stdout.splitlines() if line.startswith("{")]
    assert [report.pop("seconds") > 0 for report in reports] == [True, True]
    assert reports == [
        {"read": 15917, "partitions": 6, "written": 58, "read_back": 58, "match": True},
        {"copied": 15917, "partitions": 6, "read_back": 15917, "match": True},
    ]


@pytest.mark.nightly
@pytest.mark.timeout(1100)  # a minute or two, on a machine with nothing else to do
def test_nothing_outlives_an_interrupted_demo() -> None:
    with subprocess.Popen(
        DEMO, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as demo:
        assert demo.stdout is not None
        try:
            assert any(line.startswith("quickstart: parsing") for line in demo.stdout)
            started = psutil.Process(demo.pid).children(recursive=True)
        finally:
            demo.send_signal(signal.SIGINT)
            demo.stdout.read()

    assert len(started) > 4, "ZooKeeper, two brokers, Spark and its job"
    _, left = psutil.wait_procs(started, timeout=90)
    assert left == []
    assert demo.returncode == 128 + signal.SIGINT
