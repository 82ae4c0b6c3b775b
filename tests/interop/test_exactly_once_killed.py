"""Exactly-once writes whose drivers, workers and brokers are killed, and whose connections are cut, at all
steps: two foreign readers see each row once, and nothing of a write that was given up.

``KAFKAWIRE_EXACTLY_ONCE_RUNS=80`` is how many writes there are to one broker of each version, a quarter of
that to three; ``KAFKAWIRE_EXACTLY_ONCE_SEED`` what is drawn for them. It prints where the faults struck
(``pytest -s -o faulthandler_timeout=0``).
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from .killed_writes import SPECULATING, KilledWrites, Struck

RUNS: Final = int(os.environ.get("KAFKAWIRE_EXACTLY_ONCE_RUNS", "4"))
SEED: Final = int(os.environ.get("KAFKAWIRE_EXACTLY_ONCE_SEED", "1"))
VERSIONS: Final = tuple(os.environ.get("KAFKAWIRE_EXACTLY_ONCE_VERSIONS", "3.9.1 4.1.1 4.4.0").split())
#: Of the writes to one broker, how many are written to three.
THREE_SHARE: Final = 4
TIMEOUT_S: Final = 600 + 60 * RUNS


def show(writes: KilledWrites, title: str) -> None:
    """What was hit, and what became of it."""
    print(f"\n{title}")
    by = {True: "Spark", False: "forks"}
    struck = [each for each in writes.struck if each.phase]
    phases = Counter((by[each.by_spark], each.kind.value, _phase_of(each)) for each in writes.struck)
    steps = Counter(
        ("after it" if each.after_it else "before it", each.step.value if each.step else "a random moment")
        for each in struck
    )
    print(f"{len(struck)} faults struck, {sum(each.by_spark for each in struck)} of them writes by Spark")
    for counted in (phases, steps, writes.tally):
        for key, count in sorted(counted.items()):
            print(count, *((key,) if isinstance(key, str) else key), sep="\t")


def _phase_of(struck: Struck) -> str:
    return struck.phase.value if struck.phase else "(the write was over before)"


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("nodes", [1, 3])
def test_writes_that_faults_strike_are_there_once_or_not_at_all(
    version: str, nodes: int, tmp_path: Path
) -> None:
    runs = RUNS if nodes == 1 else -(-RUNS // THREE_SHARE)
    with KilledWrites(version, tmp_path, nodes, SEED) as writes:
        try:
            writes.run(runs)
            writes.check_by_spark()
        finally:
            show(writes, f"Apache Kafka {version}, {nodes} node(s), seed {SEED}")


@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("version", VERSIONS)
def test_attempts_that_fail_and_those_that_run_twice_at_a_time_double_nothing(
    version: str, tmp_path: Path
) -> None:
    with KilledWrites(version, tmp_path, 1, SEED, SPECULATING) as writes:
        try:
            writes.speculate(RUNS)
            writes.check_by_spark()
        finally:
            show(writes, f"Apache Kafka {version}, speculation, seed {SEED}")
    assert writes.tally["attempts beyond one of each task"] >= 1
