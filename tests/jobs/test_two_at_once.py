"""Two runs of a job at once, each a process: one of them works, and each row is there once in the end."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.support.polling import poll

from .drivers import DEADLINE_S, Drivers
from .work import Work, at_length_but

REFUSED: Final = re.compile(r"[^\n]*: another run is active here[^\n]*")
#: Whether the run that works is killed.
ROUNDS: Final = (True, True, False)

pytestmark = pytest.mark.timeout(1100)


@at_length_but("ingest")
def test_of_runs_that_begin_in_the_same_moment_one_works(work: Work, drivers: Drivers) -> None:
    complaints = []
    for is_killed in ROUNDS:
        work.add()
        before = work.progress()
        pair = drivers.start_at_once(work.job, work.arguments, work.arguments)
        poll(lambda pair=pair: any(child.has_ended for child in pair), "one to end", DEADLINE_S)  # type: ignore[misc]
        [other, *_] = sorted(pair, key=lambda child: child.has_ended)
        if is_killed:
            drivers.await_progress(work, before, other)
            drivers.kill(other)
            drivers.end_jobs()
        complaints += [child.output.read_text() for child in pair if drivers.ended(child) == 1]
    assert complaints
    assert [line for line in complaints if not REFUSED.fullmatch(line)] == []
    drivers.summary(drivers.start(work.job, work.arguments))
    work.check()


def test_a_run_has_its_folders_to_itself_until_it_is_killed(work: Work, drivers: Drivers) -> None:
    work.add()
    first = drivers.start(work.job, work.arguments, stops=True)
    drivers.await_stop(first)
    assert REFUSED.fullmatch(drivers.complaint(drivers.start(work.job, work.arguments)))
    assert drivers.kill(first) < 0
    drivers.summary(drivers.start(work.job, work.arguments))
    work.check()
