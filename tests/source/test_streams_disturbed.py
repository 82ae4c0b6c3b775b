"""Streams that end at an exact step of a batch, and what moves meanwhile: leaders, partitions, topics,
brokers.

The first batch's start is the one thing that the checkpoint does not hold, so most of the former are about
it. ``KAFKAWIRE_STRESS_ROUNDS=1000`` changes topics at random for longer, and ``KAFKAWIRE_STRESS_SEED`` draws
the same again. ``KAFKAWIRE_AWAY_S=60`` lets brokers be away for a minute.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.errors import DataLossError
from spark_kafkawire.model import OffsetRange, TopicPartition
from spark_kafkawire.planner import stream_leaders
from spark_kafkawire.planner.stream_partitions import StreamPartitions
from spark_kafkawire.protocol.modern import METADATA
from spark_kafkawire.protocol.v07 import OFFSETS
from spark_kafkawire.records.message_set.public import encode_message_set
from tests.chaos.frames import View
from tests.chaos.proxy import Proxy, Upstream
from tests.support import librdkafka
from tests.support.embedded import produce
from tests.support.foreign import Record
from tests.support.mock_cluster import MockCluster
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.source_process import SourceProcess
from tests.support.streaming import QUICK, Checkpoint, Killed, Query


def send(servers: str, topic: str, *values: bytes, partition: int = 0) -> None:
    librdkafka.produce(servers, topic, [Record(value, partition=partition) for value in values])


def given(servers: str, topic: str, **others: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, **QUICK, "subscribe": topic, **others}


class Moving(Query):
    """A query under which something moves before each step of a batch."""

    move: Callable[[], None] = staticmethod(lambda: None)

    def _construct(self, number: int, killed: str) -> bool:
        self.move()
        return super()._construct(number, killed)

    def _rows(self, start: Any, end: Any) -> list[dict[str, Any]]:
        self.move()
        return super()._rows(start, end)

    def _read(self, reader: Any, partition: Any) -> list[dict[str, Any]]:
        self.move()
        return super()._read(reader, partition)


def test_leaders_that_move_before_any_step_are_followed(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=3, replicas=3)
    moves = 0

    def move() -> None:
        nonlocal moves
        moves += 1
        for partition in range(3):
            mock_cluster.set_leader("t", partition, (partition + moves) % 3 + 1)

    checkpoint, sent, found = Checkpoint(), [], []
    query = Moving(
        checkpoint, **given(mock_cluster.bootstrap_servers, "t", startingOffsets="earliest", retries="10")
    )
    query.move = move
    for number in range(4):
        for partition in range(3):
            sent.append(b"%d of %d" % (number, partition))
            send(mock_cluster.bootstrap_servers, "t", sent[-1], partition=partition)
        rows = query.batch()
        assert rows is not None
        found += [row["value"] for row in rows]
    assert sorted(found) == sorted(sent)
    assert moves == 4 * (1 + 1 + 3)


#: Options, what of the records that are there is read, and the partitions that start where they end.
STARTS: dict[str, tuple[dict[str, str], list[bytes], set[int]]] = {
    "latest": ({}, [], {0, 1}),
    "earliest": ({"startingOffsets": "earliest"}, [b"0", b"1", b"10"], set()),
    "offsets": ({"startingOffsets": '{"TOPIC": {"0": 1, "1": -1}}'}, [b"1"], {1}),
    "timestamp": ({"startingTimestamp": "1"}, [b"0", b"1", b"10"], set()),
    "none so young": (
        {"startingTimestamp": "9000000000000", "startingOffsetsByTimestampStrategy": "latest"},
        [],
        {0, 1},
    ),
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("killed", ["planned", "written", "read"])
def test_first_batch_starts_as_without_a_crash(noida: NoidaBroker, start: str, killed: str) -> None:
    topic = noida.create_topic(partitions=2)
    send(noida.bootstrap_servers, topic, b"0", b"1")
    send(noida.bootstrap_servers, topic, b"10", partition=1)
    named, before, moving = STARTS[start]
    options = given(noida.bootstrap_servers, topic)
    options |= {name: value.replace("TOPIC", topic) for name, value in named.items()}
    checkpoint = Checkpoint()
    with pytest.raises(Killed):
        Query(checkpoint, **options).batch(killed)
    for partition in range(2):
        send(noida.bootstrap_servers, topic, b"later in %d" % partition, partition=partition)
    # Where nothing was written down, a query that starts at the end begins now.
    begun = moving if killed == "planned" else set()
    later = [b"later in %d" % partition for partition in range(2) if partition not in begun]
    assert Query(checkpoint, **options).all_values() == sorted(before + later)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_partitions_that_come_after_a_crash_are_read_whole(noida: NoidaBroker, fail: str) -> None:
    for starting, expected in (("earliest", [b"0", b"1", b"2"]), ("latest", [b"1", b"2"])):
        topic = noida.create_topic()
        send(noida.bootstrap_servers, topic, b"0")
        options = given(noida.bootstrap_servers, topic, startingOffsets=starting, failOnDataLoss=fail)
        checkpoint = Checkpoint()
        with pytest.raises(Killed):
            Query(checkpoint, **options).batch("written")
        noida.add_partitions(topic, 2)
        send(noida.bootstrap_servers, topic, b"1", partition=1)
        send(noida.bootstrap_servers, topic, b"2")
        assert Query(checkpoint, **options).all_values() == expected


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_killed_planning_plans_the_same_first_batch(noida: NoidaBroker, starting: str) -> None:
    topic = noida.create_topic()
    send(noida.bootstrap_servers, topic, b"0", b"1")
    options = given(noida.bootstrap_servers, topic, startingOffsets=starting)
    with SourceProcess(options) as process:
        end = process.latest_offset(process.initial_offset())  # Spark writes it down
        process.kill()  # before it asks for the start again
    planned = []
    for number in range(2):
        noida.add_partitions(topic, 2 + number)
        send(noida.bootstrap_servers, topic, b"later")
        with SourceProcess(options) as process:
            planned.append(process.partitions(process.initial_offset(), end))
            process.kill()  # before any task has read
    ranges = [[pickle.loads(task).tasks[0].range for task in tasks] for tasks in planned]
    whole = [OffsetRange(TopicPartition(topic, 0), 0, 2)]
    assert ranges == [whole, whole] if starting == "earliest" else ranges == [[], []]
    with SourceProcess(options) as process:  # the batch is done, and the next one begins where it ended
        tasks = process.partitions(end, process.latest_offset(end))
    assert [pickle.loads(task).tasks[0].range for task in tasks] == [
        OffsetRange(TopicPartition(topic, 0), 2, 4)
    ]


# A topic that is deleted between two questions of one batch: after it was seen, before its offsets are


def once_after(patch: pytest.MonkeyPatch, owner: Any, name: str, happens: Callable[[], None]) -> list[int]:
    """Let something happen after the next call of a function has its answer; how often it was called."""
    original, calls = getattr(owner, name), [0]

    def called(*arguments: Any) -> Any:
        found = original(*arguments)
        calls[0] += 1
        if calls[0] == 1:
            happens()
        return found

    patch.setattr(owner, name, called)
    return calls


class Topics:
    """Two topics, both of which a pattern finds; ``doomed`` is deleted sooner or later."""

    def __init__(self, noida: NoidaBroker) -> None:
        self._noida = noida
        self.stays = noida.create_topic()
        self.doomed = f"{self.stays}-doomed"

    def create(self, *values: bytes) -> None:
        self._noida.create_topic(name=self.doomed)
        send(self._noida.bootstrap_servers, self.doomed, *values)

    def delete(self) -> None:
        librdkafka.delete_topic(self._noida.bootstrap_servers, self.doomed)

    def query(self, checkpoint: Checkpoint, fail: str) -> Query:
        given = {"kafka.bootstrap.servers": self._noida.bootstrap_servers, "failOnDataLoss": fail}
        selected = {"subscribePattern": f"^{self.stays}", "startingOffsets": "earliest"}
        return Query(checkpoint, **QUICK, **given, **selected)


@pytest.fixture
def topics(noida: NoidaBroker) -> Topics:
    topics = Topics(noida)
    send(noida.bootstrap_servers, topics.stays, b"1", b"2")
    return topics


def _deleted_after_the_look(
    noida: NoidaBroker, topics: Topics, fail: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Query, list[int]]:
    topics.create(b"a")
    running = topics.query(Checkpoint(), fail)
    assert running.values() == [[b"1", b"2", b"a"]]
    send(noida.bootstrap_servers, topics.stays, b"3")
    return running, once_after(monkeypatch, StreamPartitions, "_there", topics.delete)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_topic_deleted_right_after_the_look_is_looked_for_again(
    noida: NoidaBroker,
    topics: Topics,
    fail: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    running, looks = _deleted_after_the_look(noida, topics, fail, monkeypatch)
    ended(running, fail, [b"3"], f"{topics.doomed} 0 at offset 1 no longer exists", caplog)
    assert looks[0] > 1


def ended(
    running: Query, fail: str, left: list[bytes], reported: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The next batch is a data loss, or has what is left, with a warning."""
    if fail == "true":
        with pytest.raises(DataLossError, match=f"^{reported}: "):
            running.batch()
        return
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert [row["value"] for row in running.batch() or ()] == left
    [line] = [each for each in caplog.messages if "continuing because" in each]
    assert line.startswith(reported)


def _deleted_after_its_leader_was_found(
    topics: Topics, fail: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Query, list[int]]:
    """A batch that takes in a new topic was planned, and is run again after a crash: where the new topic
    begins is asked for once more."""
    checkpoint = Checkpoint()
    assert topics.query(checkpoint, fail).values() == [[b"1", b"2"]]
    topics.create(b"a")
    with pytest.raises(Killed):
        topics.query(checkpoint, fail).batch("written")
    return topics.query(checkpoint, fail), once_after(
        monkeypatch, stream_leaders, "leaders_of", topics.delete
    )


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_new_topic_deleted_between_its_leader_and_its_start_is_a_loss(
    topics: Topics, fail: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    running, asked = _deleted_after_its_leader_was_found(topics, fail, monkeypatch)
    ended(running, fail, [], f"{topics.doomed} 0 at offset 0 no longer exists", caplog)
    assert asked[0] > 1


# Topics and partitions that come, go and age out at random, as in the stress tests of Spark's
# KafkaMicroBatchSourceSuite and KafkaDontFailOnDataLossSuite

ROUNDS: Final = int(os.environ.get("KAFKAWIRE_STRESS_ROUNDS", "25"))
SEED: Final = int(os.environ.get("KAFKAWIRE_STRESS_SEED", str(random.SystemRandom().randrange(10**6))))


@dataclass
class RandomTopics:
    """Topics of one prefix, and all values that were ever written, each of which is another one."""

    broker: NoidaBroker
    prefix: str
    draw: random.Random
    partitions: dict[str, int] = field(default_factory=dict)
    written: dict[str, list[bytes]] = field(default_factory=dict)

    def create(self, name: str) -> None:
        self.partitions[name] = self.draw.randint(1, 3)
        self.broker.create_topic(self.partitions[name], f"{self.prefix}-{name}")

    def grow(self, name: str) -> None:
        self.partitions[name] += 1
        self.broker.add_partitions(f"{self.prefix}-{name}", self.partitions[name])

    def send(self, name: str) -> None:
        count = sum(map(len, self.written.values()))
        values = [b"%d" % number for number in range(count, count + self.draw.randint(1, 20))]
        self.written.setdefault(name, []).extend(values)
        records = [Record(value, partition=self.draw.randrange(self.partitions[name])) for value in values]
        librdkafka.produce(self.broker.bootstrap_servers, f"{self.prefix}-{name}", records)

    def age_out(self, name: str) -> None:
        topic, partition = f"{self.prefix}-{name}", self.draw.randrange(self.partitions[name])
        start, stop = librdkafka.offsets(self.broker.bootstrap_servers, topic, partition)
        if start < stop:
            self.broker.delete_records(topic, partition, self.draw.randint(start + 1, stop))

    def delete(self, name: str) -> None:
        librdkafka.delete_topic(self.broker.bootstrap_servers, f"{self.prefix}-{name}")
        del self.partitions[name]

    def options(self, **others: str) -> dict[str, str]:
        servers = {"kafka.bootstrap.servers": self.broker.bootstrap_servers}
        selected = {"subscribePattern": f"^{self.prefix}-", "startingOffsets": "earliest"}
        return {**QUICK, **servers, **selected, **others}


class Reader(threading.Thread):
    """Reads batch after batch until it is told to end, and now and then starts its query again."""

    def __init__(self, options: dict[str, str], draw: random.Random) -> None:
        super().__init__()
        self._options, self._draw = options, draw
        self._ends = threading.Event()
        self._checkpoint = Checkpoint()
        self.rows: list[dict[str, Any]] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._ends.is_set():
                query = Query(self._checkpoint, **self._options)
                for _ in range(self._draw.randint(1, 10)):
                    self.rows += query.batch() or []
            for rows in Query(self._checkpoint, **self._options).batches():
                self.rows += rows
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self._ends.set()
        self.join()


@contextlib.contextmanager
def reading(options: dict[str, str], draw: random.Random) -> Iterator[Reader]:
    """A reader beside the block, which has read all there is after it."""
    reader = Reader(options, draw)
    reader.start()
    try:
        yield reader
    finally:
        reader.end()
    if reader.error is not None:
        raise reader.error


def in_order(rows: list[dict[str, Any]]) -> bool:
    """True if each partition was read from its start on, and no offset twice."""
    partitions: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        partitions.setdefault((row["topic"], row["partition"]), []).append(row["offset"])
    return all(offsets == list(range(len(offsets))) for offsets in partitions.values())


@pytest.fixture
def draw() -> random.Random:
    print(f"KAFKAWIRE_STRESS_SEED={SEED}")
    return random.Random(SEED)


def test_stress_with_topics_and_partitions_that_come_go_and_age_out(
    noida: NoidaBroker, draw: random.Random
) -> None:
    topics = RandomTopics(noida, noida.create_topic(), draw)
    topics.create("stays-0")
    with reading(topics.options(failOnDataLoss="false", maxOffsetsPerTrigger="40"), draw) as reader:
        for number in range(1, ROUNDS + 1):
            stay = [name for name in topics.partitions if name.startswith("stays")]
            topics.send(draw.choice(stay))
            name = draw.choice("abc")
            match draw.randrange(7):
                case 0:
                    topics.create(f"stays-{number}")
                case 1:
                    topics.grow(draw.choice(stay))
                case _ if name not in topics.partitions:
                    topics.create(name)
                    topics.send(name)
                case 2:
                    topics.delete(name)
                case 3:
                    topics.age_out(name)
                case 4:
                    topics.grow(name)
                case _:
                    topics.send(name)
        poll(lambda: len(reader.rows) > 0 or reader.error, "the reader's first rows")
    values = [row["value"] for row in reader.rows]
    assert len(values) == len(set(values))  # nothing is read twice, whatever went and came again
    assert set(values) <= {value for written in topics.written.values() for value in written}
    stayed = [row for row in reader.rows if "-stays-" in row["topic"]]
    written = [value for name, sent in topics.written.items() if name.startswith("stays") for value in sent]
    assert sorted(row["value"] for row in stayed) == sorted(written)
    assert in_order(stayed)
    assert len(values) > len(stayed)


# A broker that is away: streams wait, go on, and do not hammer at it meanwhile

AWAY_S: Final = float(os.environ.get("KAFKAWIRE_AWAY_S", "1"))
#: How often brokers may be asked, seconds.
INTERVAL_S: Final = 0.1
#: How long an idle query is watched, seconds.
WATCHED_S: Final = 1.0

pytestmark = pytest.mark.timeout(600 + 10 * ROUNDS + 3 * AWAY_S)


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
