"""Topics and partitions that come, go and age out at random under a stream, as in the stress tests of Spark's
KafkaMicroBatchSourceSuite and KafkaDontFailOnDataLossSuite.

``KAFKAWIRE_STRESS_ROUNDS=1000`` does more than there is time for with all other tests, and
``KAFKAWIRE_STRESS_SEED`` draws the same again.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.streaming import QUICK, Checkpoint, Query

ROUNDS: Final = int(os.environ.get("KAFKAWIRE_STRESS_ROUNDS", "25"))
SEED: Final = int(os.environ.get("KAFKAWIRE_STRESS_SEED", str(random.SystemRandom().randrange(10**6))))

pytestmark = pytest.mark.timeout(400 + 10 * ROUNDS)


@dataclass
class Topics:
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


def test_stress_with_topics_and_partitions_added(noida: NoidaBroker, draw: random.Random) -> None:
    topics = Topics(noida, noida.create_topic(), draw)
    topics.create("0")
    with reading(topics.options(maxOffsetsPerTrigger="30"), draw) as reader:
        for number in range(1, ROUNDS + 1):
            match draw.randrange(4):
                case 0:
                    topics.create(str(number))
                case 1:
                    topics.grow(draw.choice(list(topics.partitions)))
                case _:
                    topics.send(draw.choice(list(topics.partitions)))
    written = sorted(value for values in topics.written.values() for value in values)
    assert sorted(row["value"] for row in reader.rows) == written
    assert in_order(reader.rows)


def test_stress_for_fail_on_data_loss_false(noida: NoidaBroker, draw: random.Random) -> None:
    topics = Topics(noida, noida.create_topic(), draw)
    topics.create("stays")
    with reading(topics.options(failOnDataLoss="false", maxOffsetsPerTrigger="40"), draw) as reader:
        for _ in range(ROUNDS):
            topics.send("stays")
            name = draw.choice(["a", "b", "c"])
            if name not in topics.partitions:
                topics.create(name)
                topics.send(name)
                continue
            match draw.randrange(5):
                case 0:
                    topics.delete(name)
                case 1:
                    topics.age_out(name)
                case 2:
                    topics.grow(name)
                case _:
                    topics.send(name)
        poll(lambda: len(reader.rows) > 0 or reader.error, "the reader's first rows")
    values = [row["value"] for row in reader.rows]
    assert len(values) == len(set(values))  # nothing is read twice, whatever went and came again
    assert set(values) <= {value for written in topics.written.values() for value in written}
    stayed = [row for row in reader.rows if row["topic"].endswith("-stays")]
    assert sorted(row["value"] for row in stayed) == sorted(topics.written["stays"])
    assert in_order(stayed)
    assert len(values) > len(stayed)


def test_fail_on_data_loss_false_should_not_return_duplicated_records(noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    records = [Record(b"%d" % number) for number in range(30)]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    given = {"kafka.bootstrap.servers": noida.bootstrap_servers, **QUICK, "subscribe": topic}
    given |= {"startingOffsets": "earliest", "failOnDataLoss": "false", "maxOffsetsPerTrigger": "8"}
    checkpoint = Checkpoint()
    read = [row["offset"] for row in Query(checkpoint, **given).batch() or []]
    noida.delete_records(topic, 0, 12)  # within the next batch
    query = Query(checkpoint, **given)
    read += [row["offset"] for row in query.batch() or []]
    noida.delete_records(topic, 0, 28)  # after the next but one
    read += [row["offset"] for rows in query.batches() for row in rows]
    assert read == [*range(8), *range(12, 16), 28, 29]
