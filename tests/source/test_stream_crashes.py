"""Streams that end at an exact step of a batch, and what moves meanwhile: leaders, logs' starts, partitions.

The first batch's start is the one thing that the checkpoint does not hold, so most of these are about it.
"""

from __future__ import annotations

import json
import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.errors import DataLossError
from spark_kafkawire.model import OffsetRange, TopicPartition
from spark_kafkawire.planner import stream_leaders
from spark_kafkawire.planner.stream_partitions import StreamPartitions
from spark_kafkawire.records.message_set.public import encode_message_set
from tests.support import librdkafka
from tests.support.embedded import produce, wait_registered
from tests.support.foreign import Record
from tests.support.mock_cluster import MockCluster
from tests.support.noida import NoidaBroker
from tests.support.source_process import SourceProcess
from tests.support.streaming import QUICK, Checkpoint, Killed, Query


def send(servers: str, topic: str, *values: bytes, partition: int = 0) -> None:
    librdkafka.produce(servers, topic, [Record(value, partition=partition) for value in values])


def given(servers: str, topic: str, **others: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, **QUICK, "subscribe": topic, **others}


class Moving(Query):
    """A query under which something moves before each step of a batch."""

    move: Callable[[], None] = staticmethod(lambda: None)

    def _construct(self, number: int, killed: str) -> bool:
        self.move()
        return super()._construct(number, killed)

    def _rows(self, start: Any, end: Any) -> list[dict[str, Any]]:
        self.move()
        return super()._rows(start, end)

    def _read(self, reader: Any, partition: Any) -> list[dict[str, Any]]:
        self.move()
        return super()._read(reader, partition)


def test_leaders_that_move_before_any_step_are_followed(mock_cluster: MockCluster) -> None:
    mock_cluster.create_topic("t", partitions=3, replicas=3)
    moves = 0

    def move() -> None:
        nonlocal moves
        moves += 1
        for partition in range(3):
            mock_cluster.set_leader("t", partition, (partition + moves) % 3 + 1)

    checkpoint, sent, found = Checkpoint(), [], []
    query = Moving(
        checkpoint, **given(mock_cluster.bootstrap_servers, "t", startingOffsets="earliest", retries="10")
    )
    query.move = move
    for number in range(4):
        for partition in range(3):
            sent.append(b"%d of %d" % (number, partition))
            send(mock_cluster.bootstrap_servers, "t", sent[-1], partition=partition)
        rows = query.batch()
        assert rows is not None
        found += [row["value"] for row in rows]
    assert sorted(found) == sorted(sent)
    assert moves == 4 * (1 + 1 + 3)


#: Options, what of the records that are there is read, and the partitions that start where they end.
STARTS: dict[str, tuple[dict[str, str], list[bytes], set[int]]] = {
    "latest": ({}, [], {0, 1}),
    "earliest": ({"startingOffsets": "earliest"}, [b"0", b"1", b"10"], set()),
    "offsets": ({"startingOffsets": '{"TOPIC": {"0": 1, "1": -1}}'}, [b"1"], {1}),
    "timestamp": ({"startingTimestamp": "1"}, [b"0", b"1", b"10"], set()),
    "none so young": (
        {"startingTimestamp": "9000000000000", "startingOffsetsByTimestampStrategy": "latest"},
        [],
        {0, 1},
    ),
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("killed", ["planned", "written", "read"])
def test_the_first_batch_starts_where_it_would_have_without_a_crash(
    noida: NoidaBroker, start: str, killed: str
) -> None:
    topic = noida.create_topic(partitions=2)
    send(noida.bootstrap_servers, topic, b"0", b"1")
    send(noida.bootstrap_servers, topic, b"10", partition=1)
    named, before, moving = STARTS[start]
    options = given(noida.bootstrap_servers, topic)
    options |= {name: value.replace("TOPIC", topic) for name, value in named.items()}
    checkpoint = Checkpoint()
    with pytest.raises(Killed):
        Query(checkpoint, **options).batch(killed)
    for partition in range(2):
        send(noida.bootstrap_servers, topic, b"later in %d" % partition, partition=partition)
    # Where nothing was written down, a query that starts at the end begins now.
    begun = moving if killed == "planned" else set()
    later = [b"later in %d" % partition for partition in range(2) if partition not in begun]
    assert Query(checkpoint, **options).all_values() == sorted(before + later)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_partitions_that_come_between_a_crash_and_the_first_commit_are_read_from_their_start(
    noida: NoidaBroker, fail: str
) -> None:
    for starting, expected in (("earliest", [b"0", b"1", b"2"]), ("latest", [b"1", b"2"])):
        topic = noida.create_topic()
        send(noida.bootstrap_servers, topic, b"0")
        options = given(noida.bootstrap_servers, topic, startingOffsets=starting, failOnDataLoss=fail)
        checkpoint = Checkpoint()
        with pytest.raises(Killed):
            Query(checkpoint, **options).batch("written")
        noida.add_partitions(topic, 2)
        send(noida.bootstrap_servers, topic, b"1", partition=1)
        send(noida.bootstrap_servers, topic, b"2")
        assert Query(checkpoint, **options).all_values() == expected


def test_logs_of_07_that_come_between_a_crash_and_the_first_commit_are_read_from_their_start() -> None:
    with EmbeddedCluster(brokers=2, partitions=1) as cluster:
        produce(cluster, "t", encode_message_set([b"0"]))
        wait_registered(cluster, "t")
        options = {"zookeeper.connect": cluster.zookeeper_connect, "subscribe": "t"}
        options["startingOffsets"] = "earliest"
        checkpoint = Checkpoint()
        with pytest.raises(Killed):
            Query(checkpoint, **options).batch("written")
        assert json.loads(checkpoint.offsets[0]).keys() == {"t"}
        produce(cluster, "t", encode_message_set([b"1"]), broker=1)
        wait_registered(cluster, "t", brokers=2)
        assert Query(checkpoint, **options).all_values() == [b"0", b"1"]


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_planning_process_that_is_killed_between_its_calls_plans_the_same_first_batch(
    noida: NoidaBroker, starting: str
) -> None:
    topic = noida.create_topic()
    send(noida.bootstrap_servers, topic, b"0", b"1")
    options = given(noida.bootstrap_servers, topic, startingOffsets=starting)
    with SourceProcess(options) as process:
        end = process.latest_offset(process.initial_offset())  # Spark writes it down
        process.kill()  # before it asks for the start again
    planned = []
    for number in range(2):
        noida.add_partitions(topic, 2 + number)
        send(noida.bootstrap_servers, topic, b"later")
        with SourceProcess(options) as process:
            planned.append(process.partitions(process.initial_offset(), end))
            process.kill()  # before any task has read
    ranges = [[pickle.loads(task).tasks[0].range for task in tasks] for tasks in planned]
    whole = [OffsetRange(TopicPartition(topic, 0), 0, 2)]
    assert ranges == [whole, whole] if starting == "earliest" else ranges == [[], []]
    with SourceProcess(options) as process:  # the batch is done, and the next one begins where it ended
        tasks = process.partitions(end, process.latest_offset(end))
    assert [pickle.loads(task).tasks[0].range for task in tasks] == [
        OffsetRange(TopicPartition(topic, 0), 2, 4)
    ]


# A topic that is deleted between two questions of one batch: after it was seen, before its offsets are


def once_after(patch: pytest.MonkeyPatch, owner: Any, name: str, happens: Callable[[], None]) -> list[int]:
    """Let something happen after the next call of a function has its answer; how often it was called."""
    original, calls = getattr(owner, name), [0]

    def called(*arguments: Any) -> Any:
        found = original(*arguments)
        calls[0] += 1
        if calls[0] == 1:
            happens()
        return found

    patch.setattr(owner, name, called)
    return calls


class Topics:
    """Two topics, both of which a pattern finds; ``doomed`` is deleted sooner or later."""

    def __init__(self, noida: NoidaBroker) -> None:
        self._noida = noida
        self.stays = noida.create_topic()
        self.doomed = f"{self.stays}-doomed"

    def create(self, *values: bytes) -> None:
        self._noida.create_topic(name=self.doomed)
        send(self._noida.bootstrap_servers, self.doomed, *values)

    def delete(self) -> None:
        librdkafka.delete_topic(self._noida.bootstrap_servers, self.doomed)

    def query(self, checkpoint: Checkpoint, fail: str) -> Query:
        given = {"kafka.bootstrap.servers": self._noida.bootstrap_servers, "failOnDataLoss": fail}
        selected = {"subscribePattern": f"^{self.stays}", "startingOffsets": "earliest"}
        return Query(checkpoint, **QUICK, **given, **selected)


@pytest.fixture
def topics(noida: NoidaBroker) -> Topics:
    topics = Topics(noida)
    send(noida.bootstrap_servers, topics.stays, b"1", b"2")
    return topics


def _deleted_after_the_look(
    noida: NoidaBroker, topics: Topics, fail: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Query, list[int]]:
    topics.create(b"a")
    running = topics.query(Checkpoint(), fail)
    assert running.values() == [[b"1", b"2", b"a"]]
    send(noida.bootstrap_servers, topics.stays, b"3")
    return running, once_after(monkeypatch, StreamPartitions, "_there", topics.delete)


def test_a_topic_deleted_right_after_the_look_is_looked_for_again_and_the_query_goes_on(
    noida: NoidaBroker, topics: Topics, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    running, looks = _deleted_after_the_look(noida, topics, "false", monkeypatch)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert running.values() == [[b"3"]]
    assert looks[0] > 1
    [reported] = [each.getMessage() for each in caplog.records if "continuing because" in each.getMessage()]
    assert reported.startswith(f"{topics.doomed} 0 at offset 1 no longer exists")


def test_a_topic_deleted_right_after_the_look_is_a_data_loss(
    noida: NoidaBroker, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, looks = _deleted_after_the_look(noida, topics, "true", monkeypatch)
    with pytest.raises(DataLossError, match=f"^{topics.doomed} 0 at offset 1 no longer exists: "):
        running.batch()
    assert looks[0] > 1


def _deleted_after_its_leader_was_found(
    topics: Topics, fail: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Query, list[int]]:
    """A batch that takes in a new topic was planned, and is run again after a crash: where the new topic
    begins is asked for once more."""
    checkpoint = Checkpoint()
    assert topics.query(checkpoint, fail).values() == [[b"1", b"2"]]
    topics.create(b"a")
    with pytest.raises(Killed):
        topics.query(checkpoint, fail).batch("written")
    return topics.query(checkpoint, fail), once_after(
        monkeypatch, stream_leaders, "leaders_of", topics.delete
    )


def test_a_new_topic_deleted_between_its_leader_and_its_start_is_left_out(
    topics: Topics, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    running, asked = _deleted_after_its_leader_was_found(topics, "false", monkeypatch)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert running.batch() == []
    assert asked[0] > 1
    assert f"{topics.doomed} 0 at offset 0 no longer exists" in caplog.text


def test_a_new_topic_deleted_between_its_leader_and_its_start_is_a_data_loss(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, asked = _deleted_after_its_leader_was_found(topics, "true", monkeypatch)
    with pytest.raises(DataLossError, match=f"^{topics.doomed} 0 at offset 0 no longer exists: "):
        running.batch()
    assert asked[0] > 1
