"""Record batches and error codes: Kafka's own classes are the judge."""

from __future__ import annotations

from typing import Final

import pytest

from spark_kafkawire.records.record_log import encode_batches
from tests.protocol.modern.kafkas_codes import kafkas_own
from tests.records.batch.golden_batches import BATCHES
from tests.records.judges import Headers, Record, arrow_records
from tests.support.codecs import known_to, of_magic

from .versions import VERSIONS, Judge, judge_of

VERSION: Final = "3.9.1"
CASES: Final = [
    (magic, name) for magic in (2, 0, 1) for name in known_to("Apache Kafka") if name in of_magic(magic)
]
NOW_MS: Final = 1_700_000_000_000


@pytest.fixture(scope="module")
def judge() -> Judge:
    return judge_of("RecordsJudge.java", VERSION)


def test_the_recorded_batches_are_still_those_of_kafka(judge: Judge) -> None:
    printed = dict(line.split("\t") for line in judge("encode").splitlines())
    assert printed == BATCHES


def test_kafka_reads_our_batches(judge: Judge) -> None:
    inputs = {(magic, compression): encoded(magic, compression) for magic, compression in CASES}
    printed = judge("decode", data="".join(f"{data.hex()}\n" for data in inputs.values()))
    read = [lines.splitlines() for lines in printed.removesuffix("\n\n").split("\n\n")]
    for (magic, _), lines in zip(inputs, read, strict=True):
        assert lines == [text(item, magic, offset) for offset, item in enumerate(records(magic))]


def records(magic: int) -> list[Record]:
    """Nulls, empty values, one of several blocks of each codec, timestamps that go back, headers."""
    headers: Headers = (("h", None), ("größe", b"1"), ("h", b"")) if magic == 2 else ()
    return [
        Record(b"v", b"k", (), NOW_MS),
        Record("größe ".encode() * 20_000, None, headers, NOW_MS - 5000),
        Record(None, b"", (), NOW_MS + 86_400_000),
        Record(b"", "schlüssel".encode(), headers[:1], 0),
        *(Record(b"%d" % number, b"x" * (number % 70), (), NOW_MS + number) for number in range(200)),
    ]


def encoded(magic: int, compression: str) -> bytes:
    (batch,) = encode_batches(
        arrow_records(records(magic)),
        magic=magic,
        compression=compression,
        batch_bytes_max=10**6,
        request_bytes_max=10**6,
        now_ms=0,
    )
    return bytes(batch.with_producer(21, 2, 40))


def text(record: Record, magic: int, offset: int) -> str:
    """The record as the program prints it."""
    timestamp_ms, timestamp_type = (record.timestamp_ms, 0) if magic else (-1, -1)
    headers = [f"{key.encode().hex()}={in_hex(value)}" for key, value in record.headers]
    places = [str(offset), str(timestamp_ms), str(timestamp_type)]
    return "\t".join([*places, in_hex(record.key), in_hex(record.value), *headers])


def in_hex(data: bytes | None) -> str:
    return "null" if data is None else data.hex()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_code_of_a_brokers_classes_is_among_those_recorded(version: str) -> None:
    lines = [line.split("\t") for line in judge_of("ErrorsJudge.java", version)().splitlines()]
    theirs = [(int(number), name, way) for number, name, way in lines]
    assert len(theirs) > 100
    assert theirs == kafkas_own()[: len(theirs)]
