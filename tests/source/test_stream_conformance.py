"""Promises of Spark's own connector for a stream, under the names of its KafkaMicroBatchSourceSuite.

noida-db is the broker; the queries go through the whole source but Spark's JVM, whose part
``test_streaming_spark`` has.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable

import pytest

from spark_kafkawire.errors import (
    ConnectFailed,
    DataLossError,
    OptionError,
    UnknownTopicError,
)
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import StreamOptions
from spark_kafkawire.planner.stream import StreamPlanner
from spark_kafkawire.planner.stream_offsets import PIN_MARK, Position
from tests.net.peers import closed_port
from tests.support import librdkafka
from tests.support.cases import for_each
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import send
from tests.support.sparks import READ_LIMITS
from tests.support.streaming import QUICK, Checkpoint, Killed, Query, available_now

T0 = 1_700_000_000_000


def numbers(values: Iterable[int]) -> list[bytes]:
    return sorted(b"%d" % value for value in values)


def options(noida: NoidaBroker, topic: str, /, **others: str) -> dict[str, str]:
    selection = {} if {"subscribePattern", "assign"} & others.keys() else {"subscribe": topic}
    return {"kafka.bootstrap.servers": noida.bootstrap_servers, **QUICK, **selection, **others}


def query(noida: NoidaBroker, topic: str, checkpoint: Checkpoint | None = None, /, **others: str) -> Query:
    return Query(checkpoint or Checkpoint(), **options(noida, topic, **others))


@pytest.fixture
def topic(noida: NoidaBroker) -> str:
    """Two partitions with ten records each: 0-9, and 10-19."""
    return filled(noida)


def filled(noida: NoidaBroker) -> str:
    topic = noida.create_topic(partitions=2)
    for partition in range(2):
        send(noida, topic, range(10 * partition, 10 * partition + 10), partition)
    return topic


def selections(topic: str) -> list[dict[str, str]]:
    return [{"subscribe": topic}, {"subscribePattern": f"{topic}$"}, {"assign": json.dumps({topic: [0, 1]})}]


def test_assign_skips_missing(noida: NoidaBroker, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    running = query(noida, topic, assign=json.dumps({topic: [1, 2, 9]}), startingOffsets="earliest")
    assert running.values() == [[b"%d" % value for value in range(10, 20)]]
    noida.add_partitions(topic, 3)
    send(noida, topic, [20], 2)
    assert caplog.messages == [
        f"option assign: {topic} 2, {topic} 9 are left out, as in Spark's own connector; topic {topic} has "
        "2 partitions"
    ]
    assert running.values() == [[b"20"]]
    assert running.values() == []


#: Options of a start, and what is read of a topic of ten records in each of two partitions.
STARTS: dict[str, tuple[dict[str, str], Iterable[int]]] = {
    "latest": ({}, ()),
    "earliest": ({"startingOffsets": "earliest"}, range(20)),
    "specific offsets": ({"startingOffsets": '{"TOPIC": {"0": 7, "1": -1}}'}, (7, 8, 9)),
}


@READ_LIMITS
@for_each("fail", ["true", "false"])
@for_each("number", range(3))
@for_each("start", STARTS)
def test_from_offsets(noida: NoidaBroker, start: str, number: int, fail: str) -> None:
    topic, (given, expected) = filled(noida), STARTS[start]
    given = {name: value.replace("TOPIC", topic) for name, value in given.items()}
    given |= {"failOnDataLoss": fail, **selections(topic)[number]}
    checkpoint = Checkpoint()
    # The first batch begins where it did, whatever comes after a crash.
    with pytest.raises(Killed):
        query(noida, topic, checkpoint, **given).batch("written")
    send(noida, topic, [20], 1)
    running = query(noida, topic, checkpoint, **given)
    assert running.values() == [numbers(expected), [b"20"]]
    send(noida, topic, [21], 1)
    assert running.values() == [[b"21"]]
    assert running.values() == []


@READ_LIMITS
@for_each("fail", ["true", "false"])
@for_each("number", range(3))
@for_each("is_global", [True, False])
def test_from_timestamps(noida: NoidaBroker, number: int, fail: str, is_global: bool) -> None:
    topic = noida.create_topic(partitions=2)
    for second in range(6):
        send(noida, topic, [second], second % 2, T0 + 1000 * second)
    by_partition = {"startingOffsetsByTimestamp": json.dumps({topic: {"0": T0 + 3000, "1": T0 + 3000}})}
    given = {"startingTimestamp": str(T0 + 3000)} if is_global else by_partition
    given |= {"failOnDataLoss": fail, **selections(topic)[number]}
    checkpoint = Checkpoint()
    with pytest.raises(Killed):
        query(noida, topic, checkpoint, **given).batch("written")
    send(noida, topic, [6])
    assert query(noida, topic, checkpoint, **given).values() == [numbers([3, 4, 5]), [b"6"]]


def test_non_matching_timestamp_with_strategy_latest(noida: NoidaBroker, topic: str) -> None:
    given = {"startingTimestamp": "9000000000000"}
    with pytest.raises(OptionError, match="no offset matched from request"):
        query(noida, topic, **given).batch()
    checkpoint = Checkpoint()
    given["startingOffsetsByTimestampStrategy"] = "latest"
    with pytest.raises(Killed):
        query(noida, topic, checkpoint, **given).batch("written")
    send(noida, topic, [20], 0)
    assert query(noida, topic, checkpoint, **given).values() == [[], [b"20"]]


def test_empty_first_batch_pins_the_latest_offsets(noida: NoidaBroker, topic: str) -> None:
    checkpoint = Checkpoint()
    with pytest.raises(Killed):
        query(noida, topic, checkpoint).batch("written")
    send(noida, topic, [20], 0)
    with pytest.raises(Killed):
        query(noida, topic, checkpoint).batch("read")
    send(noida, topic, [21], 1)
    assert query(noida, topic, checkpoint).values() == [[], [b"20", b"21"]]
    assert checkpoint.offsets[0] == json.dumps({topic: {"0": 10, "1": 10}, PIN_MARK: {}})
    assert PIN_MARK not in checkpoint.offsets[1]


def test_first_batch_that_is_gone(noida: NoidaBroker, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint, given = Checkpoint(), {"startingOffsets": "earliest"}
    with pytest.raises(Killed):
        query(noida, topic, checkpoint, **given).batch("written")
    send(noida, topic, range(20, 25))
    noida.delete_records(topic, 0, 12)
    reported = f"{topic} 0 begins at 12 now, but the first batch, which runs again, ends at 10"
    with pytest.raises(DataLossError, match=reported):
        query(noida, topic, checkpoint, **given).batch()
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        lenient = query(noida, topic, checkpoint, **given, failOnDataLoss="false")
        assert lenient.values() == [numbers(range(10, 20)), numbers([22, 23, 24])]
    assert reported in caplog.text
    assert "was changed from" not in caplog.text


def first_batch_of_kafka(topic: str) -> Checkpoint:
    """Of format("kafka"), from 8 to 10 of partition 0, and 6 to 10 of the other; it is not done."""
    return Checkpoint([f'{{"{topic}":{{"0":10,"1":10}}}}'])


def test_a_first_batch_of_another_source_is_not_passed_over(noida: NoidaBroker, topic: str) -> None:
    """Spark's own connector keeps where it starts in a file of its own."""
    checkpoint = first_batch_of_kafka(topic)
    with pytest.raises(
        OptionError, match=f"^checkpointLocation: format..kafka.. planned the first batch.*{topic} 0 starts"
    ) as error:
        query(noida, topic, checkpoint).batch()
    assert str(error.value).isprintable()
    given = {"startingOffsets": json.dumps({topic: {"0": 8, "1": 6}})}
    # Spark takes the same offsets for new ones, for the text has blanks now.
    assert query(noida, topic, checkpoint, **given).values() == [numbers([8, 9, *range(16, 20)]), []]


@READ_LIMITS
@for_each("starting", ["earliest", "latest"])
def test_repeated_first_batch_has_no_new_partitions(noida: NoidaBroker, starting: str) -> None:
    topic, checkpoint = filled(noida), Checkpoint()
    with pytest.raises(Killed):
        query(noida, topic, checkpoint, startingOffsets=starting).batch("written")
    noida.add_partitions(topic, 3)
    send(noida, topic, [20], 2)
    running = query(noida, topic, checkpoint, startingOffsets=starting)
    assert running.values() == [numbers(range(20 if starting == "earliest" else 0)), [b"20"]]


def test_repeated_first_batch_loss(noida: NoidaBroker, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    given = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "10"}
    strict, lenient = Checkpoint(), Checkpoint()
    for checkpoint in (strict, lenient):
        with pytest.raises(Killed):
            query(noida, topic, checkpoint, **given).batch("read")
    noida.delete_records(topic, 1, 2)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"), pytest.raises(Killed):
        query(noida, topic, strict, **given).batch("read")
    assert f"from the first records that still exist, of {topic} 1 from 2" in caplog.text
    noida.delete_records(topic, 1, 7)
    with pytest.raises(DataLossError, match=f"{topic} 1 begins at 7 now, .* ends at 5: the records in"):
        query(noida, topic, strict, **given).batch()
    running = query(noida, topic, lenient, **given, failOnDataLoss="false")
    assert running.all_values() == numbers([*range(10), *range(17, 20)])


def test_the_first_start_does_not_move_between_its_two_calls(noida: NoidaBroker, topic: str) -> None:
    reader = query(noida, topic, startingOffsets="earliest").reader
    first = reader.initialOffset()
    noida.delete_records(topic, 0, 4)
    assert reader.initialOffset() == first == {topic: {"0": 0, "1": 0}}
    assert query(noida, topic).reader.initialOffset() == {topic: {"0": -1, "1": -1}}


@pytest.mark.parametrize("killed", ["planned", "written", "read"])
def test_uncommitted_batch_is_the_same_again(noida: NoidaBroker, topic: str, killed: str) -> None:
    given = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "6"}
    checkpoint, values = Checkpoint(), []
    for number in range(4):
        with pytest.raises(Killed):
            query(noida, topic, checkpoint, **given).batch(killed)
        planned = checkpoint.offsets[number:]
        send(noida, topic, [100 + number], number % 2)
        rows = query(noida, topic, checkpoint, **given).batch() or []
        assert killed == "planned" or checkpoint.offsets[number:] == planned
        ends = json.loads(checkpoint.offsets[number])[topic]
        starts = json.loads(checkpoint.offsets[number - 1])[topic] if number else {"0": 0, "1": 0}
        assert sorted((row["partition"], row["offset"]) for row in rows) == [
            (part, offset) for part in range(2) for offset in range(starts[str(part)], ends[str(part)])
        ]
        values += [row["value"] for row in rows]
    values += query(noida, topic, checkpoint, **given).all_values()
    assert sorted(values) == numbers([*range(20), *range(100, 104)])


def test_max_offsets_per_trigger(noida: NoidaBroker, topic: str) -> None:
    send(noida, topic, range(20, 100), 0)
    given = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "10"}
    running = query(noida, topic, **given)
    first = running.batch()
    assert first is not None
    assert sorted(row["value"] for row in first) == numbers([*range(9), 10])
    rest = running.values()
    assert sorted([*(row["value"] for row in first), *(value for item in rest for value in item)]) == numbers(
        range(100)
    )
    assert max(map(len, rest)) <= 11


def test_min_offsets_per_trigger(noida: NoidaBroker, topic: str) -> None:
    running = query(noida, topic, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="1h")
    assert running.values() == [numbers(range(20))]  # the first one waits for nobody
    send(noida, topic, range(20, 24))
    assert running.batch() is None
    send(noida, topic, [24], 1)
    assert running.values() == [numbers(range(20, 25))]


def test_composite_limits(noida: NoidaBroker, topic: str) -> None:
    given = {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "10", "maxTriggerDelay": "1h"}
    running = query(noida, topic, startingOffsets="earliest", **given)
    assert [len(rows) for rows in running.batches()] == [10, 10]
    send(noida, topic, [20, 21])
    assert running.batch() is None
    send(noida, topic, range(22, 40))
    assert [len(rows) for rows in running.batches()] == [10, 10]


def test_bytes_limit_a_batch_by_the_sizes_of_records(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=2)
    for partition, size in enumerate((1_000, 3_000)):
        for _ in range(10):  # batches of ten records
            records = [Record(b"%d" % partition * size, partition=partition)] * 10
            librdkafka.produce(noida.bootstrap_servers, topic, records)
    given = options(noida, topic, startingOffsets="earliest")
    running = Query(Checkpoint(), **given, maxBytesPerTrigger="100k")
    assert vars(running.reader.getDefaultReadLimit()) == {"max_bytes": 100 << 10}
    *sizes, last = (sum(map(len, values)) for values in running.values())
    assert sum(sizes) + last == 400_000
    assert len(sizes) in (3, 4)
    assert all(80_000 < size < 120_000 for size in sizes)
    assert len(Query(Checkpoint(), True, **given, maxBytesPerTrigger="100k").values()) == 1  # Once
    running = Query(Checkpoint(), **given, maxBytesPerTrigger="100k", maxOffsetsPerTrigger="20")
    assert len(running.values()) == 10


def test_the_trigger_once_heeds_no_limit(noida: NoidaBroker, topic: str) -> None:
    given = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "3", "minOffsetsPerTrigger": "3"}
    assert Query(Checkpoint(), True, **options(noida, topic, **given)).values() == [numbers(range(20))]


def test_available_now_ends_where_the_partitions_ended_at_its_start(noida: NoidaBroker, topic: str) -> None:
    checkpoint = Checkpoint()
    given = options(noida, topic, startingOffsets="earliest", maxOffsetsPerTrigger="6")
    running = available_now(checkpoint, **given)
    assert len(running.batch() or ()) == 6
    send(noida, topic, range(20, 50))
    noida.add_partitions(topic, 3)
    send(noida, topic, range(50, 60), 2)
    assert sum(map(len, running.values())) == 14
    assert sum(map(len, available_now(checkpoint, **given).values())) == 40
    assert available_now(checkpoint, **given).values() == []


def test_available_now_after_a_batch_that_was_not_committed(noida: NoidaBroker, topic: str) -> None:
    checkpoint = Checkpoint()
    given = options(noida, topic, startingOffsets="earliest", maxOffsetsPerTrigger="12")
    with pytest.raises(Killed):
        available_now(checkpoint, **given).batch("read")
    send(noida, topic, range(20, 30))
    assert available_now(checkpoint, **given).all_values() == numbers(range(30))


def test_available_now_of_a_query_from_latest_pins_its_start_and_ends(noida: NoidaBroker, topic: str) -> None:
    checkpoint = Checkpoint()
    running = available_now(checkpoint, **options(noida, topic))
    send(noida, topic, [20])
    assert running.values() == [[]]
    assert available_now(checkpoint, **options(noida, topic)).values() == [[b"20"]]


@READ_LIMITS
@for_each("fail", ["true", "false"])
@for_each("is_new", [False, True])
def test_available_now_fails_where_a_topic_vanishes(noida: NoidaBroker, is_new: bool, fail: str) -> None:
    topic, checkpoint = filled(noida), Checkpoint()
    result = {"subscribePattern": f"{topic}.*", "startingOffsets": "earliest", "failOnDataLoss": fail}
    given = options(noida, topic, **result, maxOffsetsPerTrigger="6")
    if is_new:
        available_now(checkpoint, **given).all_values()
    noida.create_topic(name=f"{topic}-later")
    send(noida, f"{topic}-later", range(10))
    running = available_now(checkpoint, **given)
    if not is_new:
        running.batch()
    librdkafka.delete_topic(noida.bootstrap_servers, f"{topic}-later")
    reported = f"{topic}-later 0 at offset [0-9]+ no longer exists.*the trigger availableNow had planned"
    with pytest.raises(DataLossError, match=reported):
        list(running.batches())


def test_a_new_partition_is_read_from_its_start(noida: NoidaBroker, topic: str) -> None:
    running = query(noida, topic)
    assert running.values() == [[]]
    noida.add_partitions(topic, 4)
    send(noida, topic, [20, 21], 3)
    send(noida, topic, [22], 0)
    assert running.all_values() == numbers([20, 21, 22])


def test_a_new_topic_of_the_pattern_is_read_from_its_start(noida: NoidaBroker, topic: str) -> None:
    running = query(noida, topic, subscribePattern=f"^{topic}(-new)?$")
    assert running.values() == [[]]
    noida.create_topic(name=f"{topic}-new")
    send(noida, f"{topic}-new", [1, 2])
    assert running.all_values() == [b"1", b"2"]


def test_a_pattern_that_matches_nothing_yet_waits(noida: NoidaBroker) -> None:
    checkpoint = Checkpoint()
    running = query(noida, "", checkpoint, subscribePattern="^not-there-yet-[a-z]*$")
    assert running.values() == [[]]
    assert checkpoint.offsets == ["{}"]
    noida.create_topic(name="not-there-yet-a")
    send(noida, "not-there-yet-a", [1])
    assert running.all_values() == [b"1"]
    librdkafka.delete_topic(noida.bootstrap_servers, "not-there-yet-a")


def test_starting_offsets_are_used_for_a_new_query_only(noida: NoidaBroker, topic: str) -> None:
    checkpoint = Checkpoint()
    assert query(noida, topic, checkpoint, startingOffsets="earliest").values() == [numbers(range(20))]
    send(noida, topic, [20])
    for starting in ("latest", "earliest", json.dumps({topic: {"0": 3}}), json.dumps({"gone": {"0": 3}})):
        assert query(noida, topic, checkpoint, startingOffsets=starting).values() in ([[b"20"]], [])


def test_pattern_with_deletions(noida: NoidaBroker, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    doomed = noida.create_topic(name=f"{topic}-doomed")
    send(noida, doomed, [100])
    given = {"subscribePattern": f"^{topic}", "startingOffsets": "earliest"}
    strict, lenient = Checkpoint(), Checkpoint()
    assert query(noida, topic, strict, **given).values() == [numbers([*range(20), 100])]
    assert query(noida, topic, lenient, **given).values() == [numbers([*range(20), 100])]
    librdkafka.delete_topic(noida.bootstrap_servers, doomed)
    send(noida, topic, [20])
    with pytest.raises(
        DataLossError, match=f"{doomed} 0 at offset 1 no longer exists: .*failOnDataLoss=false$"
    ):
        query(noida, topic, strict, **given).batch()
    running = query(noida, topic, lenient, **given, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert running.values() == [[b"20"]]
        assert running.values() == []
    reported = [
        record.getMessage() for record in caplog.records if "continuing because" in record.getMessage()
    ]
    assert len(reported) == 1
    # The topic is made anew: another one, all of which is new.
    noida.create_topic(name=doomed)
    send(noida, doomed, [200, 201, 202])
    assert running.all_values() == numbers([200, 201, 202])


def test_a_subscribed_topic_that_is_deleted(noida: NoidaBroker, topic: str) -> None:
    doomed = noida.create_topic()
    send(noida, doomed, [100])
    given = {"subscribe": f"{topic},{doomed}", "startingOffsets": "earliest"}
    checkpoint = Checkpoint()
    query(noida, topic, checkpoint, **given).values()
    librdkafka.delete_topic(noida.bootstrap_servers, doomed)
    send(noida, topic, [20])
    with pytest.raises(DataLossError, match=f"{doomed} 0 at offset 1 no longer exists"):
        query(noida, topic, checkpoint, **given).batch()
    assert query(noida, topic, checkpoint, **given, failOnDataLoss="false").values() == [[b"20"]]
    with pytest.raises(UnknownTopicError, match=doomed):  # by now nothing of it was to be read
        query(noida, topic, checkpoint, **given).batch()


@pytest.mark.parametrize("fail", ["true", "false"])
def test_retention_under_the_query(noida: NoidaBroker, topic: str, fail: str) -> None:
    checkpoint = Checkpoint()
    query(noida, topic, checkpoint, startingOffsets="earliest").values()
    send(noida, topic, range(20, 30))
    noida.delete_records(topic, 0, 15)
    running = query(noida, topic, checkpoint, failOnDataLoss=fail)
    if fail == "true":
        where = rf"^the batch: {re.escape(topic)} 0 at offset 10 on .*: records up to 15 are gone"
        with pytest.raises(DataLossError, match=where):
            running.batch()
    else:
        assert running.values() == [numbers(range(25, 30))]


def test_a_new_partition_whose_start_is_gone_is_a_data_loss(noida: NoidaBroker, topic: str) -> None:
    checkpoint = Checkpoint()
    query(noida, topic, checkpoint).values()
    noida.add_partitions(topic, 3)
    send(noida, topic, range(30, 35), 2)
    noida.delete_records(topic, 2, 2)
    with pytest.raises(DataLossError, match=rf"{topic} 2 \[0, 2\) of a new partition was deleted"):
        query(noida, topic, checkpoint).batch()
    assert query(noida, topic, checkpoint, failOnDataLoss="false").values() == [numbers([32, 33, 34])]


@pytest.mark.parametrize("offset", [3, 11])
def test_start_outside_of_the_log_is_a_data_loss(noida: NoidaBroker, topic: str, offset: int) -> None:
    noida.delete_records(topic, 0, 5)
    given = {"startingOffsets": json.dumps({topic: {"0": offset, "1": -1}})}
    with pytest.raises(DataLossError, match=rf"offset {offset} is not in {topic} 0, which holds \[5, 10\)"):
        query(noida, topic, **given).batch()
    left = numbers(range(5, 10)) if offset == 3 else []
    assert query(noida, topic, **given, failOnDataLoss="false").values() == [left]


def test_a_start_that_a_group_committed_is_pinned(noida: NoidaBroker, topic: str) -> None:
    group = {"kafka.group.id": f"group-of-{topic}", "startingOffsets": "committed"}
    checkpoint = Checkpoint()
    with pytest.raises(OptionError, match=f"the group has committed no offset for {topic} 0"):
        query(noida, topic, checkpoint, **group).batch()
    commit(noida, group["kafka.group.id"], topic, {0: 4, 1: 10})
    with pytest.raises(Killed):
        query(noida, topic, checkpoint, **group).batch("written")
    commit(noida, group["kafka.group.id"], topic, {0: 9, 1: 10})
    assert query(noida, topic, checkpoint, **group).values() == [[], numbers(range(4, 10))]


def commit(noida: NoidaBroker, group: str, topic: str, offsets: dict[int, int]) -> None:
    librdkafka.commit_offsets(noida.bootstrap_servers, group, topic, offsets)


def test_include_headers_does_not_break_an_old_checkpoint(noida: NoidaBroker, topic: str) -> None:
    checkpoint = Checkpoint()
    query(noida, topic, checkpoint).values()
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"h", headers=(("a", b"1"),))])
    [[row]] = query(noida, topic, checkpoint, includeHeaders="true").batches()
    assert row["headers"] == [{"key": "a", "value": b"1"}]


def test_report_a_checkpoint_of_other_topics(noida: NoidaBroker, topic: str) -> None:
    checkpoint = Checkpoint()
    query(noida, topic, checkpoint).values()
    other = noida.create_topic()
    with pytest.raises(
        OptionError,
        match=f"^checkpointLocation: it holds the offsets of {topic}, which the options do not name",
    ):
        query(noida, other, checkpoint).batch()


def test_a_query_that_goes_on_knows_that_its_cluster_exists() -> None:
    nobody = closed_port()
    raw = {"kafka.bootstrap.servers": f"127.0.0.1:{nobody.port}", "subscribe": "t", "retries": "0"}
    options = StreamOptions.parse(raw)
    bootstrap = options.read.planning_retry.bootstrap
    with pytest.raises(ConnectFailed):
        StreamPlanner(options).initial()
    assert not bootstrap.is_answered
    # The place is of a checkpoint, for nobody has asked where the query starts.
    with pytest.raises(ConnectFailed):
        StreamPlanner(options).next(Position({TopicPartition("t", 0): 7}))
    assert bootstrap.is_answered
