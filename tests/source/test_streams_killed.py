"""Drivers and workers of streams are killed at random moments: each program keeps what it promises.

Each commit kills the driver of one program. ``make nightly`` runs all programs: ``KAFKAWIRE_STREAM_KILLS=17
KAFKAWIRE_STREAM_WORKERS=2`` kills each driver so often, and before each time so many workers under each of
its streams, and prints where the kills fell (``pytest -s -k long -o faulthandler_timeout=0``, or pytest ends
after 20 minutes): that are 102 kills of streams into Parquet, and 51 of the one to a topic.
``KAFKAWIRE_ONCE_STREAMS``, ``KAFKAWIRE_ONCE_KILLS`` and ``KAFKAWIRE_ONCE_WORKERS`` are the same of streams
with delivery=exactly-once.
"""

from __future__ import annotations

import io
import json
import os
import random
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import fastavro
import pytest

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.records.message_set.public import encode_message_set
from tests.support import librdkafka, stream_once
from tests.support.avro_messages import V1, V2, V3, framed
from tests.support.embedded import produce, wait_registered
from tests.support.exactly_once import committed
from tests.support.fake_registry import FakeRegistry
from tests.support.foreign import Record
from tests.support.noida import KEPT_FOREVER, NoidaBroker, free_port
from tests.support.polling import poll
from tests.support.short_and_long import short_and_long
from tests.support.sparks import READ_LIMITS
from tests.support.stream_kills import SENT_COUNT, WAIT_MAX_S, Killer, Stream, stored

KILLS: Final = int(os.environ.get("KAFKAWIRE_STREAM_KILLS", "1"))
#: Workers that are killed under each of the streams before their driver is.
WORKERS: Final = int(os.environ.get("KAFKAWIRE_STREAM_WORKERS", "1"))
SEED: Final = int(os.environ.get("KAFKAWIRE_STREAM_SEED", "1"))
#: New schemas are for several kills.
TYPED_KILLS: Final = max(KILLS, 3)

# The deadline grows with the kills, seconds.
pytestmark = [READ_LIMITS, pytest.mark.timeout(max(1200 + 200 * TYPED_KILLS, stream_once.TIMEOUT_S))]


def killed(streams: dict[str, Stream], folder: Path, kills: int, workers: int) -> dict[str, int]:
    """Kill the driver of these streams, and print where the kills fell; how many records each was sent."""
    killer = Killer(streams, folder, SEED)
    try:
        killer.run(kills, workers)
    finally:
        reported = Counter((kill.query, kill.victim, kill.step) for kill in killer.kills)
        for key, count in sorted(reported.items()):
            print(*key, count, sep="\t")
    return killer.sent


# Bytes: in Parquet each record is there once, in a topic none is lost


def of_noida(noida: NoidaBroker, write: dict[str, str]) -> Stream:
    """A stream of a topic of three partitions."""
    topic = noida.create_topic(partitions=3)

    def send(values: list[bytes]) -> None:
        records = [Record(value, partition=number % 3) for number, value in enumerate(values)]
        librdkafka.produce(noida.bootstrap_servers, topic, records)

    read = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic}
    return Stream({**read, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}, write, send)


def of_v07(cluster: EmbeddedCluster) -> Stream:
    """A stream of a topic of two partitions on each of two brokers, with plain and compressed messages."""

    def send(values: list[bytes]) -> None:
        for number in range(4):
            part = encode_message_set(values[number::4], "gzip" if number % 3 else "none")
            produce(cluster, "killed", part, number % 2, number // 2)
        wait_registered(cluster, "killed", brokers=2)

    read = {"zookeeper.connect": cluster.zookeeper_connect, "subscribe": "killed"}
    return Stream({**read, "startingOffsets": "earliest", "maxBytesPerTrigger": "1k"}, {}, send)


def check_files(folder: Path, sent: int) -> None:
    """Each record is stored once, and in its log's order."""
    places: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    rows = stored(folder)
    for row in rows:
        partition = (row["topic"], row.get("broker"), row["partition"])
        places.setdefault(partition, []).append((row["offset"], row.get("index", 0)))
    assert all(found == sorted(set(found)) for found in places.values())
    assert sorted(int(row["value"]) for row in rows) == list(range(sent))


@short_and_long(
    "names, kills, workers",
    short=(("v07-parquet",), 1, 0),
    long=(("modern-parquet", "v07-parquet", "modern-topic"), KILLS, WORKERS),
)
def test_files_have_each_record_once_and_topics_all(
    names: Sequence[str], kills: int, workers: int, noida: NoidaBroker, tmp_path: Path
) -> None:
    servers, copy = noida.bootstrap_servers, noida.create_topic()
    with EmbeddedCluster(brokers=2, partitions=2) as v07:
        streams = {
            "modern-parquet": of_noida(noida, {}),
            "v07-parquet": of_v07(v07),
            "modern-topic": of_noida(noida, {"kafka.bootstrap.servers": servers, "topic": copy}),
        }
        sent = killed({name: streams[name] for name in names}, tmp_path, kills, workers)
    for name in names:
        if streams[name].has_files:
            check_files(tmp_path / name, sent[name])
        else:
            found = [int(record.value or b"") for record in librdkafka.consume(servers, copy)]
            print(f"{len(found) - len(set(found))} of {len(set(found))} records are doubled in the topic")
            assert set(found) == set(range(sent[name]))


# delivery=exactly-once: each record of a stream's source is in its target once


@pytest.mark.nightly
def test_exactly_once_streams_have_each_record_once(noida: NoidaBroker, tmp_path: Path) -> None:
    stream_once.kill_and_check(noida.bootstrap_servers, tmp_path)


@pytest.mark.nightly
def test_tasks_that_fail_at_random_leave_each_record_once(noida: NoidaBroker, tmp_path: Path) -> None:
    trouble, settings = {"fails": 0.25}, {"spark.master": "local[2,4]"}
    found = stream_once.trouble_and_check(noida.bootstrap_servers, tmp_path, trouble, settings)
    assert found["failed"]


# Values in Avro, whose producers change to later schemas while the registry goes away and comes back: each
# record is there once, with the value that fastavro reads

PARTITIONS: Final = 3
VERSIONS: Final = (V1, V2, V3)
#: The schema of the copy, with a name of its own: ids of the producers' schemas grow with their versions.
COPY: Final = json.dumps({**json.loads(V3), "name": "Copy"})
#: The fields of each version tell which one a row in a file has.
FIELDS: Final = tuple(tuple(each["name"] for each in json.loads(text)["fields"]) for text in VERSIONS)
#: How long the registry is away, seconds: requests are tried again for longer, unless ``retries=0``.
AWAY_MAX_S: Final = 3.0


class Registry(FakeRegistry):
    """A registry that goes away, and comes back after a random time."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__(port=free_port())
        self._draw = draw
        self._back: threading.Timer | None = None
        self.outages = 0

    def interrupt(self) -> None:
        """Be away for a random time, if it is not away."""
        if self._back is None or not self._back.is_alive():
            self.outages += 1
            self.go_away()
            self._back = threading.Timer(self._draw.uniform(0, AWAY_MAX_S), self.come_back)
            self._back.start()

    def __exit__(self, *exc_info: object) -> None:
        if self._back is not None:
            self._back.join()
        super().__exit__(*exc_info)


class Orders:
    """A topic of at least ``count`` orders, in keys their numbers. Half-way its producers begin to change to
    the second schema, and after three quarters to the third, each when a batch of the stream is done whose
    checkpoint is in ``folder``."""

    def __init__(self, servers: str, registry: Registry, count: int, folder: Path, seed: int) -> None:
        self._servers, self._registry = servers, registry
        self.topic = librdkafka.create_topic(servers, PARTITIONS, None, KEPT_FOREVER)
        self._draw = random.Random(seed)
        self._begins = (0, count // 2, count * 3 // 4)
        self._commits, self._done = folder / "checkpoint" / "commits", 0
        self._ids = [registry.add(f"{self.topic}-value", V1)]
        #: Version and bytes of the value of each order; no version of a tombstone.
        self.sent: list[tuple[int | None, bytes | None]] = []

    def send(self, values: list[bytes]) -> None:
        """Append an order for each number."""
        if self._draw.random() < 0.2:
            self._registry.interrupt()
        records: list[Record] = []
        for key in values:
            newest = sum(int(key) >= begin for begin in self._begins) - 1
            if newest == len(self._ids):
                librdkafka.produce(self._servers, self.topic, records)
                records = []
                self._await_batch()
                self._ids.append(self._registry.add(f"{self.topic}-value", VERSIONS[newest]))
                self._registry.interrupt()
            version, value = self._order(int(key), newest)
            assert int(key) == len(self.sent)
            self.sent.append((version, value))
            records.append(Record(value, key, partition=self._draw.randrange(PARTITIONS)))
        librdkafka.produce(self._servers, self.topic, records)

    def _await_batch(self) -> None:
        """Until a batch is done since this was called last: the driver runs while orders are sent."""

        def done() -> int:
            return sum(1 for file in self._commits.glob("[0-9]*"))

        poll(lambda: done() > self._done, f"{self.topic}: a batch after {self._done}", WAIT_MAX_S)
        self._done = done()

    def _order(self, number: int, newest: int) -> tuple[int | None, bytes | None]:
        if number % 10 == 9:
            return None, None
        # Some producers are later than others.
        version = newest if self._draw.random() < 0.7 else self._draw.randint(0, newest)
        value: dict[str, Any] = {"id": number, "name": f"name {number}", "note": None, "count": number % 100}
        value |= {"note": f"note {number}"} if number % 3 else {}
        value |= {"id": 2**33 + number, "title": f"title {number}"} if version == 2 else {}
        return version, framed(self._ids[version], VERSIONS[version], value)

    def value(self, number: int, reader: str) -> Any:
        """Value of an order as fastavro reads it; None of a tombstone."""
        version, message = self.sent[number]
        if version is None or message is None:
            return None
        writers, readers = (fastavro.parse_schema(json.loads(text)) for text in (VERSIONS[version], reader))
        return fastavro.schemaless_reader(io.BytesIO(message[5:]), writers, readers)

    def check_copy(self, copy: str) -> None:
        """Each order is in the copy once."""
        schema = fastavro.parse_schema(json.loads(COPY))
        found = Counter(
            json.dumps(fastavro.schemaless_reader(io.BytesIO(message[5:]), schema, None) if message else None)
            for message in committed(self._servers, copy, PARTITIONS)
        )
        assert found == Counter(json.dumps(self.value(number, V3)) for number in range(len(self.sent)))

    def check_files(self, folder: Path) -> None:
        """Each order is there once, and its value is that of fastavro."""
        found = stored(folder)
        assert sorted(int(row["key"]) for row in found) == list(range(len(self.sent)))
        seen = {FIELDS.index(tuple(row["value"])) for row in found if row["value"] is not None}
        assert {0, 2} <= seen
        for row in found:
            number, value, fixed = int(row["key"]), row["value"], 2
            if value is not None:
                fixed, version = FIELDS.index(tuple(value)), self.sent[number][0]
                assert version is not None
                assert fixed >= version, "a field of the writer's schema is lost"
            assert value == self.value(number, VERSIONS[fixed]), number


@pytest.mark.nightly
def test_typed_values_are_those_of_fastavro(noida: NoidaBroker, tmp_path: Path) -> None:
    servers = noida.bootstrap_servers
    copy = librdkafka.create_topic(servers, PARTITIONS, None, KEPT_FOREVER)
    with Registry(random.Random(SEED)) as registry:
        # Before each kill there is at least one send to each stream.
        count = SENT_COUNT * TYPED_KILLS * (WORKERS + 1)
        latest, once = (
            Orders(servers, registry, count, tmp_path / name, SEED + at)
            for at, name in enumerate(("latest", "once"))
        )
        # Behind the first schema of the orders.
        registry.add(f"{copy}-value", COPY)
        typed = {"kafka.bootstrap.servers": servers, "schema.registry.url": registry.url}
        typed |= {"valueFormat": "avro"}
        read = {**typed, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}
        # Its tasks fail while the registry is away: the query ends, and is started again.
        moving = {"avroSchemaEvolutionMode": "restart", "retries": "0", "subscribe": latest.topic}
        write = {"delivery": "exactly-once", "kafka.transactional.id": f"typed-{copy}", "topic": copy}
        streams = {
            "latest": Stream({**read, **moving}, {}, latest.send),
            "once": Stream(
                {**read, "valueSchema": V3, "subscribe": once.topic}, {**typed, **write}, once.send
            ),
        }
        killed(streams, tmp_path, TYPED_KILLS, WORKERS)
        assert registry.outages
    for orders in (latest, once):
        assert {version for version, _ in orders.sent} == {None, 0, 1, 2}
    latest.check_files(tmp_path / "latest")
    once.check_copy(copy)
