"""The one retry, with a clock, a sleep and a draw of the test's own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

import pytest

from spark_kafkawire.errors import (
    Action,
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    DataLossError,
    KafkaWireError,
    OptionError,
    ProtocolError,
    RequestTimedOut,
)
from spark_kafkawire.net.retry import BACKOFF_MAX_S, Attempts, RetryPolicy, retried
from spark_kafkawire.net.transport import Deadline

T = TypeVar("T")

POLICY: Final = RetryPolicy(3, 0.1)
LOST: Final = ConnectionLost("broker 0 (h:1): the peer closed the connection")


class World:
    """A clock that only sleeping moves."""

    def __init__(self, draw: float = 0.5) -> None:
        self.now_s = 100.0
        self.slept_s: list[float] = []
        self._draw = draw

    def attempts(self, policy: RetryPolicy = POLICY) -> Attempts:
        return Attempts(policy, clock=lambda: self.now_s, sleep=self._sleep, draw=lambda: self._draw)

    def retried(self, attempt: Callable[[], T], policy: RetryPolicy = POLICY) -> T:
        return retried(attempt, policy, clock=lambda: self.now_s, sleep=self._sleep, draw=lambda: self._draw)

    def _sleep(self, wait_s: float) -> None:
        self.slept_s.append(wait_s)
        self.now_s += wait_s


def failing(times: int, error: KafkaWireError, calls: list[int]) -> str:
    calls.append(1)
    if len(calls) <= times:
        raise error
    return "done"


@pytest.mark.parametrize(("draw", "share"), [(0.0, 0.5), (0.5, 0.75), (0.999, 0.9995)])
def test_waits_double_and_are_drawn_from_their_upper_half(draw: float, share: float) -> None:
    policy = RetryPolicy(3, 0.1)
    waits = [policy.wait_s(attempt, draw) for attempt in range(1, 5)]
    assert waits == pytest.approx([0.1 * share, 0.2 * share, 0.4 * share, 0.8 * share])


def test_a_wait_has_a_limit_however_many_attempts_there_were() -> None:
    assert RetryPolicy(1000, 0.1).wait_s(1000, 0.999) < BACKOFF_MAX_S
    assert RetryPolicy(1000, 3600.0).wait_s(1, 0.999) < BACKOFF_MAX_S


def test_a_policy_lasts_at_least_as_long_as_one_step_needs() -> None:
    assert POLICY.lasting(30.0) == RetryPolicy(3, 0.1, retry_timeout_s=30.0)
    assert POLICY.lasting(30.0).lasting(10.0) == RetryPolicy(3, 0.1, retry_timeout_s=30.0)


def test_what_succeeds_at_last_is_returned_and_waited_for() -> None:
    world = World()
    calls: list[int] = []
    assert world.retried(lambda: failing(3, LOST, calls)) == "done"
    assert len(calls) == 4
    assert world.slept_s == pytest.approx([0.075, 0.15, 0.3])


def test_the_last_error_is_raised_with_attempts_and_elapsed_time() -> None:
    world = World()
    calls: list[int] = []
    with pytest.raises(ConnectionLost) as error:
        world.retried(lambda: failing(9, LOST, calls))
    assert len(calls) == 4
    assert str(error.value) == f"gave up after 4 attempts in 0.5 s (retries): {LOST}"


def test_no_retries_means_one_attempt_and_no_wait() -> None:
    world = World()
    with pytest.raises(ConnectionLost, match=r"gave up after 1 attempt in 0\.0 s"):
        world.attempts(RetryPolicy(0, 0.1)).failed(LOST)
    assert not world.slept_s


@pytest.mark.parametrize(
    "error",
    [ProtocolError("p"), OptionError("o"), DataLossError("d"), BrokerError("b", 2, Action.FAIL)],
)
def test_what_cannot_be_cured_by_trying_again_is_raised_as_it_is(error: KafkaWireError) -> None:
    world = World()
    with pytest.raises(KafkaWireError) as raised:
        world.attempts().failed(error)
    assert raised.value is error
    assert not world.slept_s


@pytest.mark.parametrize("error", [RequestTimedOut("t"), BrokerError("b", 3, Action.REFRESH)])
def test_what_may_pass_is_tried_again(error: KafkaWireError) -> None:
    world = World()
    world.attempts().failed(error)
    assert len(world.slept_s) == 1


def test_the_last_error_is_returned_to_a_loop_that_has_another_way_on() -> None:
    world = World()
    attempts = world.attempts(RetryPolicy(1, 0.1))
    assert attempts.last(LOST) is None
    assert len(world.slept_s) == 1
    last = attempts.last(LOST)
    assert str(last) == f"gave up after 2 attempts in 0.1 s (retries): {LOST}"
    assert isinstance(last, ConnectionLost)
    fatal = OptionError("o")
    assert attempts.last(fatal) is fatal
    assert len(world.slept_s) == 1


def test_progress_starts_count_and_clock_anew() -> None:
    world = World()
    attempts = world.attempts(RetryPolicy(2, 0.1))
    for _ in range(5):
        attempts.failed(LOST)
        attempts.failed(LOST)
        attempts.progressed()
    assert world.slept_s == pytest.approx([0.075, 0.15] * 5)
    attempts.failed(LOST)
    attempts.failed(LOST)
    with pytest.raises(ConnectionLost, match=r"3 attempts in 0\.2 s"):
        attempts.failed(LOST)


def test_patience_outlasts_the_retries() -> None:
    world = World()
    attempts = world.attempts(RetryPolicy(1, 0.1, retry_timeout_s=2.0))

    def fail_for_ever() -> None:
        while True:
            attempts.failed(LOST)

    with pytest.raises(
        ConnectionLost, match=r"gave up after 6 attempts in 2\.0 s \(retries, brokerDownTimeout\)"
    ):
        fail_for_ever()
    calls: list[int] = []
    assert world.retried(lambda: failing(3, LOST, calls), POLICY.lasting(0.01)) == "done"


def test_who_waits_is_told_once_and_once_when_it_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "spark_kafkawire")
    world, refused = World(), ConnectFailed("broker 0 (h:1): cannot connect: Connection refused")
    policy = RetryPolicy(0, 0.1, retry_timeout_s=60.0)
    calls: list[int] = []
    assert world.retried(lambda: failing(6, refused, calls), policy) == "done"
    assert caplog.messages == [
        f"{refused}; trying again for up to 60 s (brokerDownTimeout)",
        f"continuing after {sum(world.slept_s):.1f} s and 6 failures: {refused}",
    ]


def test_a_connection_that_was_closed_and_made_anew_at_once_is_not_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "spark_kafkawire")
    policy = RetryPolicy(3, 0.1, retry_timeout_s=60.0)
    calls: list[int] = []
    assert World().retried(lambda: failing(1, LOST, calls), policy) == "done"
    assert not caplog.messages


def test_an_inner_patience_that_is_used_up_is_not_waited_for_again() -> None:
    world, calls = World(), [0]

    def inner() -> str:
        calls[0] += 1
        return world.retried(lambda: failing(99, LOST, []), POLICY.lasting(10.0))

    with pytest.raises(
        ConnectionLost, match=r"^gave up after \d+ attempts in 10\.0 s \(retries, brokerDownTimeout\)"
    ):
        world.retried(inner, POLICY.lasting(10.0))
    assert calls == [1]


def test_an_error_that_is_not_ours_passes_through() -> None:
    world = World()
    with pytest.raises(ZeroDivisionError):
        world.retried(lambda: 1 // 0)
    assert not world.slept_s


def test_an_outer_deadline_shortens_the_wait_and_ends_the_tries() -> None:
    world = World()
    attempts = world.attempts(RetryPolicy(3, 1e9))
    attempts.failed(LOST, Deadline.after(60))
    assert world.slept_s == [7.5]
    attempts.failed(LOST, Deadline.after(5))
    assert 0 < world.slept_s[1] <= 5
    with pytest.raises(ConnectionLost) as raised:
        attempts.failed(LOST, Deadline.after(0))
    assert raised.value is LOST
    assert len(world.slept_s) == 2
