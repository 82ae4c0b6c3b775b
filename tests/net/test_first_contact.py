"""The first contact with a cluster: who is not there, or answers nothing, is reported soon."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

import pytest

from spark_kafkawire.cluster.asking import ask
from spark_kafkawire.cluster.modern.metadata import Metadata
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
from spark_kafkawire.model import Broker
from spark_kafkawire.net import retry
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.net.retry import BACKOFF_MAX_S, Attempts, Bootstrap, RetryPolicy, call_with_retries
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import NetOptions
from tests.support.certificates import Certificates
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.polling import GRACE_S, poll
from tests.support.settings import net_07, net_modern

from .login_broker import login_broker
from .peers import (
    ANSWER,
    OFFSETS,
    Peer,
    answering,
    closed_port,
    server_of,
    serving,
    stalling,
    unreachable,
)

#: How long a first contact is tried here, and how long a known cluster is: nobody waits for that.
BOUND_S: Final = 1.0
WAIT_MAX_S: Final = 600.0


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.close_idle()


@pytest.fixture(autouse=True)
def warned_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "WARNED_AFTER_S", 0.2)


def first(net: NetOptions, place: str, timeout_s: float | None = BOUND_S) -> NetOptions:
    retry = replace(net.retry, retry_timeout_s=WAIT_MAX_S, bootstrap=Bootstrap(place, timeout_s))
    return replace(net, retry=retry)


def place_of(*brokers: Broker) -> str:
    return "kafka.bootstrap.servers=" + ",".join(f"{broker.host}:{broker.port}" for broker in brokers)


def metadata_of(pool: Pool, *brokers: Broker, timeout_s: float | None = BOUND_S) -> Metadata:
    servers = tuple(replace(broker, id=-1 - index) for index, broker in enumerate(brokers))
    return Metadata(servers, first(net_modern(), place_of(*brokers), timeout_s), connections=pool)


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def refusing(_: ExitStack) -> list[Broker]:
    return [closed_port()]


def swallowing(stack: ExitStack, count: int = 1) -> list[Broker]:
    return [stack.enter_context(unreachable()) for _ in range(count)]


def nameless(_: ExitStack) -> list[Broker]:
    return [Broker(-1, "no-such-host.invalid", 9092)]


def wanting_a_login(stack: ExitStack) -> list[Broker]:
    return [stack.enter_context(Peer(login_broker())).broker]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("servers", "reason"),
    [
        (refusing, "cannot connect: Connection refused"),
        (swallowing, r"cannot connect within \S+ s \(bootstrapTimeout\)"),
        (partial(swallowing, count=3), r"cannot connect within \S+ s \(bootstrapTimeout\)"),
        (nameless, "cannot find the host"),
        (wanting_a_login, r"does this port require a login \(kafka.security.protocol=SASL_…\)\?"),
    ],
    ids=["refused", "swallowed", "three swallowed", "no such host", "login"],
)
def test_a_cluster_that_never_answered_is_an_error_soon(
    servers: Callable[[ExitStack], list[Broker]], reason: str, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    began_s = time.monotonic()
    with ExitStack() as stack:
        brokers = servers(stack)
        location = place_of(*brokers)
        with pytest.raises(
            KafkaWireError, match=rf"^gave up after .* \(bootstrapTimeout\): {location}: no server.*{reason}"
        ):
            metadata_of(pool, *brokers).topics()
    assert time.monotonic() - began_s < GRACE_S + BOUND_S
    [warning] = warnings_of(caplog)
    assert warning.startswith(f"{location}: no server has answered within 0.2 s: ")
    assert warning.endswith("; trying for up to 1 s (bootstrapTimeout)")


def test_plain_text_on_a_port_of_tls_is_an_error_soon(pool: Pool, certificates: Certificates) -> None:
    script = serving(server_of(certificates.server), answering())
    with Peer(script) as peer, pytest.raises(KafkaWireError, match=r"kafka\.security\.protocol"):
        metadata_of(pool, peer.broker).topics()


@pytest.mark.slow
def test_a_silent_server_does_not_hide_the_next_one(pool: Pool) -> None:
    with unreachable() as silent, Peer(stalling()) as frozen, LogServer({"t": [MemoryLog()]}) as there:
        result = Broker(-1, "127.0.0.1", there.port)
        metadata = metadata_of(pool, silent, frozen.broker, result, timeout_s=2.0)
        assert [topic.name for topic in metadata.topics()] == ["t"]


def test_a_cluster_that_has_answered_is_waited_for(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    with LogServer({"t": [MemoryLog()]}) as server:
        broker = Broker(-1, "127.0.0.1", server.port)
        metadata_of(pool, broker).topics()
    pool.close_idle()
    policy = first(net_modern(), place_of(broker)).retry
    now_s = 0.0

    def sleep(wait_s: float) -> None:
        nonlocal now_s
        now_s += wait_s

    error = ConnectFailed("cannot connect: Connection refused")

    def refused() -> None:
        raise error

    with pytest.raises(ConnectFailed, match=r"\(retries, brokerDownTimeout\)"):
        call_with_retries(refused, policy, clock=lambda: now_s, sleep=sleep)
    assert now_s == pytest.approx(WAIT_MAX_S)
    assert warnings_of(caplog) == [f"{error}; trying again for up to 600 s (brokerDownTimeout)"]


def test_connecting_alone_is_no_answer(pool: Pool) -> None:
    """A listener that requires a login tells its versions to everybody."""
    with Peer(login_broker()) as peer:
        metadata = metadata_of(pool, peer.broker)
        metadata.connect()
        assert not Bootstrap(place_of(peer.broker)).is_answered


def test_without_a_bound_patience_decides_of_the_first_contact(caplog: pytest.LogCaptureFixture) -> None:
    bootstrap = Bootstrap(place_of(closed_port()))
    attempts = Attempts(RetryPolicy(retry_timeout_s=WAIT_MAX_S, bootstrap=bootstrap), sleep=lambda _: None)
    with bootstrap.reaching() as contact:
        assert contact is None
        bootstrap.note("connection refused")
        attempts.failed(ConnectFailed("connection refused"))
        poll(lambda: warnings_of(caplog), "the warning")
    assert warnings_of(caplog) == [
        f"{bootstrap.place}: no server has answered within 0.2 s: connection refused"
    ]


@pytest.mark.slow
def test_a_broker_of_07_that_never_answered_is_an_error_soon(caplog: pytest.LogCaptureFixture) -> None:
    for number, script in enumerate((stalling(), answering(b""))):
        with Peer(script) as peer:
            location = f"broker.list={number}:{peer.broker.host}:{peer.broker.port}"
            began_s = time.monotonic()
            with pytest.raises(KafkaWireError, match=r"bootstrapTimeout"):
                ask(peer.broker, [OFFSETS], first(net_07(), location), str)
            assert time.monotonic() - began_s < GRACE_S + BOUND_S
        assert warnings_of(caplog)[-1].startswith(f"{location}: no server has answered within 0.2 s: ")


def test_a_broker_of_07_that_answers_is_known(caplog: pytest.LogCaptureFixture) -> None:
    with Peer(answering(ANSWER)) as peer:
        location = f"broker.list=0:{peer.broker.host}:{peer.broker.port}"
        ask(peer.broker, [OFFSETS], first(net_07(), location), str)
    assert Bootstrap(location).is_answered
    assert not warnings_of(caplog)


def test_a_forgotten_cluster_is_a_first_contact_again() -> None:
    bootstrap = Bootstrap("kafka.bootstrap.servers=forgotten:9092", BOUND_S)
    bootstrap.answered()
    retry.forget_clusters()
    assert bootstrap.bound_s == BOUND_S


# --- The one retry, with a clock, a sleep and a draw of the test's own ---

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

    def retry(self, attempt: Callable[[], T], policy: RetryPolicy = POLICY) -> T:
        return call_with_retries(
            attempt, policy, clock=lambda: self.now_s, sleep=self._sleep, draw=lambda: self._draw
        )

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


def test_a_policy_bounds_waits_and_lasts_as_long_as_one_step() -> None:
    assert RetryPolicy(1000, 0.1).wait_s(1000, 0.999) < BACKOFF_MAX_S
    assert RetryPolicy(1000, 3600.0).wait_s(1, 0.999) < BACKOFF_MAX_S
    assert POLICY.make_lasting(30.0) == RetryPolicy(3, 0.1, retry_timeout_s=30.0)
    assert POLICY.make_lasting(30.0).make_lasting(10.0) == RetryPolicy(3, 0.1, retry_timeout_s=30.0)


def test_what_succeeds_at_last_is_returned_and_waited_for() -> None:
    world = World()
    calls: list[int] = []
    assert world.retry(lambda: failing(3, LOST, calls)) == "done"
    assert len(calls) == 4
    assert world.slept_s == pytest.approx([0.075, 0.15, 0.3])
    world = World()
    with pytest.raises(ZeroDivisionError):
        world.retry(lambda: 1 // 0)
    assert not world.slept_s


def test_the_last_error_is_raised_with_attempts_and_elapsed_time() -> None:
    world = World()
    calls: list[int] = []
    with pytest.raises(ConnectionLost) as error:
        world.retry(lambda: failing(9, LOST, calls))
    assert len(calls) == 4
    assert str(error.value) == f"gave up after 4 attempts in 0.5 s (retries): {LOST}"


def test_no_retries_means_one_attempt_and_no_wait() -> None:
    world = World()
    with pytest.raises(ConnectionLost, match=r"gave up after 1 attempt in 0\.0 s"):
        world.attempts(RetryPolicy(0, 0.1)).failed(LOST)
    assert not world.slept_s


@pytest.mark.parametrize(
    "error", [ProtocolError("p"), OptionError("o"), DataLossError("d"), BrokerError("b", 2, Action.FAIL)]
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


def test_progress_resets_count_and_clock() -> None:
    world = World()
    attempts = world.attempts(RetryPolicy(2, 0.1))
    for _ in range(5):
        attempts.failed(LOST)
        attempts.failed(LOST)
        attempts.note_progress()
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
    assert world.retry(lambda: failing(3, LOST, calls), POLICY.make_lasting(0.01)) == "done"


def test_log_a_wait_once_and_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "spark_kafkawire")
    world, refused = World(), ConnectFailed("broker 0 (h:1): cannot connect: Connection refused")
    policy = RetryPolicy(0, 0.1, retry_timeout_s=60.0)
    calls: list[int] = []
    assert world.retry(lambda: failing(6, refused, calls), policy) == "done"
    assert caplog.messages == [
        f"{refused}; trying again for up to 60 s (brokerDownTimeout)",
        f"continuing after {sum(world.slept_s):.1f} s and 6 failures: {refused}",
    ]
    caplog.clear()
    calls.clear()
    # A connection that is replaced at once is not worth a line.
    assert World().retry(lambda: failing(1, LOST, calls), POLICY.make_lasting(60.0)) == "done"
    assert not caplog.messages


def test_an_inner_patience_that_is_used_up_is_not_waited_for_again() -> None:
    world, calls = World(), [0]

    def inner() -> str:
        calls[0] += 1
        return world.retry(lambda: failing(99, LOST, []), POLICY.make_lasting(10.0))

    with pytest.raises(
        ConnectionLost, match=r"^gave up after \d+ attempts in 10\.0 s \(retries, brokerDownTimeout\)"
    ):
        world.retry(inner, POLICY.make_lasting(10.0))
    assert calls == [1]


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
