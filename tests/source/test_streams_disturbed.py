"""Streams whose topics, partitions and brokers come and go.

``KAFKAWIRE_AWAY_S=60`` lets brokers be away for a minute.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.errors import DataLossError
from spark_kafkawire.planner import stream as stream_planner
from spark_kafkawire.planner.stream import StreamPartitions
from spark_kafkawire.protocol.modern import METADATA
from spark_kafkawire.protocol.v07 import OFFSETS
from spark_kafkawire.records.public import encode_message_set
from tests.chaos.frames import View
from tests.chaos.proxy import Proxy, Upstream
from tests.support import librdkafka
from tests.support.embedded import produce
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.streaming import QUICK, Checkpoint, Killed, Query


def send(servers: str, topic: str, *values: bytes, partition: int = 0) -> None:
    librdkafka.produce(servers, topic, [Record(value, partition=partition) for value in values])


# A topic that is deleted between two questions of one batch: after it was seen, before its offsets are


def once_after(patch: pytest.MonkeyPatch, owner: Any, name: str, happens: Callable[[], None]) -> list[int]:
    """Let something happen after the next call of a function has its answer; how often it was called."""
    original, calls = getattr(owner, name), [0]

    def called(*arguments: Any) -> Any:
        result = original(*arguments)
        calls[0] += 1
        if calls[0] == 1:
            happens()
        return result

    patch.setattr(owner, name, called)
    return calls


@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("is_new", [False, True])
def test_a_topic_that_is_deleted_between_two_questions_is_a_loss(
    noida: NoidaBroker,
    is_new: bool,
    fail: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One that was seen a moment ago is looked for again. A new one, of a batch that runs again after a
    crash, is asked for its start once more."""
    stays, servers, checkpoint = noida.create_topic(), noida.bootstrap_servers, Checkpoint()
    doomed, result = f"{stays}-doomed", {"subscribePattern": f"^{stays}", "startingOffsets": "earliest"}
    options = {**QUICK, "kafka.bootstrap.servers": servers, "failOnDataLoss": fail, **result}
    send(servers, stays, b"1", b"2")
    if is_new:
        assert Query(checkpoint, **options).values() == [[b"1", b"2"]]
    noida.create_topic(name=doomed)
    send(servers, doomed, b"a")
    running = Query(checkpoint, **options)
    if is_new:
        with pytest.raises(Killed):
            Query(checkpoint, **options).batch("written")
    else:
        assert running.values() == [[b"1", b"2", b"a"]]
        send(servers, stays, b"3")
    owner, name = (stream_planner, "leaders_of") if is_new else (StreamPartitions, "_there")
    asked = once_after(monkeypatch, owner, name, lambda: librdkafka.delete_topic(servers, doomed))
    reported = f"{doomed} 0 at offset {0 if is_new else 1} no longer exists"
    if fail == "true":
        with pytest.raises(DataLossError, match=f"^{reported}: "):
            running.batch()
    else:
        with caplog.at_level(logging.WARNING, "spark_kafkawire"):
            assert [row["value"] for row in running.batch() or ()] == ([] if is_new else [b"3"])
        [line] = [item for item in caplog.messages if "continuing because" in item]
        assert line.startswith(reported)
    assert asked[0] > 1


# A broker that is away: streams wait, go on, and do not hammer at it meanwhile

AWAY_S: Final = float(os.environ.get("KAFKAWIRE_AWAY_S", "1"))
#: How often brokers may be asked, seconds.
INTERVAL_S: Final = 0.1
#: How long an idle query is watched, seconds.
WATCHED_S: Final = 1.0

pytestmark = pytest.mark.timeout(600 + 3 * AWAY_S)


class Watching(Proxy):
    """Notes which APIs its clients ask, by their keys."""

    def __init__(self, upstream: Upstream) -> None:
        super().__init__((upstream,))
        self.asked: list[int] = []

    def view(self, upstream: Upstream, client_port: int) -> View:
        view, asked = super().view(upstream, client_port), self.asked

        class Noting(View):
            def request(self, frame: bytes) -> None:
                asked.append(int.from_bytes(frame[4:6], "big"))
                view.request(frame)

            def response(self, frame: bytes) -> bytes:
                return view.response(frame)

        return Noting()


@dataclass
class Setting:
    """One broker with a topic of one partition, and the proxy before it."""

    proxy: Watching
    options: dict[str, str]
    send: Callable[[bytes], None]
    stop: Callable[[], None]
    start: Callable[[], None]
    #: What is asked once or twice whenever the query looks for new records.
    looks: int

    @contextlib.contextmanager
    def away(self) -> Iterator[list[int]]:
        """The broker is not there, and comes back by itself; the connections that were tried meanwhile."""
        self.stop()
        before, tried = self.proxy.made, []

        def come_back() -> None:
            tried.append(self.proxy.made - before)
            self.start()

        timer = threading.Timer(AWAY_S, come_back)
        timer.start()
        try:
            yield tried
        finally:
            timer.join()


@contextlib.contextmanager
def modern() -> Iterator[Setting]:
    with NoidaBroker() as broker, Watching(Upstream("broker", broker.port, "kafka")) as proxy:
        broker.create_topic(name="t")
        address = f"127.0.0.1:{proxy.port('broker')}"
        yield Setting(
            proxy,
            {"kafka.bootstrap.servers": address, "subscribe": "t", "startingOffsets": "earliest"},
            lambda value: librdkafka.produce(broker.bootstrap_servers, "t", [Record(value)]),
            broker.stop,
            broker.start,
            METADATA.key,
        )


@contextlib.contextmanager
def v07() -> Iterator[Setting]:
    with EmbeddedCluster(brokers=1, partitions=1, zookeeper=False) as cluster:
        broker = cluster.brokers[0]
        produce(cluster, "t", encode_message_set([b"0"]))
        with Watching(Upstream("broker", broker.port, "kafka 0.7")) as proxy:
            yield Setting(
                proxy,
                {
                    "broker.list": f"0:127.0.0.1:{proxy.port('broker')}",
                    "subscribe": "t",
                    "startingOffsets": "earliest",
                },
                lambda value: produce(cluster, "t", encode_message_set([value])),
                broker.stop,
                broker.start,
                OFFSETS.key,
            )


@pytest.fixture(params=[modern, v07], ids=["modern", "0.7"])
def setting(request: pytest.FixtureRequest) -> Iterator[Setting]:
    """A query has read one record of it."""
    with request.param() as setting:
        yield setting


def test_a_query_waits_for_its_broker_and_does_not_hammer_at_it(setting: Setting) -> None:
    checkpoint = Checkpoint()
    query = Query(checkpoint, **setting.options)
    for _ in range(2):
        setting.send(b"before")
        assert query.values()
    setting.send(b"at last")
    with setting.away() as tried:
        assert query.values() == [[b"at last"]]
    assert tried[0] <= 10 + AWAY_S / INTERVAL_S
    setting.send(b"and on")
    assert query.values() == [[b"and on"]]


def test_an_idle_query_asks_brokers_ten_times_a_second_at_most(setting: Setting) -> None:
    setting.send(b"first")
    query = Query(Checkpoint(), **setting.options)
    query.all_values()
    setting.proxy.asked.clear()
    assert query.batch() is None
    of_one_look = setting.proxy.asked.count(setting.looks)
    assert 1 <= of_one_look <= 4
    setting.proxy.asked.clear()
    began_s = time.monotonic()
    while time.monotonic() - began_s < WATCHED_S:  # as Spark asks: at once when it has an answer
        assert query.batch() is None
    looks_max = (time.monotonic() - began_s) / INTERVAL_S + 1
    # In 0.7 it is asked again every five seconds which logs there are.
    assert 2 <= setting.proxy.asked.count(setting.looks) <= of_one_look * (looks_max + 1)
