"""Runs of jobs whose clock is set back between them, and in the middle of their work."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import pytest

from .drivers import Drivers
from .work import Publishing, Work, at_length_but

_DAY_S: Final = 24 * 3600
_YEAR_S: Final = 365 * _DAY_S

pytestmark = pytest.mark.timeout(1100)


@at_length_but("migrate")
def test_a_clock_that_is_set_back_loses_and_doubles_nothing(work: Work, drivers: Drivers) -> None:
    """A year, and then a day, each time while a run is killed; Spark's own JVM has the right clock."""
    for clock_s in (_YEAR_S, 0):
        work.add()
        before = work.progress()
        child = drivers.start(work.job, work.arguments, clock_s=clock_s)
        drivers.await_progress(work, before, child)
        drivers.kill(child)
        drivers.end_jobs()
        date(work.folder, time.time() + clock_s)
    work.add()
    for _ in range(2):
        began_s = time.monotonic()
        summary = drivers.summary(drivers.start(work.job, work.arguments, clock_s=-_DAY_S))
        # A summary's seconds are rounded to tenths.
        assert 0 <= summary.get("seconds", 0.0) <= time.monotonic() - began_s + 0.1
        assert not summary.get("data_loss")
    work.check()
    if isinstance(work, Publishing):
        # Spark's tasks had the clock of their driver: what a message was sent at is theirs.
        sent_ms = [record.timestamp_ms or 0 for record in work.records()]
        assert max(sent_ms) > (time.time() + _YEAR_S - _DAY_S) * 1000


def date(folder: Path, modified_s: float) -> None:
    """Let all files be as new as they were by a wrong clock."""
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (modified_s, modified_s))
