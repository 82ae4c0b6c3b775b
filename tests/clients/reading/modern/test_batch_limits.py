"""Batches that are larger than a fetch, or than what a read may take."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from spark_kafkawire.clients.reading.fetcher import Fetcher
from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.errors import LimitError, ProtocolError
from spark_kafkawire.model import OffsetRange, TopicPartition
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from tests.records.batches import batch, record
from tests.support import librdkafka
from tests.support.fetching import COUNT, NET, SMALL, VALUES, cluster_of, fetcher_of, values, write
from tests.support.foreign import Record
from tests.support.log_broker import OFFERED
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.noida import NoidaBroker


class CutLog(MemoryLog):
    """Answers as brokers before Fetch version 3 do: as many bytes as were asked for, cut anywhere."""

    def read(self, offset: int, size_max: int) -> bytes:
        return bytes(super().read(offset, 1 << 30))[:size_max]


@contextlib.contextmanager
def cutting(written: list[bytes]) -> Iterator[LogServer]:
    log = CutLog()
    with LogServer({"t": [log]}) as server:
        write(server.bootstrap_servers, written, batch_count=1)
    offered = {**OFFERED, modern.FETCH.key: VersionRange(0, 2)}
    with LogServer({"t": [log]}, offered=offered) as server:
        yield server


@contextlib.contextmanager
def whole(written: list[bytes]) -> Iterator[LogServer]:
    with LogServer({"t": [MemoryLog()]}) as server:
        write(server.bootstrap_servers, written, batch_count=1)
        yield server


def test_a_response_above_max_message_bytes_is_not_even_received(pool: Pool) -> None:
    log = MemoryLog(batch([record(0, bytes(3_000_000))]))
    options = replace(SMALL, message_bytes_max=100_000)
    with (
        LogServer({"t": [log]}) as server,
        pytest.raises(
            ProtocolError, match=r"Fetch response announces 3000\d+ bytes, at most 1\d+ were expected"
        ),
    ):
        values(fetcher_of(server.bootstrap_servers, pool, stop=1, options=options))


def test_a_batch_that_a_fetch_cuts_is_fetched_with_a_larger_one(pool: Pool) -> None:
    large = [b"small", bytes(300_000), b"small too"]
    with cutting([*large, *VALUES]) as server:
        fetcher = fetcher_of(server.bootstrap_servers, pool, stop=len(large) + COUNT)
        assert values(fetcher) == large + VALUES


def test_a_first_batch_above_the_fetch_size_comes_whole(noida: NoidaBroker, pool: Pool) -> None:
    topic = noida.create_topic()
    big = bytes(range(256)) * 3000
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"small"), Record(big), Record(b"small too")])
    partition = TopicPartition(topic, 0)
    cluster = cluster_of(noida.bootstrap_servers, pool)
    task = FetchTask(OffsetRange(partition, 0, 3), cluster.leaders_of((partition,))[partition])
    assert values(Fetcher(task, cluster, SMALL, NET, connections=pool)) == [b"small", big, b"small too"]


@pytest.mark.parametrize("serving", [cutting, whole])
def test_a_batch_above_max_message_bytes_is_an_error_that_names_it(
    pool: Pool, serving: Callable[[list[bytes]], contextlib.AbstractContextManager[LogServer]]
) -> None:
    options = replace(SMALL, message_bytes_max=100_000)
    with (
        serving([bytes(300_000)]) as server,
        pytest.raises(
            LimitError,
            match=r"t 0 on broker 0 .*a batch at offset 0 or .* has 300\d+ bytes, more than maxMessageBytes",
        ),
    ):
        values(fetcher_of(server.bootstrap_servers, pool, stop=1, options=options))


def test_a_batch_above_max_message_bytes_is_an_error_behind_one_below_it(pool: Pool) -> None:
    options = replace(SMALL, fetch_bytes=1 << 20, message_bytes_max=100_000)
    # So many that both batches are asked for at once.
    small = batch([record(number, b"x") for number in range(1000)])
    with (
        LogServer({"t": [MemoryLog(small, batch([record(0, bytes(300_000))]))]}) as server,
        pytest.raises(LimitError, match=r"a batch at offset 0 or .* has 300\d+ bytes, more than maxMessageB"),
    ):
        values(fetcher_of(server.bootstrap_servers, pool, stop=1001, options=options))


def test_compressed_records_may_not_become_more_than_the_limit(pool: Pool) -> None:
    options = replace(SMALL, decompressed_bytes_max=500_000)
    with LogServer({"t": [MemoryLog()]}) as server:
        write(server.bootstrap_servers, [bytes(300_000)] * 3, compression="gzip", batch_count=3)
        with pytest.raises(LimitError, match=r"t 0 on broker 0 .*maxDecompressedBytes"):
            values(fetcher_of(server.bootstrap_servers, pool, stop=3, options=options))
