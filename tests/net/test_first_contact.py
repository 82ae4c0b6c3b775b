"""The first contact with a cluster: who is not there, or answers nothing, is reported soon."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

import pytest

from spark_kafkawire.cluster.asking import ask
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import ConnectFailed, KafkaWireError
from spark_kafkawire.model import Broker
from spark_kafkawire.net import first_contact
from spark_kafkawire.net.first_contact import Bootstrap
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.net.retry import Attempts, RetryPolicy, retried
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
    read_frame,
    stalling,
    unreachable,
)
from .tls_peers import server_of, serving

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
    monkeypatch.setattr(first_contact, "WARNED_AFTER_S", 0.2)


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


def swallowing(stack: ExitStack) -> list[Broker]:
    return [stack.enter_context(unreachable())]


def swallowing_three(stack: ExitStack) -> list[Broker]:
    return [stack.enter_context(unreachable()) for _ in range(3)]


def nameless(_: ExitStack) -> list[Broker]:
    return [Broker(-1, "no-such-host.invalid", 9092)]


def wanting_a_login(stack: ExitStack) -> list[Broker]:
    return [stack.enter_context(Peer(login_broker())).broker]


@pytest.mark.parametrize(
    ("servers", "reason"),
    [
        (refusing, "cannot connect: Connection refused"),
        (swallowing, r"cannot connect within \S+ s \(bootstrapTimeout\)"),
        (swallowing_three, r"cannot connect within \S+ s \(bootstrapTimeout\)"),
        (nameless, "cannot find the host"),
        (
            wanting_a_login,
            r"does this port require a login \(kafka.security.protocol=SASL_…\)\?",
        ),
    ],
    ids=["refused", "swallowed", "three swallowed", "no such host", "login"],
)
def test_a_cluster_that_never_answered_is_an_error_soon(
    servers: Callable[[ExitStack], list[Broker]],
    reason: str,
    pool: Pool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    began_s = time.monotonic()
    with ExitStack() as stack:
        brokers = servers(stack)
        place = place_of(*brokers)
        with pytest.raises(
            KafkaWireError,
            match=rf"^gave up after .* \(bootstrapTimeout\): {place}: no server.*{reason}",
        ):
            metadata_of(pool, *brokers).topics()
    assert time.monotonic() - began_s < GRACE_S + BOUND_S
    [warning] = warnings_of(caplog)
    assert warning.startswith(f"{place}: no server has answered within 0.2 s: ")
    assert warning.endswith("; trying for up to 1 s (bootstrapTimeout)")


def test_plain_text_on_a_port_of_tls_is_an_error_soon(pool: Pool, certificates: Certificates) -> None:
    script = serving(server_of(certificates.server), answering())
    with (
        Peer(script) as peer,
        pytest.raises(KafkaWireError, match=r"kafka\.security\.protocol"),
    ):
        metadata_of(pool, peer.broker).topics()


def test_a_silent_server_does_not_hide_the_next_one(pool: Pool) -> None:
    with (
        unreachable() as silent,
        Peer(stalling()) as frozen,
        LogServer({"t": [MemoryLog()]}) as there,
    ):
        found = Broker(-1, "127.0.0.1", there.port)
        metadata = metadata_of(pool, silent, frozen.broker, found, timeout_s=2.0)
        assert [topic.name for topic in metadata.topics()] == ["t"]


def test_a_cluster_that_has_answered_is_waited_for_with_patience(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
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
        retried(refused, policy, clock=lambda: now_s, sleep=sleep)
    assert now_s == pytest.approx(WAIT_MAX_S)
    assert warnings_of(caplog) == [f"{error}; trying again for up to 600 s (brokerDownTimeout)"]


def test_connecting_alone_is_no_answer(pool: Pool) -> None:
    """A listener that requires a login tells its versions to everybody."""
    with Peer(login_broker()) as peer:
        metadata = metadata_of(pool, peer.broker)
        metadata.connect()
        assert not Bootstrap(place_of(peer.broker)).is_answered


def test_without_a_bound_the_first_contact_is_reported_and_patience_decides(
    caplog: pytest.LogCaptureFixture,
) -> None:
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


def closing(connection: socket.socket) -> None:
    read_frame(connection)


def test_a_broker_of_07_that_never_answered_is_an_error_soon(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for number, script in enumerate((stalling(), closing)):
        with Peer(script) as peer:
            place = f"broker.list={number}:{peer.broker.host}:{peer.broker.port}"
            began_s = time.monotonic()
            with pytest.raises(KafkaWireError, match=r"bootstrapTimeout"):
                ask(peer.broker, [OFFSETS], first(net_07(), place), str)
            assert time.monotonic() - began_s < GRACE_S + BOUND_S
        assert warnings_of(caplog)[-1].startswith(f"{place}: no server has answered within 0.2 s: ")


def test_a_broker_of_07_that_answers_is_known(caplog: pytest.LogCaptureFixture) -> None:
    with Peer(answering(ANSWER)) as peer:
        place = f"broker.list=0:{peer.broker.host}:{peer.broker.port}"
        ask(peer.broker, [OFFSETS], first(net_07(), place), str)
    assert Bootstrap(place).is_answered
    assert not warnings_of(caplog)


@pytest.mark.parametrize("turn", [1, 2])
def test_a_test_does_not_know_the_clusters_of_an_earlier_one(turn: int) -> None:
    """The port of a server that has ended may be that of another one in the next test."""
    bootstrap = Bootstrap("kafka.bootstrap.servers=of-every-turn:9092", BOUND_S)
    assert not bootstrap.is_answered, turn
    bootstrap.answered()
    assert bootstrap.is_answered
    assert bootstrap.bound_s is None


def test_a_forgotten_cluster_is_a_first_contact_again() -> None:
    bootstrap = Bootstrap("kafka.bootstrap.servers=forgotten:9092", BOUND_S)
    bootstrap.answered()
    first_contact.forget_clusters()
    assert bootstrap.bound_s == BOUND_S
