"""A producer speaks every version of Produce, in the format of records that goes with it."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from spark_kafkawire.errors import DeliveryError, KafkaWireError, OptionError, RowError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api, VersionRange
from spark_kafkawire.protocol.primitives import Buffer
from spark_kafkawire.records.headers import HEADERS
from spark_kafkawire.records.rows import Records
from tests.records.judges import judged
from tests.support.cases import for_each
from tests.support.codecs import BY_NAME, judged_by_kafka_python
from tests.support.log_broker import OFFERED
from tests.support.log_server import LogServer
from tests.support.log_server import Sent as Answer
from tests.support.polling import GRACE_S
from tests.support.producing import int64, numbered, options_of, producer, write
from tests.support.writing import binary

PARTITION = TopicPartition("t", 0)
#: First version of Produce with each magic.
MAGICS = {version: 0 if version < 2 else 1 if version < 3 else 2 for version in range(10)}


class Sent:
    """A partition that keeps what Produce requests have, as they have it."""

    def __init__(self) -> None:
        self.stop_offset = 0
        self.data: list[bytes] = []

    def read(self, _offset: int, _size_max: int) -> Buffer:
        return b""

    def append(self, batches: Buffer) -> int:
        self.data.append(bytes(batches))
        first = self.stop_offset
        self.stop_offset += len(judged(batches))
        return first


def serving(log: Sent, version: int) -> LogServer:
    offered = {**OFFERED, modern.PRODUCE.key: VersionRange(version, version)}
    return LogServer({"t": [log]}, offered=offered)


def judgeable(version: int) -> list[str]:
    """Codecs of a version that the judge reads."""
    judged_here = judged_by_kafka_python(MAGICS[version])
    return [name for name in judged_here if name == "none" or BY_NAME[name].produce_version <= version]


@for_each(
    ("version", "compression"), [(version, codec) for version in MAGICS for codec in judgeable(version)]
)
def test_every_version_carries_records_of_its_magic(version: int, compression: str) -> None:
    log, expected = Sent(), numbered(300)
    rows = Records(
        binary([*expected, None]), binary([None, *expected]), timestamps_ms=int64([*range(300), 1])
    )
    with serving(log, version) as server:
        options = options_of(server.bootstrap_servers, compression=compression, batchBytes=2000)
        with producer(options) as sending:
            (receipt,) = deliver(sending, rows)
    assert (receipt.message_count, receipt.start_offset, receipt.stop_offset) == (301, 0, 301)
    assert {data[16] for data in log.data} == {MAGICS[version]}
    found = [record for data in log.data for record in judged(data)]
    assert [record.value for record in found] == [*expected, None]
    assert [record.key for record in found] == [None, *expected]
    if MAGICS[version]:
        assert [record.timestamp_ms for record in found] == [*range(300), 1]


def deliver(sending: Any, rows: Records) -> Any:
    sending.add(PARTITION, rows)
    return sending.finish()


@pytest.mark.parametrize("version", [0, 2])
def test_brokers_before_0_11_are_written_to_without_idempotence_and_with_a_warning(
    version: int, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(Sent(), version) as server:
        write(server.bootstrap_servers, "t", [b"a"])
        assert caplog.messages == [
            "brokers before 0.11 have no idempotent producers; writing without: a batch that is sent again "
            "may be in its partition twice"
        ]
        with pytest.raises(
            OptionError, match=r"^option kafka\.enable\.idempotence: brokers before 0\.11 have no"
        ):
            write(server.bootstrap_servers, "t", [b"a"], kafka__enable__idempotence="true")


def test_headers_for_a_broker_that_has_none_are_a_row_error() -> None:
    rows = Records(binary([b"a"]), headers=pa.array([[{"key": "k", "value": b"v"}]], HEADERS))
    with serving(Sent(), 2) as server, producer(options_of(server.bootstrap_servers)) as sending:
        sending.add(PARTITION, rows)
        with pytest.raises(RowError, match=r"headers need Kafka 0\.11"):
            sending.finish()


def test_a_response_that_leaves_a_partition_out_proves_nothing() -> None:
    def lie(api: Api, frame: bytes) -> Answer:
        # No topics, no throttling, no tags: the response of version 9 with the right correlation id.
        empty = b"\0\0\0\x0b" + frame[4:9] + b"\x01\0\0\0\0\0"
        return Answer(empty if api is modern.PRODUCE else frame)

    with LogServer({"t": [Sent()]}, lie=lie) as server, pytest.raises(DeliveryError) as raised:
        write(server.bootstrap_servers, "t", [b"a"])
    assert "it lacks t 0, which was requested, and contains nothing" in str(raised.value)


def test_damaged_responses_end_in_our_errors_and_in_time() -> None:
    random_ = random.Random(5)

    def lie(api: Api, frame: bytes) -> Answer:
        if api is not modern.PRODUCE:
            return Answer(frame)
        damaged = bytearray(frame)
        for _ in range(random_.randint(1, 3)):
            damaged[random_.randrange(len(frame))] = random_.choice((0, 1, 0x7F, 0x80, 0xFF))
        size = random_.choice((len(frame), len(frame), random_.randrange(len(frame))))
        # A closed connection ends at once the wait for what a length announces in vain.
        return Answer(bytes(damaged[:size]), then="close")

    outcomes: Counter[str] = Counter()
    lines: list[str] = []
    with LogServer({"t": [Sent()]}, lie=lie) as server:
        for _ in range(150):
            began_s = time.monotonic()
            try:
                write(server.bootstrap_servers, "t", [b"a"], requestTimeout="10s", retries=0, acks=1)
                outcomes["written"] += 1
            except KafkaWireError as error:
                outcomes[type(error).__name__] += 1
                lines.append(str(error))
            assert time.monotonic() - began_s < GRACE_S
    assert set(outcomes) == {"written", "DeliveryError"}
    assert not any("\n" in line for line in lines)
