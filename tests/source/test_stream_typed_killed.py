"""Streams of values in Avro are killed at random moments, while their producers change to later schemas and
the schema registry goes away and comes back: each record is there once, with the value that fastavro reads.

``KAFKAWIRE_TYPED_KILLS=20 KAFKAWIRE_TYPED_WORKERS=1`` kills the driver so often in the long one, and before
each time so many workers under each stream (``pytest -s -k long -o faulthandler_timeout=0``, or pytest ends
after 20 minutes).
"""

from __future__ import annotations

import io
import json
import os
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import fastavro
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.support import librdkafka
from tests.support.avro_messages import V1, V2, V3, framed
from tests.support.exactly_once import committed
from tests.support.fake_registry import FakeRegistry
from tests.support.foreign import Record
from tests.support.noida import KEPT_FOREVER, NoidaBroker, free_port
from tests.support.parquet_sink import stored
from tests.support.polling import poll
from tests.support.spark_streams import begun, run
from tests.support.sparks import READ_LIMITS
from tests.support.stream_kills import SENT_COUNT, WAIT_MAX_S, Killer, Stream

from .task_errors import message_of

KILLS: Final = int(os.environ.get("KAFKAWIRE_TYPED_KILLS", "3"))
WORKERS: Final = int(os.environ.get("KAFKAWIRE_TYPED_WORKERS", "1"))
SEED: Final = int(os.environ.get("KAFKAWIRE_TYPED_SEED", "1"))
#: The test's deadline grows with the kills, seconds.
TIMEOUT_S: Final = 1200 + 200 * KILLS
PARTITIONS: Final = 3
VERSIONS: Final = (V1, V2, V3)
#: The schema of the copy, with a name of its own: ids of the producers' schemas grow with their versions.
COPY: Final = json.dumps({**json.loads(V3), "name": "Copy"})
#: The fields of each version tell which one a row in a file has.
FIELDS: Final = tuple(tuple(each["name"] for each in json.loads(text)["fields"]) for text in VERSIONS)
#: How long the registry is away, seconds: requests are tried again for longer, unless ``retries=0``.
AWAY_MAX_S: Final = 3.0
#: An id that no schema has.
UNKNOWN: Final = 99


class Registry(FakeRegistry):
    """A registry that goes away, and comes back after a random time."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__(port=free_port())
        self._draw = draw
        self._back: threading.Timer | None = None
        self.outages = 0

    def interrupt(self) -> None:
        """Be away for a random time, if it is not away."""
        if self._back is not None and self._back.is_alive():
            return
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
    checkpoint is in ``folder``. Of orders with ``bad``, some cannot be decoded."""

    def __init__(
        self, servers: str, registry: Registry, count: int, folder: Path, *, bad: bool, seed: int
    ) -> None:
        self._servers, self._registry, self._has_bad = servers, registry, bad
        self.topic = librdkafka.create_topic(servers, PARTITIONS, None, KEPT_FOREVER)
        self._draw = random.Random(seed)
        self._begins = (0, count // 2, count * 3 // 4)
        self._commits, self._done = folder / "checkpoint" / "commits", 0
        self._ids = [registry.add(f"{self.topic}-value", V1)]
        #: Version and bytes of the value of each order; no version of a tombstone.
        self.sent: list[tuple[int | None, bytes | None]] = []
        #: Numbers of orders that cannot be decoded, with the ids of their schemas.
        self.bad: dict[int, int] = {}

    def send(self, values: list[bytes]) -> None:
        """Append an order for each number."""
        if self._draw.random() < 0.2:
            self._registry.interrupt()
        assert [int(each) for each in values] == [len(self.sent) + index for index in range(len(values))]
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
        message = framed(self._ids[version], VERSIONS[version], value)
        if self._has_bad and number % 7 == 3:
            is_cut = number % 2 == 0
            self.bad[number] = self._ids[version] if is_cut else UNKNOWN
            message = message[:-1] if is_cut else b"\0" + UNKNOWN.to_bytes(4, "big") + message[5:]
        return version, message

    def value(self, number: int, reader: str) -> Any:
        """Value of an order as fastavro reads it; None of a tombstone."""
        version, message = self.sent[number]
        if version is None or message is None:
            return None
        writers, readers = (fastavro.parse_schema(json.loads(text)) for text in (VERSIONS[version], reader))
        return fastavro.schemaless_reader(io.BytesIO(message[5:]), writers, readers)


class Typed:
    """All streams, each with orders of its own."""

    def __init__(self, servers: str, registry: Registry, count: int, folder: Path) -> None:
        self._servers = servers
        self.copy = librdkafka.create_topic(servers, PARTITIONS, None, KEPT_FOREVER)
        self.orders = {
            name: Orders(
                servers, registry, count, folder / name, bad=name in ("null", "drop"), seed=SEED + number
            )
            for number, name in enumerate(("latest", "once", "null", "drop"))
        }
        kafka = {"kafka.bootstrap.servers": servers}
        typed = {"valueFormat": "avro", "schema.registry.url": registry.url}
        fixed = {"valueSchema": V3}
        reads = {
            # Its tasks fail while the registry is away: the query ends, and is started again.
            "latest": {"avroSchemaEvolutionMode": "restart", "retries": "0"},
            "once": fixed,
            "null": {**fixed, "badRecords": "null"},
            "drop": {**fixed, "badRecords": "drop"},
        }
        self._registry = registry
        once = {"delivery": "exactly-once", "kafka.transactional.id": f"typed-{self.copy}"}
        writes = {"once": {**kafka, **typed, **once, "topic": self.copy}}
        limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}
        self.streams = {
            name: Stream(
                {**kafka, **typed, **limits, **read, "subscribe": self.orders[name].topic},
                writes.get(name, {}),
                self.orders[name].send,
            )
            for name, read in reads.items()
        }

    def register_copy(self) -> None:
        """Register the schema of the copy, behind the first one of the orders."""
        self._registry.add(f"{self.copy}-value", COPY)

    def check(self, name: str, folder: Path) -> None:
        """Each order is there once, and its value is that of fastavro."""
        orders = self.orders[name]
        assert {version for version, _ in orders.sent} == {None, 0, 1, 2}
        if name == "once":
            self._check_copy(orders)
            return
        found = stored(folder)
        rows = {int(row["key"]): row for row in found}
        assert len(rows) == len(found)
        left_out = orders.bad if name == "drop" else {}
        assert sorted(rows) == [number for number in range(len(orders.sent)) if number not in left_out]
        if name == "latest":
            seen = {FIELDS.index(tuple(row["value"])) for row in found if row["value"] is not None}
            assert {0, 2} <= seen
        for number, row in rows.items():
            value, reader = row["value"], V3
            if name == "latest" and value is not None:
                fixed = FIELDS.index(tuple(value))
                version = orders.sent[number][0]
                assert version is not None
                assert fixed >= version, "a field of the writer's schema is lost"
                reader = VERSIONS[fixed]
            is_bad = number in orders.bad
            assert value == (None if is_bad else orders.value(number, reader)), number
            if name == "null":
                corrupt = row["_corrupt_record"]
                expected = (orders.sent[number][1], orders.bad[number]) if is_bad else None
                assert (corrupt and (corrupt["bytes"], corrupt["schemaId"])) == expected

    def _check_copy(self, orders: Orders) -> None:
        schema = fastavro.parse_schema(json.loads(COPY))
        found = Counter(
            json.dumps(fastavro.schemaless_reader(io.BytesIO(message[5:]), schema, None) if message else None)
            for message in committed(self._servers, self.copy, PARTITIONS)
        )
        assert found == Counter(json.dumps(orders.value(number, V3)) for number in range(len(orders.sent)))


def kill_and_check(servers: str, folder: Path, names: Sequence[str], kills: int, workers: int) -> None:
    """Kill the driver of these streams, and check what is there in the end; prints where the kills fell."""
    with Registry(random.Random(SEED)) as registry:
        # Before each kill there is at least one send to each stream.
        typed = Typed(servers, registry, SENT_COUNT * kills * (workers + 1), folder)
        typed.register_copy()
        killer = Killer({name: typed.streams[name] for name in names}, folder, SEED)
        try:
            killer.run(kills, workers)
        finally:
            for (name, victim, step), count in sorted(
                Counter((kill.query, kill.victim, kill.step) for kill in killer.kills).items()
            ):
                print(name, victim, step, count, sep="\t")
            failures = [folder / name / "failures" for name in names]
            reasons = [line for file in failures if file.exists() for line in file.read_text().splitlines()]
            print(f"{registry.outages} outages of the registry, {len(reasons)} failures of queries")
        assert registry.outages
    for name in names:
        typed.check(name, folder / name)


@READ_LIMITS
@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.nightly
def test_kills_new_schemas_and_a_registry_away_neither_lose_double_nor_change_a_value(
    noida: NoidaBroker, tmp_path: Path
) -> None:
    kill_and_check(noida.bootstrap_servers, tmp_path, ("latest", "once"), KILLS, WORKERS)


@READ_LIMITS
@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.nightly
def test_kills_neither_lose_double_nor_invent_a_bad_record(noida: NoidaBroker, tmp_path: Path) -> None:
    kill_and_check(noida.bootstrap_servers, tmp_path, ("null", "drop"), kills=2, workers=1)


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as running:
        yield running


@READ_LIMITS
def test_a_query_that_ends_at_a_new_field_goes_on_with_its_values_in_the_same_checkpoint(
    spark: SparkSession, noida: NoidaBroker, registry: FakeRegistry, tmp_path: Path
) -> None:
    topic = noida.create_topic()
    read = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic, "valueFormat": "avro"}
    read |= {"schema.registry.url": registry.url, "startingOffsets": "earliest"}
    read |= {"avroSchemaEvolutionMode": "restart"}

    def send(version: int, *numbers: int) -> None:
        number = registry.add(f"{topic}-value", VERSIONS[version])
        values = [{"id": each, "name": f"name {each}", "note": f"note {each}"} for each in numbers]
        records = [Record(framed(number, VERSIONS[version], value)) for value in values]
        librdkafka.produce(noida.bootstrap_servers, topic, records)

    def ended_or_begun(**trigger: Any) -> StreamingQuery:
        rows = spark.readStream.format("kafkawire").options(**read).load().writeStream.format("parquet")
        rows = rows.option("checkpointLocation", str(tmp_path / "checkpoint")).option(
            "path", str(tmp_path / "out")
        )
        return run(rows.trigger(**trigger)) if trigger else begun(rows)

    send(0, 0, 1)
    running = ended_or_begun()
    send(0, 2)
    send(1, 3)
    with pytest.raises(StreamingQueryException) as error:
        running.awaitTermination(int(WAIT_MAX_S))
    reason = message_of(error.value)
    assert "schema id 2 has the field note, which version 1 of subject" in reason
    assert reason.endswith("to take the new schema (avroSchemaEvolutionMode=restart)")
    send(0, 4)
    ended_or_begun(availableNow=True)
    values = [row["value"] for row in stored(tmp_path)]
    assert sorted(value["id"] for value in values) == [0, 1, 2, 3, 4]
    assert {value["id"]: value.get("note") for value in values if value["id"] > 2} == {3: "note 3", 4: None}
