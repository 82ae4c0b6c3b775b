"""``make bench``: how subjects are chosen, and what counts of their runs."""

from __future__ import annotations

import time

import pytest

from .measure import Kind, side_by_side


@pytest.mark.jvm
def test_a_name_chooses_its_subject_or_else_those_that_begin_with_it() -> None:
    from .__main__ import _chosen

    assert _chosen("read") == ["read"]
    assert _chosen("stream") == ["stream-catch-up", "stream-micro-batch"]
    assert _chosen("strea") == []


@pytest.mark.jvm
def test_nothing_is_measured_on_apache_kafka_unless_it_is_named() -> None:
    from .__main__ import SUBJECTS

    assert not any(subject.is_default for subject in SUBJECTS.values() if subject.on_kafka)


def test_the_second_run_of_a_turn_counts_and_the_first_turn_does_not() -> None:
    done: list[str] = []
    counted_s = iter((9.0, 9.0, 9.0, 2.0, 9.0, 4.0))

    def run() -> float:
        done.append("run")
        return next(counted_s)

    kind = Kind(run, 10, before=lambda: done.append("before"), after=lambda: done.append("after"))
    took = side_by_side({"a": kind, "b": Kind(lambda: time.sleep(0.02), 10)}, 2, twice=True)
    assert done == ["before", "run", "before", "run", "after"] * 3
    assert took["a"].seconds == 3.0
    assert took["a"].whole_s < 1 <= took["a"].seconds
    assert took["b"].seconds == took["b"].whole_s == pytest.approx(0.02, rel=2)
