"""Streaming queries as consumers of a group of 0.7: they share a topic, hand it over, and start again.

The group's other members are queries, or nodes that the JVM's consumers have written.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.cluster.v07.groups import ask_to_leave
from spark_kafkawire.cluster.v07.zookeeper_client import SESSION_TIMEOUT_MAX_S
from spark_kafkawire.errors import DiscoveryError, OptionError
from spark_kafkawire.model import Generation
from spark_kafkawire.options import Discovery
from spark_kafkawire.options.selection import PARTITION_SYNTAX
from spark_kafkawire.planner.stream_offsets import from_json
from spark_kafkawire.planner.v07 import GroupPlanner
from spark_kafkawire.records.public import encode_message_set
from spark_kafkawire.source.stream_reader import CONSUMER_MARK
from spark_kafkawire.streaming import stop_between_batches
from tests.support.debian_plain import COUNT, ENDS, NAMES, SECONDS, TOPIC
from tests.support.embedded import produce
from tests.support.polling import poll
from tests.support.source_process import SourceProcess
from tests.support.spark_streams import WAIT_MAX_S
from tests.support.sparks import READ_LIMITS
from tests.support.streaming import Checkpoint, Killed, Query, available_now
from tests.support.zookeeper_tree import expire_session

#: Where a row is: its log, its offset, and its place in a compressed message.
Place = tuple[str, int, int]


class Group:
    """The queries of a test that join the group ``g``, and what ZooKeeper has of it."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self.client = KazooClient(cluster.zookeeper_connect)
        self.client.start()
        self._queries: list[Query] = []
        self.discovery = Discovery(zookeeper_connect=cluster.zookeeper_connect)

    def options(self, **others: str) -> dict[str, str]:
        return {
            "zookeeper.connect": self._cluster.zookeeper_connect,
            "subscribe": TOPIC,
            "groupMembership": "join",
            "kafka.group.id": "g",
            "startingOffsets": "earliest",
            **others,
        }

    def query(self, checkpoint: Checkpoint | None = None, **others: str) -> Query:
        """A query, which leaves with the test where it has not before."""
        query = Query(checkpoint or Checkpoint(), **self.options(**others))
        self._queries.append(query)
        return query

    def available_now(self, checkpoint: Checkpoint, **others: str) -> list[list[Place]]:
        """Rows that a query with the trigger AvailableNow reads before it leaves, batch by batch."""
        query = available_now(checkpoint, **self.options(**others))
        self._queries.append(query)
        result = [places(rows) for rows in query.batches()]
        query.reader.stop()
        return result

    def offsets(self) -> dict[str, int]:
        """Offsets that the group has committed."""
        return {name: int(data) for name, data in self._data("offsets").items()}

    def owners(self) -> dict[str, str]:
        return self._data("owners")

    def ids(self) -> list[str]:
        return sorted(self.client.get_children("/consumers/g/ids"))

    def _data(self, kind: str) -> dict[str, str]:
        root = f"/consumers/g/{kind}/{TOPIC}"
        result = {}
        for name in self.client.get_children(root) if self.client.exists(root) else ():
            with contextlib.suppress(Exception):
                result[name] = self.client.get(f"{root}/{name}")[0].decode()
        return result

    def put(self, path: str, data: str) -> None:
        self.client.ensure_path(f"/consumers/g/{path}")
        self.client.set(f"/consumers/g/{path}", data.encode())

    def close(self) -> None:
        for query in self._queries:
            query.reader.stop()
        self.client.delete("/consumers", recursive=True)
        self.client.stop()
        self.client.close()


@pytest.fixture(autouse=True)
def patient_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that a busy machine starves for some seconds is not taken for dead."""
    monkeypatch.setattr("spark_kafkawire.cluster.v07.member.SESSION_TIMEOUT_S", SESSION_TIMEOUT_MAX_S)


@pytest.fixture
def group(corpus: EmbeddedCluster) -> Iterator[Group]:
    with contextlib.closing(Group(corpus)) as joined:
        yield joined


@pytest.fixture
def group_of_own_partitions(cluster: EmbeddedCluster) -> Iterator[Group]:
    """The same where the test may write."""
    with contextlib.closing(Group(cluster)) as joined:
        yield joined


def places(rows: list[dict[str, Any]] | None) -> list[Place]:
    return [(f"{row['broker']}-{row['partition']}", row["offset"], row["index"]) for row in rows or ()]


def owned(checkpoint: Checkpoint) -> dict[str, int]:
    """Offsets in the checkpoint's last end."""
    return dict(json.loads(checkpoint.offsets[-1]).get(TOPIC, {}))


def read_until(queries: list[Query], count: int) -> Counter[Place]:
    """Rows of queries whose batches take turns, until there are so many, and of one more batch of each."""
    result: Counter[Place] = Counter()

    def turn() -> bool:
        for query in queries:
            result.update(places(query.batch()))
        return result.total() >= count

    poll(turn, f"{count} rows")
    turn()
    return result


def test_a_query_alone_pins_reads_commits_and_leaves(group: Group) -> None:
    checkpoint = Checkpoint()
    query = group.query(checkpoint)
    assert query.batch() == []
    assert owned(checkpoint) == dict.fromkeys(NAMES, 0)
    rows = places(query.batch())
    assert len(rows) == len(set(rows)) == COUNT
    assert query.batch() is None
    # That it was asked for another batch says that the one before is done.
    assert owned(checkpoint) == group.offsets() == ENDS
    [member] = group.ids()
    assert group.owners() == dict.fromkeys(NAMES, f"{member}-0")
    query.reader.stop()
    assert group.ids() == []
    assert group.owners() == {}


def test_available_now_reads_what_is_left(group_of_own_partitions: Group, cluster: EmbeddedCluster) -> None:
    group, checkpoint = group_of_own_partitions, Checkpoint()
    assert [len(rows) for rows in group.available_now(checkpoint)] == [0, COUNT]
    assert group.offsets() == ENDS
    produce(cluster, TOPIC, encode_message_set([b"late"]), partition=2, broker=1)
    # A query of another checkpoint goes on where the group stands.
    assert [len(rows) for rows in group.available_now(Checkpoint())] == [0, 1]
    # And so does the first one: others have read what came.
    assert not any(group.available_now(checkpoint))
    produce(cluster, TOPIC, encode_message_set([b"later"]), partition=2, broker=1)
    assert sum(len(rows) for rows in group.available_now(checkpoint)) == 1


@READ_LIMITS
def test_available_now_waits_for_brokers(group_of_own_partitions: Group) -> None:
    client, root = group_of_own_partitions.client, f"/brokers/topics/{TOPIC}"
    # As after sessions that expired: the brokers serve, and nobody can know that they have the topic.
    registered = {f"{root}/{name}": client.get(f"{root}/{name}")[0] for name in client.get_children(root)}
    for path in registered:
        client.delete(path)

    def register() -> None:
        for path, data in registered.items():
            client.create(path, data)

    late = threading.Timer(1.0, register)
    late.start()
    assert [len(rows) for rows in group_of_own_partitions.available_now(Checkpoint())] == [0, COUNT]
    late.join()
    assert len(registered) == 2


#: Nodes that no live consumer holds, as they remain where a tree was copied or restored.
ABANDONED = {
    "owner": (
        f"owners/{TOPIC}/0-1",
        "ghost-0",
        f"group 'g': node /consumers/g/owners/{TOPIC}/0-1 names the owner 'ghost-0', but no consumer 'ghost' "
        f"is registered in /consumers/g/ids: {TOPIC} 0-1 is not read; remove such a node",
    ),
    "consumer": (
        "ids/ghost",
        f'{{ "{TOPIC}": 1 }}',
        "group 'g': node /consumers/g/ids/ghost registers a consumer but belongs to no ZooKeeper session: "
        "the partitions of that consumer are not read; remove such a node",
    ),
}


@pytest.mark.parametrize("kind", ABANDONED)
def test_available_now_needs_all_partitions(kind: str, group: Group) -> None:
    path, data, reported = ABANDONED[kind]
    group.put(path, data)
    query = group.query(brokerDownTimeout="500ms")
    with pytest.raises(DiscoveryError, match=f"^{re.escape(reported)}.* 0.5 s, option brokerDownTimeout"):
        query.reader.prepareForTriggerAvailableNow()
    query.reader.stop()
    group.client.delete(f"/consumers/g/{path}")
    assert [len(rows) for rows in group.available_now(Checkpoint())] == [0, COUNT]


def test_a_query_that_joins_takes_over_where_the_other_has_read_to(group: Group) -> None:
    first_checkpoint, second_checkpoint = Checkpoint(), Checkpoint()
    first = group.query(first_checkpoint, maxBytesPerTrigger="1")
    assert first.batch() == []
    result = Counter(places(first.batch()))
    assert owned(first_checkpoint) == SECONDS
    second = group.query(second_checkpoint)
    assert second.batch() == []  # the first one holds them all, for its batch may not be done
    assert owned(second_checkpoint) == {}
    result += read_until([first, second], COUNT - result.total())
    assert len(result) == result.total() == COUNT
    assert len(owned(first_checkpoint)) == len(owned(second_checkpoint)) == 3
    second.reader.stop()
    poll(lambda: not first.batch() and owned(first_checkpoint) == ENDS, "the whole topic again")


def test_the_process_of_a_query_that_spark_ends_leaves_at_once(group: Group) -> None:
    with SourceProcess(group.options()) as process:
        end = process.latest_offset(process.initial_offset())
        assert json.loads(end) == {TOPIC: dict.fromkeys(NAMES, 0)}
        assert len(group.owners()) == 6
        process.statistics.terminate()
        process.statistics.wait(120)
        # Not some seconds later, when ZooKeeper misses it.
        assert group.ids() == []
        assert group.owners() == {}


# --- leaving ---


def is_asked_to_leave(query: Query) -> bool:
    planner = query.reader._planner
    assert isinstance(planner, GroupPlanner)
    return planner._member.is_asked_to_leave


def test_a_query_that_is_asked_to_leave_commits_its_batch_and_gives_all_up(group: Group) -> None:
    """A plain end repeated the batch: the group stood where it began, so others read it, and so did the next
    start."""
    checkpoint = Checkpoint()
    query = group.query(checkpoint, maxBytesPerTrigger="1")
    assert query.batch() == []
    result = Counter(places(query.batch()))
    last = owned(checkpoint)
    assert 0 < result.total() < COUNT
    # Spark has planned nothing more: the batch may run still.
    [consumer] = group.ids()
    with ThreadPoolExecutor(1) as pool:
        left = pool.submit(ask_to_leave, group.discovery, 60.0, "g", [consumer])
        poll(lambda: group.client.exists(f"/consumers/g/leaving/{consumer}"), "the request")
        poll(lambda: is_asked_to_leave(query), "the member to know")
        assert (group.ids(), group.offsets()) == ([consumer], dict.fromkeys(NAMES, 0))
        # Spark asks for the next batch, so that one is done.
        assert query.batch() == []
        assert left.result()
    assert (group.ids(), group.owners()) == ([], {})
    assert group.offsets() == last
    assert owned(checkpoint) == {}
    assert query.batch() is None
    query.reader.stop()
    # Others go on behind it, and so does the next start.
    result += Counter(row for rows in group.available_now(Checkpoint()) for row in rows)
    assert len(result) == result.total() == COUNT
    assert not any(group.available_now(checkpoint))


def test_a_request_to_leave_is_withdrawn_after_its_time(group: Group) -> None:
    query = group.query()
    assert query.batch() == []
    [consumer] = group.ids()
    assert not ask_to_leave(group.discovery, 0.1, "g", [consumer])
    poll(lambda: group.client.get_children("/consumers/g/leaving") == [], "the end of the request")
    poll(lambda: not is_asked_to_leave(query), "the member to know")
    assert len(places(query.batch())) == COUNT


def test_the_progress_of_a_query_names_its_consumer(group: Group) -> None:
    query = group.query()
    query.batch()
    assert query.reader.reportLatestOffset() == {f"{CONSUMER_MARK}{group.ids()[0]}": {}}
    query.batch()
    latest = query.reader.reportLatestOffset()
    assert latest == {TOPIC: ENDS, f"{CONSUMER_MARK}{group.ids()[0]}": {}}
    syntax = PARTITION_SYNTAX[Generation.V07]
    assert {tp.name: end for tp, end in from_json(latest, syntax).items()} == ENDS


@READ_LIMITS
@pytest.mark.timeout(900)
def test_a_query_that_is_stopped_between_batches_repeats_none(
    spark: SparkSession, corpus: EmbeddedCluster, corpus_zookeeper: KazooClient, tmp_path: Path
) -> None:
    """``query.stop()`` within a batch had the next start and the other consumers read that batch."""
    group = "stopped-between-batches"
    options = {
        "zookeeper.connect": corpus.zookeeper_connect,
        "subscribe": TOPIC,
        "groupMembership": "join",
        "kafka.group.id": group,
        "startingOffsets": "earliest",
        "maxBytesPerTrigger": "1",
    }
    begun, go_on = threading.Event(), threading.Event()
    written: Counter[tuple[int, int, int, int]] = Counter()

    def write(rows: DataFrame, _: int) -> None:
        written.update(tuple(row) for row in rows.collect())
        if written:
            begun.set()
            assert go_on.wait(WAIT_MAX_S)

    def start(checkpoint: str, *, is_bounded: bool = False) -> StreamingQuery:
        rows = spark.readStream.format("kafkawire").options(**options).load()
        writer = rows.select("broker", "partition", "offset", "index").writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        return (writer.trigger(availableNow=True) if is_bounded else writer).start()

    query = start("first")
    assert begun.wait(WAIT_MAX_S)
    with pytest.raises(OptionError, match="for queries with groupMembership=join"):
        stop_between_batches(query, {"zookeeper.connect": "h:1", "subscribe": TOPIC}, 1)
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(stop_between_batches, query, options, WAIT_MAX_S)
        poll(lambda: corpus_zookeeper.exists(f"/consumers/{group}/leaving"), "the request")
        assert not stopped.done()
        go_on.set()
        assert stopped.result()
    assert not query.isActive
    assert 0 < written.total() < COUNT
    assert corpus_zookeeper.get_children(f"/consumers/{group}/ids") == []
    start("first", is_bounded=True).awaitTermination()
    assert len(written) == written.total() == COUNT


# --- restarts ---


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "spark_kafkawire"]


@pytest.mark.parametrize("killed", ["planned", "written", "read"])
def test_a_query_that_ends_in_the_middle_of_a_batch_goes_on_there(killed: str, group: Group) -> None:
    checkpoint = Checkpoint()
    query = group.query(checkpoint)
    assert query.batch() == []
    with pytest.raises(Killed):
        query.batch(killed)
    query.reader.stop()
    result = [row for rows in group.available_now(checkpoint) for row in rows]
    assert len(result) == len(set(result)) == COUNT


def test_repeated_batch_is_whole_and_reported(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint = Checkpoint()
    query = group.query(checkpoint)
    query.batch()
    with pytest.raises(Killed):
        query.batch("read")
    query.reader.stop()
    assert sum(len(rows) for rows in group.available_now(Checkpoint())) == COUNT
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        again = group.query(checkpoint)
        assert len(places(again.batch())) == COUNT
    [reported] = warnings(caplog)
    assert "may have read parts of it: debian-plain 0-0 from 0 to" in reported
    assert "6 partitions in all" in reported
    assert again.batch() is None


def test_missing_commit_is_made_and_reported(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint = Checkpoint()
    query = group.query(checkpoint)
    query.batch()
    query.batch()
    query.reader.stop()  # before it is asked for another batch
    assert group.offsets() == dict.fromkeys(NAMES, 0)
    again = group.query(checkpoint)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert again.batch() is None
    assert group.offsets() == ENDS
    [reported] = warnings(caplog)
    assert "is behind the checkpoint" in reported
    assert "and 6 partitions differ" in reported


def test_group_that_read_on_is_followed(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint = Checkpoint([json.dumps({TOPIC: dict.fromkeys(NAMES, 0)})], 1)
    for name in NAMES[:2]:
        group.put(f"offsets/{TOPIC}/{name}", str(SECONDS[name]))
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        result = [row for rows in group.available_now(checkpoint) for row in rows]
    assert len(result) == len(set(result))
    assert {name: min(offset for log, offset, _ in result if log == name) for name in NAMES} == {
        name: SECONDS[name] if name in NAMES[:2] else 0 for name in NAMES
    }
    [reported] = warnings(caplog)
    assert "is ahead of the checkpoint" in reported
    assert (
        f"0-0 is at {SECONDS['0-0']} in the group and at 0 in the checkpoint, and 2 partitions differ"
        in reported
    )


def test_lost_session_doubles_nothing(group: Group, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint = Checkpoint()
    query = group.query(checkpoint)
    query.batch()
    query.batch()
    session_id = group.client.get(f"/consumers/g/ids/{group.ids()[0]}")[1].ephemeralOwner
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        expire_session(",".join(f"{host}:{port}" for host, port in group.client.hosts), session_id)
        poll(lambda: any("was lost, and with it 6" in text for text in warnings(caplog)), "the loss")
    # Nobody has read on, so what the query has read is not read again.
    assert query.batch() is None
    assert group.offsets() == ENDS


@pytest.mark.parametrize(
    ("others", "reported"),
    [
        ({"groupMembership": "follow"}, "option groupMembership: 'follow' is not none or join"),
        ({"groupThreads": "0"}, "option groupThreads: '0' is not a whole number from 1"),
        ({"kafka.group.id": "a/b"}, "option kafka.group.id: 'a/b' is not the name of a node"),
        ({"commitOffsets": "true"}, "option commitOffsets: groupMembership=join always commits offsets"),
        (
            {"keyOrder": "true", "partitionLayouts": '{"debian-plain":[{"partitions":{"0":1}}]}'},
            "option keyOrder: with groupMembership=join others read some of the partitions",
        ),
        (
            {"startingOffsets": '{"debian-plain":{"0-0":0}}'},
            "option startingOffsets: with groupMembership=join",
        ),
        ({"startingTimestamp": "1"}, "option startingTimestamp: with groupMembership=join"),
    ],
)
def test_refuse_contradicting_options(others: dict[str, str], reported: str, group: Group) -> None:
    with pytest.raises(OptionError) as error:
        group.query(Checkpoint(), **others)
    assert str(error.value).startswith(reported)
