"""The table of what proves that rows may be left out names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

from spark_kafkawire.clients.reading import data_loss

TESTS = Path(__file__).parents[2]


def test_every_proof_has_its_test() -> None:
    named = set(re.findall(r"\btest_\w+", data_loss.__doc__ or ""))
    there = {
        name for path in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    assert len(named) > 25
    assert named <= there, named - there
