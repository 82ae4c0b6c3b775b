"""Warnings of a task about the age of its transaction and of its write."""

from __future__ import annotations

import time

import pytest

from spark_kafkawire.clients.writing.modern.transactional.task import TransactionAge
from spark_kafkawire.errors import DeliveryError


class Clock:
    """Stands in for both clocks of a machine."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now_s = 1e9
        patch.setattr(time, "monotonic", lambda: self.now_s)
        patch.setattr(time, "time", lambda: self.now_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def reported(age: TransactionAge, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Warnings that are logged now."""
    caplog.clear()
    age.warn()
    return [message.split(" of kafka", 1)[0] for message in caplog.messages]


def test_a_task_tells_each_part_of_its_time_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    age = TransactionAge(100_000, clock.now_s)
    expected = {49: [], 50: ["50 %"], 60: [], 90: ["90 %"], 99: []}
    began_s = clock.now_s
    for after_s, lines in expected.items():
        clock.now_s = began_s + after_s
        assert reported(age, caplog) == lines, after_s
    late = TransactionAge(100_000)
    clock.now_s += 95
    assert reported(late, caplog) == ["90 %"]


def test_a_late_task_tells_how_old_the_write_is(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    age = TransactionAge(100_000, clock.now_s - 45)
    assert reported(age, caplog) == []
    clock.now_s += 6
    assert reported(age, caplog) == ["the driver began this write 51.0 s ago, more than 50 %"]
    clock.now_s += 40
    assert reported(age, caplog) == ["the driver began this write 91.0 s ago, more than 90 %"]
    clock.now_s += 5
    assert reported(age, caplog) == ["50 %"]


def test_clocks_that_differ_make_no_write_younger_than_its_task(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    age = TransactionAge(100_000, clock.now_s + 1000)
    clock.now_s += 51
    assert reported(age, caplog) == ["50 %"]


def test_what_no_timeout_ends_tells_nothing(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    age = TransactionAge(None, clock.now_s - 1e6)
    assert reported(age, caplog) == []
    with pytest.raises(DeliveryError, match=r"^over$"), age.explain():
        raise DeliveryError("over")


def test_an_error_after_the_time_is_over_says_so(clock: Clock) -> None:
    age = TransactionAge(2_000)
    with pytest.raises(DeliveryError, match=r"^early$"), age.explain():
        raise DeliveryError("early")
    clock.now_s += 3
    said = r"^late; the task has had its transaction for 3\.0 s, and .*=2000 lets brokers abort it"
    with pytest.raises(DeliveryError, match=said), age.explain():
        raise DeliveryError("late")
