"""Tables of log directories beside what Kafka's own ``kafka-dump-log`` prints of the same files."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.foreign import CODECS, Record
from tests.support.table_reading import Rows, rows_of

from .apache_kafka import ApacheKafka
from .dumped_segments import dumped
from .needs import needs_broker
from .versions import VERSIONS


@pytest.fixture(params=VERSIONS)
def kafka(
    request: pytest.FixtureRequest, tmp_path: Path, certificates: Certificates
) -> Iterator[ApacheKafka]:
    """A broker that the test stops."""
    needs_broker(request.param)
    with ApacheKafka(request.param, tmp_path, certificates) as broker:
        yield broker


def records(count: int) -> list[Record]:
    return [Record(b"%d" % each * 100, b"k%d" % each) for each in range(count)]


def write_all(servers: str) -> None:
    """Batches of all codecs, of transactions that end either way, with times of the broker."""
    for codec in CODECS:
        topic = librdkafka.create_topic(servers, topic_config={"segment.bytes": "1048576"})
        for _ in range(3):
            librdkafka.produce(servers, topic, records(1500), codec)
    stamped = librdkafka.create_topic(servers, topic_config={"message.timestamp.type": "LogAppendTime"})
    librdkafka.produce(servers, stamped, records(20))
    for _ in range(3):
        librdkafka.commit(servers, stamped, records(5))
        librdkafka.abort(servers, stamped, records(5))
    with librdkafka.transaction(servers, stamped, records(3), outcome="open"):
        librdkafka.commit_offsets(servers, "a group", stamped, {0: 5})


def in_ms(time: datetime.datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


def batches_of(folder: Path) -> dict[str, Rows]:
    """The rows by the folder of their log, with times as the tool prints them."""
    found: dict[str, Rows] = {}
    for row in rows_of({"table": "batches", "path": str(folder)}):
        row["maxTimestamp"] = in_ms(row["maxTimestamp"])
        found.setdefault(f"{row['topic']}-{row['partition']}", []).append(row)
    return found


def judged(log: Path) -> list[dict[str, Any]]:
    return dumped(sorted(log.glob("*.log")))


def test_batches_are_what_kafka_dump_log_prints(kafka: ApacheKafka, tmp_path: Path) -> None:
    write_all(kafka.bootstrap_servers())
    kafka.stop()
    data = tmp_path / "data"
    found = batches_of(data)
    assert {"__consumer_offsets-0", "__transaction_state-0"} <= found.keys()
    assert {row["codec"] for rows in found.values() for row in rows} == set(CODECS)
    for name, rows in found.items():
        expected = judged(data / name)
        assert [{column: row[column] for column in expected[0]} for row in rows] == expected
    segments = rows_of({"table": "segments", "path": str(data)})
    assert any(row["baseOffset"] for row in segments)
    for segment in segments:
        own = [
            row
            for row in found.get(f"{segment['topic']}-{segment['partition']}", [])
            if row["file"] == segment["file"]
        ]
        assert segment["bytes"] == sum(row["bytes"] for row in own)
        if own:
            assert segment["firstOffset"] == own[0]["baseOffset"]
            assert segment["nextOffset"] == own[-1]["lastOffset"] + 1
            times = [row["maxTimestamp"] for row in own if row["maxTimestamp"] is not None]
            assert in_ms(segment["maxTimestamp"]) == max(times, default=None)


def test_damage_is_where_kafka_finds_it(kafka: ApacheKafka, tmp_path: Path) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers)
    for _ in range(5):
        librdkafka.produce(servers, topic, records(50), "zstd")
    kafka.stop()
    log = tmp_path / "data" / f"{topic}-0"
    [file] = log.glob("*.log")
    data = bytearray(file.read_bytes())
    damaged = judged(log)[2]
    data[damaged["position"] + damaged["bytes"] // 2] ^= 1
    file.write_bytes(data)
    expected = judged(log)
    assert [each["isValid"] for each in expected].count(False) == 1
    found = batches_of(tmp_path / "data")[log.name]
    for name in ("position", "bytes", "baseOffset", "lastOffset", "isValid"):
        assert [row[name] for row in found] == [row[name] for row in expected]
