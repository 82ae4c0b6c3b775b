"""Planning against real brokers and a real ZooKeeper: what is read, from where to where."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.cluster import cluster_of
from spark_kafkawire.errors import (
    BrokerError,
    DataLossError,
    DiscoveryError,
    OptionError,
    UnknownTopicError,
)
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.planner.batch import plan, select
from spark_kafkawire.protocol.modern.group_offsets import OffsetFetchTopic, OffsetFetchTopicResponse
from spark_kafkawire.protocol.modern.limits import READ_COMMITTED
from spark_kafkawire.protocol.modern.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from spark_kafkawire.protocol.modern.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from tests.records.batches import batch, record
from tests.support.golden import CORPUS, read_json
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog

MANIFEST = {(log["topic"], log["broker"], log["partition"]): log for log in read_json("corpus/manifest.json")}
#: Modification times given to the two segment files of each debian-plain log, seconds.
TIMES_S = (1_600_000_000, 1_600_003_600)


# ZooKeeper is a JVM.
pytestmark = pytest.mark.jvm


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    folder = tmp_path_factory.mktemp("planned")
    log_dirs = [Path(shutil.copytree(CORPUS / name, folder / name)) for name in ("broker0", "broker1")]
    with EmbeddedCluster(brokers=2, partitions=3, log_dirs=log_dirs) as running:
        for log_dir in log_dirs:
            for partition in log_dir.glob("debian-plain-*"):
                for file, time_s in zip(sorted(partition.iterdir()), TIMES_S, strict=True):
                    os.utime(file, (time_s, time_s))
        yield running


def planned(cluster: EmbeddedCluster, **options: str) -> tuple[FetchTask, ...]:
    raw = {"zookeeper.connect": cluster.zookeeper_connect, "subscribe": "debian-plain", **options}
    return plan(ReadOptions.parse({name: value for name, value in raw.items() if value}))


def ranges(tasks: tuple[FetchTask, ...]) -> dict[str, list[tuple[int, int]]]:
    result: dict[str, list[tuple[int, int]]] = {}
    for task in tasks:
        result.setdefault(task.range.topic_partition.name, []).append(
            (task.range.start_offset, task.range.stop_offset)
        )
    return result


def segments(name: str, topic: str = "debian-plain") -> list[tuple[int, int]]:
    broker, partition = map(int, name.split("-"))
    files = MANIFEST[topic, broker, partition]["segments"]
    return [(file["start_offset"], file["start_offset"] + file["size"]) for file in files]


NAMES = ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"]
WHOLE = {name: [(0, segments(name)[1][1])] for name in NAMES}
FIRST = {name: [segments(name)[0]] for name in NAMES}
SECOND = {name: [segments(name)[1]] for name in NAMES}


def test_a_topic_is_one_task_for_each_broker_and_partition(cluster: EmbeddedCluster) -> None:
    tasks = planned(cluster)
    assert ranges(tasks) == WHOLE
    assert {(task.leader.broker.id, task.leader.broker.port) for task in tasks} == {
        (broker.id, broker.port) for broker in cluster.brokers
    }
    assert {(task.start_option, task.stop_option) for task in tasks} == {(None, None)}


def test_a_broker_list_finds_the_same(cluster: EmbeddedCluster) -> None:
    tasks = planned(cluster, **{"zookeeper.connect": "", "broker.list": cluster.broker_list})
    assert ranges(tasks) == WHOLE


def test_a_pattern_is_found_anywhere_in_the_name(cluster: EmbeddedCluster) -> None:
    tasks = planned(cluster, subscribe="", subscribePattern="-(gzip|snappy)$")
    assert {task.range.topic_partition.topic for task in tasks} == {"debian-gzip", "debian-snappy"}


def test_assign_takes_the_named_partitions_only(cluster: EmbeddedCluster) -> None:
    tasks = planned(cluster, subscribe="", assign='{"debian-plain":["0-0","1-2"]}')
    assert ranges(tasks) == {name: WHOLE[name] for name in ("0-0", "1-2")}


def test_max_bytes_per_partition_cuts_at_segment_starts(cluster: EmbeddedCluster) -> None:
    assert ranges(planned(cluster, maxBytesPerPartition="1MiB")) == WHOLE
    assert ranges(planned(cluster, maxBytesPerPartition="600k")) == {name: segments(name) for name in NAMES}


def test_explicit_offsets_keep_the_name_of_their_option(cluster: EmbeddedCluster) -> None:
    tasks = planned(
        cluster,
        subscribe="",
        assign='{"debian-plain":["0-0","0-1"]}',
        startingOffsets='{"debian-plain":{"0-0":-2,"0-1":1000}}',
        endingOffsets='{"debian-plain":{"0-0":500,"0-1":-1}}',
    )
    assert ranges(tasks) == {"0-0": [(0, 500)], "0-1": [(1000, WHOLE["0-1"][0][1])]}
    assert [(task.start_option, task.stop_option) for task in tasks] == [
        (None, "endingOffsets"),
        ("startingOffsets", None),
    ]


def ms(time_s: float) -> str:
    return str(int(time_s * 1000))


def test_nothing_that_young_is_an_error_or_nothing(cluster: EmbeddedCluster) -> None:
    with pytest.raises(
        OptionError, match=r"startingTimestamp: .*: debian-plain 0-0 has no message at or after"
    ):
        planned(cluster, startingTimestamp=ms(TIMES_S[1] + 1))
    options = {"startingTimestamp": ms(TIMES_S[1] + 1), "startingOffsetsByTimestampStrategy": "latest"}
    assert planned(cluster, **options) == ()


def test_timestamps_by_partition_and_their_precedence(cluster: EmbeddedCluster) -> None:
    by_partition = f'{{"debian-plain":{{"0-0":{ms(TIMES_S[0])},"0-1":{ms(TIMES_S[1])}}}}}'
    options = {
        "subscribe": "",
        "assign": '{"debian-plain":["0-0","0-1"]}',
        "startingOffsetsByTimestamp": by_partition,
        "startingOffsets": '{"debian-plain":{"0-0":1,"0-1":1}}',
    }
    assert ranges(planned(cluster, **options)) == {"0-0": WHOLE["0-0"], "0-1": SECOND["0-1"]}
    both = {**options, "startingTimestamp": ms(TIMES_S[1])}
    assert ranges(planned(cluster, **both)) == {"0-0": SECOND["0-0"], "0-1": SECOND["0-1"]}


def test_an_offset_outside_of_the_log_is_a_data_loss_or_a_warning(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    end = WHOLE["0-0"][0][1]
    options = {
        "subscribe": "",
        "assign": '{"debian-plain":["0-0"]}',
        "endingOffsets": f'{{"debian-plain":{{"0-0":{end + 1}}}}}',
    }
    with pytest.raises(DataLossError, match=rf"endingOffsets: offset {end + 1} is not in debian-plain 0-0"):
        planned(cluster, **options)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert ranges(planned(cluster, failOnDataLoss="false", **options)) == {"0-0": WHOLE["0-0"]}
    assert f"offset {end + 1} is not in debian-plain 0-0" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "debian-plane"}, r"no broker holds the topic debian-plane; did you mean debian-plain"),
        (
            {"subscribe": "", "assign": '{"debian-plain":["0-7"]}'},
            r"no broker holds debian-plain 0-7; correct it: the topic's partitions are 0-0, 1-0, 0-1, ",
        ),
    ],
)
def test_what_no_broker_holds_is_named(
    cluster: EmbeddedCluster, options: dict[str, str], message: str
) -> None:
    with pytest.raises(UnknownTopicError, match=message):
        planned(cluster, **options)


def test_a_pattern_that_matches_no_topic_reads_nothing_with_a_warning(
    cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert planned(cluster, subscribe="", subscribePattern="^x") == ()
    assert "subscribePattern: none of the 3 topics matches '^x': nothing is read" in caplog.text


def test_a_job_reports_that_its_pattern_matches_no_topic(cluster: EmbeddedCluster) -> None:
    options = ReadOptions.parse({"zookeeper.connect": cluster.zookeeper_connect, "subscribePattern": "^x"})
    with pytest.raises(UnknownTopicError, match=r"subscribePattern: none of the 3 topics matches '\^x'$"):
        select(options.selection, cluster_of(options))


def test_a_pattern_needs_zookeeper(cluster: EmbeddedCluster) -> None:
    options = {
        "zookeeper.connect": "",
        "broker.list": cluster.broker_list,
        "subscribe": "",
        "subscribePattern": "x",
    }
    with pytest.raises(OptionError, match=r"subscribePattern needs zookeeper\.connect"):
        planned(cluster, **options)


def test_a_zookeeper_that_is_down_is_one_line(cluster: EmbeddedCluster) -> None:
    options = {"zookeeper.connect": "127.0.0.1:1", "requestTimeout": "300ms", "brokerDownTimeout": "1s"}
    with pytest.raises(DiscoveryError, match=r"zookeeper\.connect.*127\.0\.0\.1:1") as caught:
        planned(cluster, **options)
    assert "\n" not in str(caught.value)


def test_a_dead_broker_is_a_data_loss_or_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(CORPUS / "broker0", tmp_path / "0")
    shutil.copytree(CORPUS / "broker1", tmp_path / "1")
    with EmbeddedCluster(brokers=2, log_dirs=[tmp_path / "0", tmp_path / "1"]) as running:
        assert running.zookeeper is not None
        # A broker that is killed leaves its topics behind until its session ends; a broker id
        # that is gone while its topics are there is that state for as long as a test needs it.
        client = KazooClient(running.zookeeper_connect)
        client.start()
        client.create("/brokers/topics/debian-plain/7", b"2")
        try:
            with pytest.raises(
                DataLossError, match=r"broker 7 is not alive and holds 2 of the 8 partitions to read"
            ):
                planned(running)
            with caplog.at_level(logging.WARNING, "spark_kafkawire"):
                assert ranges(planned(running, failOnDataLoss="false")) == WHOLE
            assert "broker 7 is not alive" in caplog.text
        finally:
            client.stop()
            client.close()


@contextlib.contextmanager
def growing_log() -> Iterator[LogServer]:
    """A partition that gets a record with each question about it, which all groups have read at once."""
    with LogServer({"t": [log := MemoryLog(batch([record(0, b"v")]))]}) as server:

        def listed(topic: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
            log.append(batch([record(0, b"v")]))
            response: ListOffsetsPartitionResponse = honest_offsets(topic, asked)
            return replace(response, offset=log.stop_offset - 1) if asked.timestamp >= 0 else response

        def committed(asked: tuple[OffsetFetchTopic, ...] | None) -> tuple[OffsetFetchTopicResponse, ...]:
            log.append(batch([record(0, b"v")]))
            return tuple(
                replace(
                    topic,
                    partitions=tuple(
                        replace(partition, committed_offset=log.stop_offset) for partition in topic.partitions
                    ),
                )
                for topic in honest_commits(asked)
            )

        honest_offsets = server.broker.answer_with(ListOffsetsPartitionResponse, listed)
        honest_commits = server.broker.answer_with(OffsetFetchTopicResponse, committed)
        yield server


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"0": [(0, 3)]}),
        ({"startingTimestamp": "5"}, {}),
        ({"endingTimestamp": "5"}, {"0": [(0, 3)]}),
        ({"startingTimestamp": "5", "endingTimestamp": "6"}, {}),
        ({"startingOffsets": "committed", "kafka.group.id": "g"}, {"0": [(2, 5)]}),
    ],
)
def test_what_comes_while_a_read_is_planned_is_outside_of_it(
    options: dict[str, str], expected: dict[str, list[tuple[int, int]]]
) -> None:
    with growing_log() as server:
        given = {"kafka.bootstrap.servers": server.bootstrap_servers, "subscribe": "t", **options}
        assert ranges(plan(ReadOptions.parse(given))) == expected
    POOL.close_idle()


def test_report_an_end_behind_an_open_transaction_as_such() -> None:
    with LogServer({"t": [MemoryLog(batch([record(i, b"v") for i in range(10)]))]}) as server:

        def until_stable(request: ListOffsetsRequest) -> ListOffsetsResponse:
            response: ListOffsetsResponse = honest(request)
            [topic] = response.topics
            [partition] = topic.partitions
            if request.isolation_level == READ_COMMITTED and partition.offset:
                partition = replace(partition, offset=8)
            return replace(response, topics=(replace(topic, partitions=(partition,)),))

        honest = server.broker.answer_with(ListOffsetsRequest, until_stable)
        given = {
            "kafka.bootstrap.servers": server.bootstrap_servers,
            "subscribe": "t",
            "endingOffsets": '{"t":{"0":10}}',
        }
        assert ranges(plan(ReadOptions.parse(given))) == {"0": [(0, 10)]}
        committed = {**given, "kafka.isolation.level": "read_committed"}
        for more in ({}, {"failOnDataLoss": "false"}):
            with pytest.raises(OptionError, match="offset 10 of t 0 is after 8, the last stable offset"):
                plan(ReadOptions.parse({**committed, **more}))
        with pytest.raises(DataLossError, match=r"offset 11 is not in t 0, which holds \[0, 8\)"):
            plan(ReadOptions.parse({**committed, "endingOffsets": '{"t":{"0":11}}'}))
    POOL.close_idle()


def pattern_on(server: LogServer, **options: str) -> ReadOptions:
    return ReadOptions.parse(
        {
            "kafka.bootstrap.servers": server.bootstrap_servers,
            "subscribePattern": "^t",
            "requestTimeout": "1s",
            "fetchOffset.retryIntervalMs": "1",
            **options,
        }
    )


def described(server: LogServer, broken: dict[str, list[int]]) -> None:
    """Metadata of these topics has these errors, one after the other; the last one stays."""

    def topic(name: str) -> MetadataTopic:
        codes = broken.get(name, [0])
        code = codes.pop(0) if len(codes) > 1 else codes[0]
        whole: MetadataTopic = honest(name)
        return whole if not code else replace(whole, error_code=code, partitions=())

    honest = server.broker.answer_with(MetadataTopic, topic)


def log_of(count: int) -> MemoryLog:
    return MemoryLog(*(batch([record(0, b"v")]) for _ in range(count)))


def test_a_pattern_waits_for_topics_that_brokers_cannot_describe() -> None:
    with LogServer({"t1": [log_of(1)], "t2": [log_of(2)], "other": [log_of(1)]}) as server:
        described(server, {"t2": [5, 5, 5, 0], "other": [5]})
        tasks = plan(pattern_on(server))
        assert {(task.range.topic_partition.topic, task.range.size) for task in tasks} == {
            ("t1", 1),
            ("t2", 2),
        }
        described(server, {"t2": [5]})
        with pytest.raises(BrokerError, match=r"^gave up after .* topic .t2. on .*: the partition has no"):
            plan(pattern_on(server, brokerDownTimeout="1s"))
    POOL.close_idle()


def test_a_pattern_passes_over_a_topic_that_is_deleted_meanwhile() -> None:
    logs = {"t1": [log_of(1)], "t2": [log_of(2)]}
    with LogServer(logs) as server:

        def metadata(request: MetadataRequest) -> MetadataResponse:
            response: MetadataResponse = honest(request)
            if not request.topics:  # once it is listed it goes
                server.broker.logs = {"t1": logs["t1"]}
            return response

        honest = server.broker.answer_with(MetadataRequest, metadata)
        assert {task.range.topic_partition.topic for task in plan(pattern_on(server))} == {"t1"}
        server.broker.logs = logs
        described(server, {"t2": [0, 3]})
        server.broker.answer_with(MetadataRequest, honest)
        # It is listed, and nobody knows it: that proves nothing.
        with pytest.raises(UnknownTopicError, match=r"topic 't2' on .*: the broker has no such partition"):
            plan(pattern_on(server))
    POOL.close_idle()
