"""Versions of requests to real brokers, whatever the network does during the negotiation."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any, Final

import pytest

from spark_kafkawire.net import connecting
from spark_kafkawire.net.known_versions import BROKER_VERSIONS
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.protocol import modern
from tests.net.peers import read_frame
from tests.support import librdkafka, ours
from tests.support.foreign import Record

from .apache_kafka import ApacheKafka
from .probing import probe

HOST: Final = "127.0.0.1"
STAMP_MS: Final = int(datetime(2020, 1, 1, tzinfo=timezone.utc).timestamp() * 1000)
RECORDS: Final = [
    Record(b"%d" % number * 20, b"k", (("h", b"%d" % number),), STAMP_MS + number) for number in range(300)
]
QUICK: Final[dict[str, Any]] = {"requestTimeout": "4s", "retryBackoff": "1ms"}
_API_VERSIONS: Final = 18
#: How a Fetch of no topics, and DescribeGroups of no groups, end.
_OF_NOTHING: Final = bytes(4)

#: What becomes of ApiVersions on a connection: from the client, and to the broker.
Fault = Callable[[socket.socket, socket.socket, bytes], None]


def close(_client: socket.socket, _broker: socket.socket, _request: bytes) -> None:
    """The connection ends before the broker sees the question."""
    raise ConnectionError


def close_after_asking(_client: socket.socket, broker: socket.socket, request: bytes) -> None:
    """The connection ends instead of the answer."""
    broker.sendall(request)
    raise ConnectionError


def stall(client: socket.socket, _broker: socket.socket, _request: bytes) -> None:
    """Nothing comes, until the client gives up."""
    while client.recv(1 << 16):
        pass
    raise ConnectionError


class Meddler:
    """Passes on what clients and a broker say, but lets the first connections meet faults with ApiVersions.

    ``asked`` has the API keys and versions of all requests but those that ask for nothing.
    """

    def __init__(self, port: int, faults: list[Fault]) -> None:
        self._target, self._faults = port, faults
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.asked: list[tuple[int, int]] = []
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30)
        for connection in self._open:
            connection.close()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                fault = self._faults.pop(0) if self._faults else None
                broker = socket.create_connection((HOST, self._target))
                self._open += (client, broker)
                self._start(self._down, client, broker)
                self._start(self._up, client, broker, fault)

    def _up(self, client: socket.socket, broker: socket.socket, fault: Fault | None) -> None:
        with contextlib.suppress(OSError):
            while body := read_frame(client):
                request = len(body).to_bytes(4, "big") + body
                key, version = int.from_bytes(body[:2], "big"), int.from_bytes(body[2:4], "big")
                if not body.endswith(_OF_NOTHING):
                    self.asked.append((key, version))
                if fault is not None and key == _API_VERSIONS:
                    fault(client, broker, request)
                else:
                    broker.sendall(request)
        for connection in (client, broker):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _down(self, client: socket.socket, broker: socket.socket) -> None:
        """Brokers name themselves by a port: clients get the meddler's."""
        with contextlib.suppress(OSError):
            while data := broker.recv(1 << 16):
                old = HOST.encode() + self._target.to_bytes(4, "big")
                client.sendall(data.replace(old, HOST.encode() + self.port.to_bytes(4, "big")))


@pytest.fixture
def meddled(kafka: ApacheKafka) -> Iterator[Callable[[list[Fault]], tuple[Meddler, str]]]:
    """A broker that has a topic, and who meddles with it."""
    topic = f"topic-of-versions-{time.monotonic_ns()}"
    servers = kafka.bootstrap_servers()
    # Its records are years old, and a broker deletes what is too old soon after its start.
    librdkafka.create_topic(servers, 1, topic, {"retention.ms": "-1"})
    librdkafka.produce(servers, topic, RECORDS)
    meddlers: list[Meddler] = []

    def begin(faults: list[Fault]) -> tuple[Meddler, str]:
        POOL.close_idle()
        BROKER_VERSIONS.forget()
        meddlers.append(Meddler(kafka.ports["PLAINTEXT"], [*faults]))
        return meddlers[-1], topic

    yield begin
    POOL.close_idle()
    for meddler in meddlers:
        meddler.close()


@pytest.mark.parametrize("first", [close, stall])
@pytest.mark.parametrize("second", [close_after_asking, stall])
def test_no_break_while_versions_are_asked_makes_a_real_broker_an_old_one(
    first: Fault,
    second: Fault,
    meddled: Callable[[list[Fault]], tuple[Meddler, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connecting, "API_VERSIONS_ALONE_S", 0.05)
    monkeypatch.setattr(connecting, "API_VERSIONS_WAIT_S", 0.5)
    meddler, topic = meddled([first, second])
    assert contents(ours.consume(f"{HOST}:{meddler.port}", topic, **QUICK)) == contents(RECORDS)
    other, _ = meddled([first, second])
    ours.produce(f"{HOST}:{other.port}", topic, RECORDS[:1], **QUICK)
    assert contents(ours.consume(f"{HOST}:{other.port}", topic)[-1:]) == contents(RECORDS[:1])
    # The least versions of Produce and Fetch that carry all that a record has.
    asked = [*meddler.asked, *other.asked]
    assert min(version for key, version in asked if key == modern.FETCH.key) >= 4
    assert min(version for key, version in asked if key == modern.PRODUCE.key) >= 3


def contents(records: list[Record]) -> list[tuple[object, ...]]:
    return [(each.value, each.key, each.headers, each.timestamp_ms) for each in records]


def test_todays_brokers_give_neither_proof_of_being_old(kafka: ApacheKafka) -> None:
    found = probe(kafka.ports["PLAINTEXT"])
    assert found == ([None if kafka.version.startswith("4") else 12, None], [0, 1])
