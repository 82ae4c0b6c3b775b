"""Packs as Spark gets them from the readers of batches and streams, without Spark's JVM."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.protocol import modern
from tests.records.batches import batch, record
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.reading import QUICK, Read
from tests.support.sparks import READ_LIMITS

PARTITIONS = 2001
HINT = "the plan has 2001 small ranges, each a Spark task: packSmallPartitions=true reads many in one task"


@pytest.fixture(scope="module")
def server() -> Iterator[LogServer]:
    """A topic of many partitions, each with two records."""
    log = MemoryLog(batch([record(0, b"a"), record(1, b"b")]))
    with LogServer({"t": [log] * PARTITIONS}) as server:
        yield server


def test_a_batch_of_many_small_partitions_is_a_few_requests(
    server: LogServer, caplog: pytest.LogCaptureFixture
) -> None:
    alone = Read(server.bootstrap_servers, subscribe="t")
    assert len(alone.partitions) == PARTITIONS
    assert caplog.messages == [HINT]
    packed = Read(server.bootstrap_servers, subscribe="t", packSmallPartitions="true")
    assert caplog.messages == [HINT]
    assert [len(each.tasks) for each in packed.partitions] == [401, 401, 401, 401, 397]
    fetches = server.requests.count(modern.FETCH)
    assert packed.column("value") == [b"a", b"b"] * PARTITIONS
    assert server.requests.count(modern.FETCH) - fetches == len(packed.partitions)


@READ_LIMITS
def test_a_stream_names_the_option_once_and_packs_each_batch(
    server: LogServer, caplog: pytest.LogCaptureFixture
) -> None:
    def partitions(**options: str) -> list[Any]:
        given = {"kafka.bootstrap.servers": server.bootstrap_servers, "subscribe": "t", **QUICK, **options}
        source = KafkaWireDataSource({**given, "startingOffsets": "earliest"})
        reader: Any = source.streamReader(source.schema())
        start = reader.initialOffset()
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        found = [reader.partitions(start, end), reader.partitions(start, end)]
        rows = [
            batch.num_rows
            for each in found[0][:2]
            for batch in pickle.loads(pickle.dumps(reader)).read(pickle.loads(pickle.dumps(each)))
        ]
        assert sum(rows) == 2 * sum(len(each.tasks) for each in found[0][:2])
        return [[len(each.tasks) for each in batch] for batch in found]

    assert partitions() == [[1] * PARTITIONS] * 2
    assert caplog.messages == [HINT]
    assert partitions(packSmallPartitions="true") == [[401, 401, 401, 401, 397]] * 2
    assert caplog.messages == [HINT]
