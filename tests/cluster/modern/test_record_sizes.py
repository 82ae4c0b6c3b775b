"""Samples of the sizes of records: every version of Fetch, gaps, damage, leaders that move, and errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_kafkawire.errors import BrokerError
from spark_kafkawire.model import SizeSample, TopicPartition
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from spark_kafkawire.protocol.modern.fetch import FetchRequest, FetchResponse
from tests.cluster.modern.clusters import cluster_of
from tests.support import librdkafka
from tests.support.cases import for_each
from tests.support.foreign import Record
from tests.support.log_broker import LEADER_EPOCH, OFFERED
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.mock_cluster import MockCluster

A, B = (TopicPartition("t", number) for number in range(2))
NOT_LEADER, OFFSET_OUT_OF_RANGE, UNAUTHORIZED = 6, 1, 29


@for_each("version", range(4, 18))
def test_samples_are_whole_batches_of_every_version(version: int) -> None:
    offered = {**OFFERED, modern.FETCH.key: VersionRange(version, version)}
    with LogServer({"t": [MemoryLog(), MemoryLog()]}, offered=offered) as server:
        for size in (100, 100, 200_000, 100):
            librdkafka.produce(server.bootstrap_servers, "t", [Record(bytes(size), partition=0)])
        cluster = cluster_of(server.bootstrap_servers)
        assert cluster.sample_sizes({A: 4, B: 0}) == {}
        small, large = (cluster.sample_sizes({A: offset})[A] for offset in (0, 2))
        assert (small.count, large.count) == (2, 1)
        assert 2 * 100 < small.size < 2 * 250
        assert 200_000 < large.size < 200_250


def changed(response: FetchResponse, **fields: object) -> FetchResponse:
    """The response with other fields of its partition."""
    [topic] = response.responses
    [partition] = topic.partitions
    topic = replace(topic, partitions=(replace(partition, **fields),))  # type: ignore[arg-type]
    return replace(response, responses=(topic,))


def test_gaps_have_no_bytes_and_damage_is_left_to_the_task() -> None:
    log = MemoryLog()
    with LogServer({"t": [log]}) as server:
        librdkafka.produce(server.bootstrap_servers, "t", [Record(b"v")])
        cluster = cluster_of(server.bootstrap_servers)
        whole, batch = cluster.sample_sizes({A: 0})[A], bytes(log.read(0, 1))
        answers = {
            (90).to_bytes(8, "big") + batch[8:]: {A: SizeSample(whole.size, 91)},
            batch[:-1]: {},
            batch + b"\xff" * 70: {A: whole},
            b"": {},
        }
        records = iter(answers)
        server.broker.alter(FetchRequest, lambda honest, _: changed(honest, records=next(records)))
        assert [cluster.sample_sizes({A: 0}) for _ in answers] == [*answers.values()]


def test_errors_are_raised_except_for_an_offset_that_is_gone() -> None:
    with LogServer({"t": [MemoryLog()]}) as server:
        librdkafka.produce(server.bootstrap_servers, "t", [Record(b"v")])
        cluster, codes = cluster_of(server.bootstrap_servers), [UNAUTHORIZED, NOT_LEADER, OFFSET_OUT_OF_RANGE]
        asked = server.broker.alter(
            FetchRequest, lambda honest, _: changed(honest, error_code=codes.pop(), records=b"")
        )
        assert cluster.sample_sizes({A: 0}) == {}
        for is_retriable in (True, False):
            with pytest.raises(BrokerError, match=r"^Fetch of t 0 on broker ") as failed:
                cluster.sample_sizes({A: 0})
            assert failed.value.retriable is is_retriable
        epochs = {item.topics[0].partitions[0].current_leader_epoch for item in asked}
        assert epochs == {LEADER_EPOCH}


def test_all_leaders_are_asked_and_one_that_moved_is_found(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=2)
    for number in range(2):
        mock_cluster.set_leader("t", number, 1 + number)
        librdkafka.produce(mock_cluster.bootstrap_servers, "t", [Record(b"v", partition=number)])
    cluster = cluster_of(mock_cluster.bootstrap_servers)
    assert cluster.sample_sizes({A: 0, B: 0}).keys() == {A, B}
    mock_cluster.set_leader("t", 0, 3)
    with pytest.raises(BrokerError):
        cluster.sample_sizes({A: 0})
    assert cluster.sample_sizes({A: 0}).keys() == {A}
