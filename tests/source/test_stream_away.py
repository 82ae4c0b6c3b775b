"""Streams whose broker is away, of both generations: they wait, go on, and do not hammer at it meanwhile.

``KAFKAWIRE_AWAY_S=60`` lets it be away for a minute.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.protocol.modern import METADATA
from spark_kafkawire.protocol.v07 import OFFSETS
from spark_kafkawire.records.message_set.public import encode_message_set
from tests.chaos.frames import View
from tests.chaos.proxy import Proxy, Upstream
from tests.support import librdkafka
from tests.support.embedded import produce
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.streaming import Checkpoint, Query

AWAY_S: Final = float(os.environ.get("KAFKAWIRE_AWAY_S", "2"))
#: How often brokers may be asked, seconds.
INTERVAL_S: Final = 0.1
#: How long an idle query is watched, seconds.
WATCHED_S: Final = 2.0

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
    #: Options with which tasks do not wait for minutes.
    hasty: dict[str, str]

    def query(self, checkpoint: Checkpoint, query: type[Query] = Query, /, **options: str) -> Query:
        return query(checkpoint, **{**self.options, **options})

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
            {"kafkaConsumer.pollTimeoutMs": "1s"},
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
                {},
            )


@pytest.fixture(params=[modern, v07], ids=["modern", "0.7"])
def setting(request: pytest.FixtureRequest) -> Iterator[Setting]:
    """A query has read one record of it."""
    with request.param() as setting:
        yield setting


class Interrupted(Query):
    """A query that something happens to right before a step of each batch."""

    step = ""
    happens: Callable[[], Any] = staticmethod(lambda: None)

    def _construct(self, number: int, killed: str) -> bool:
        if self.step == "latestOffset":
            self.happens()
        return super()._construct(number, killed)

    def _rows(self, start: Any, end: Any) -> list[dict[str, Any]]:
        if self.step == "partitions":
            self.happens()
        return super()._rows(start, end)

    def _read(self, reader: Any, partition: Any) -> list[dict[str, Any]]:
        if self.step == "read":
            self.happens()
        return super()._read(reader, partition)


def interrupted(setting: Setting, checkpoint: Checkpoint, step: str, happens: Callable[[], Any]) -> Query:
    query = setting.query(checkpoint, Interrupted, brokerDownTimeout="1s", retries="1", **setting.hasty)
    assert isinstance(query, Interrupted)
    query.step, query.happens = step, happens
    return query


def test_a_query_waits_for_its_broker_and_does_not_hammer_at_it(setting: Setting) -> None:
    checkpoint = Checkpoint()
    query = setting.query(checkpoint)
    for _ in range(2):
        setting.send(b"before")
        assert query.values()
    setting.send(b"at last")
    with setting.away() as tried:
        assert query.values() == [[b"at last"]]
    assert tried[0] <= 10 + AWAY_S / INTERVAL_S
    setting.send(b"and on")
    assert query.values() == [[b"and on"]]


@pytest.mark.parametrize("step", ["latestOffset", "partitions", "read"])
def test_a_broker_that_stays_away_ends_the_query_with_one_line_and_the_next_one_goes_on(
    setting: Setting, step: str
) -> None:
    checkpoint, found = Checkpoint(), []
    setting.send(b"first")
    found += setting.query(checkpoint).all_values()
    setting.send(b"second")
    query = interrupted(setting, checkpoint, step, setting.stop)
    with pytest.raises(
        KafkaWireError, match=r"127\.0\.0\.1.*gave up after|gave up after.*127\.0\.0\.1"
    ) as error:
        query.batch()
    assert str(error.value).isprintable()
    setting.start()
    setting.send(b"third")
    found += setting.query(checkpoint).all_values()
    assert sorted(value for value in found if value != b"0") == [b"first", b"second", b"third"]


def test_an_idle_query_asks_brokers_ten_times_a_second_at_most(setting: Setting) -> None:
    setting.send(b"first")
    query = setting.query(Checkpoint())
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
