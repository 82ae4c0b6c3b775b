"""Promises of Spark's own connector for a batch read, under the names of its KafkaRelationSuite.

noida-db is the broker, librdkafka and kafka-python write; the reads go through the whole source but
Spark's JVM, whose part ``test_any_spark`` has.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from spark_kafkawire.errors import ConnectFailed, DataLossError, OptionError
from spark_kafkawire.options import option
from tests.net.peers import closed_port
from tests.support import kafka_python, librdkafka
from tests.support.cases import for_each
from tests.support.foreign import CODECS, Record
from tests.support.mock_cluster import MockCluster
from tests.support.noida import NoidaBroker
from tests.support.reading import Read, read, read_values
from tests.support.spark_streams import send

T0 = 1_700_000_000_000
STRATEGY = "startingOffsetsByTimestampStrategy"


def numbers(values: Iterable[int]) -> list[bytes]:
    return sorted(b"%d" % value for value in values)


def by_partition(topic: str, values: dict[int, int]) -> str:
    return json.dumps({topic: {str(partition): value for partition, value in values.items()}})


@pytest.fixture
def topic(noida: NoidaBroker) -> str:
    """Three partitions: 0-9 in the first, 10-19 in the second, 20 in the third."""
    topic = noida.create_topic(partitions=3)
    for partition, values in enumerate((range(10), range(10, 20), [20])):
        send(noida, topic, values, partition)
    return topic


@pytest.fixture
def dated(noida: NoidaBroker) -> str:
    """Two partitions with ten records each, one per second from T0 on."""
    topic = noida.create_topic(partitions=2)
    for partition in range(2):
        for number in range(10):
            send(noida, topic, [10 * partition + number], partition, ms=T0 + 1000 * number)
    return topic


def test_explicit_earliest_to_latest_offsets(noida: NoidaBroker, topic: str) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest", "endingOffsets": "latest"}
    assert read_values(noida.bootstrap_servers, **options) == numbers(range(21))
    send(noida, topic, [21], 2)
    # The next load() sees it.
    assert read_values(noida.bootstrap_servers, **options) == numbers(range(22))


def test_default_starting_and_ending_offsets(noida: NoidaBroker, topic: str) -> None:
    assert read_values(noida.bootstrap_servers, subscribe=topic) == numbers(range(21))


def test_explicit_offsets(noida: NoidaBroker, topic: str) -> None:
    options = {
        "subscribe": topic,
        "startingOffsets": by_partition(topic, {0: -2, 1: 4, 2: 0}),
        "endingOffsets": by_partition(topic, {0: -1, 1: 7, 2: 1}),
    }
    assert read_values(noida.bootstrap_servers, **options) == numbers([*range(10), *range(14, 17), 20])
    # Any offset is a message boundary: no option is to blame where a record is damaged.
    assert {
        (task.start_option, task.stop_option) for task in Read(noida.bootstrap_servers, **options).tasks
    } == {(None, None)}
    send(noida, topic, [21], 2)
    send(noida, topic, [22], 0)
    # -1 has moved, and the fixed end has not.
    assert read_values(noida.bootstrap_servers, **options) == numbers([*range(10), *range(14, 17), 20, 22])


def test_default_starting_and_ending_offsets_with_headers(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=2)
    headers = (("once", b"1"), ("c", b"4"), ("c", b"5"), ("null", None), ("", b""))
    records = [Record(b"none"), Record(b"five", headers=headers), Record(b"other", partition=1)]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    rows = read(noida.bootstrap_servers, subscribe=topic, includeHeaders="true")
    expected = [{"key": key, "value": value} for key, value in headers]
    assert {row["value"]: row["headers"] for row in rows} == {
        b"none": None,
        b"five": expected,
        b"other": None,
    }


#: Options, of which numbers are offsets or seconds after T0, by partition or for all, and the values of the
#: records between them.
TIMES: list[tuple[dict[str, Any], Iterable[int]]] = [
    ({"startingOffsetsByTimestamp": (2, 2.5), "endingOffsetsByTimestamp": (4, 4.5)}, [2, 3, 13, 14]),
    ({"startingOffsetsByTimestamp": (2, 2.5), "endingOffsets": (5, -1)}, [2, 3, 4, *range(13, 20)]),
    ({"startingOffsets": (-2, 1), "endingOffsetsByTimestamp": (1, 3)}, [0, 11, 12]),
    ({"startingOffsetsByTimestamp": (8, 9)}, [8, 9, 19]),
    ({"endingOffsetsByTimestamp": (2, 1)}, [0, 1, 10]),
    ({"startingTimestamp": 3, "endingTimestamp": 5}, [3, 4, 13, 14]),
    # A timestamp for all beats one for each partition, and that beats offsets.
    (
        {
            "startingOffsets": (9, 9),
            "endingOffsets": (10, 10),
            "startingOffsetsByTimestamp": (4, 4),
            "endingOffsetsByTimestamp": (6, 6),
        },
        [4, 5, 14, 15],
    ),
    (
        {
            "startingOffsetsByTimestamp": (4, 4),
            "endingOffsetsByTimestamp": (6, 6),
            "startingTimestamp": 1,
            "endingTimestamp": 2,
        },
        [1, 11],
    ),
]


def test_timestamp_or_offset_provided_for_starting_and_ending(noida: NoidaBroker, dated: str) -> None:
    for options, expected in TIMES:
        given = {"subscribe": dated}
        for name, value in options.items():
            if isinstance(value, tuple):
                numbered = [T0 + int(1000 * item) if "Time" in name else item for item in value]
                given[name] = by_partition(dated, dict(enumerate(numbered)))
            else:
                given[name] = str(T0 + 1000 * value)
        assert read_values(noida.bootstrap_servers, **given) == numbers(expected), options


@pytest.mark.parametrize("option", ["startingTimestamp", "startingOffsetsByTimestamp"])
def test_no_matched_offset_for_timestamp_starting(noida: NoidaBroker, dated: str, option: str) -> None:
    late = T0 + 10_000
    value = str(late) if option == "startingTimestamp" else by_partition(dated, {0: T0, 1: late})
    with pytest.raises(
        OptionError, match=rf"option {option}: no offset matched from request: {dated} \d has"
    ):
        Read(noida.bootstrap_servers, subscribe=dated, **{option: value})
    result = read_values(noida.bootstrap_servers, subscribe=dated, **{option: value, STRATEGY: "latest"})
    assert result == numbers([] if option == "startingTimestamp" else range(10))


@pytest.mark.parametrize("option", ["endingTimestamp", "endingOffsetsByTimestamp"])
def test_no_matched_offset_for_timestamp_ending(noida: NoidaBroker, dated: str, option: str) -> None:
    late = T0 + 10_000
    value = str(late) if option == "endingTimestamp" else by_partition(dated, {0: late, 1: late})
    assert read_values(noida.bootstrap_servers, subscribe=dated, **{option: value}) == numbers(range(20))


def test_timestamps_that_are_latest_and_earliest(noida: NoidaBroker, dated: str) -> None:
    def found(**options: str) -> list[bytes]:
        return read_values(noida.bootstrap_servers, subscribe=dated, **options)

    assert found(startingTimestamp="-1") == []
    assert found(startingTimestamp="-2") == numbers(range(20))
    assert found(endingTimestamp="-1") == numbers(range(20))
    assert found(endingTimestamp="-2") == []
    assert found(startingOffsetsByTimestamp=by_partition(dated, {0: -1, 1: -2})) == numbers(range(10, 20))
    assert found(endingOffsetsByTimestamp=by_partition(dated, {0: -1, 1: -2})) == numbers(range(10))
    mixed = by_partition(dated, {0: T0 + 8000, 1: -1})
    assert found(startingOffsetsByTimestamp=mixed) == numbers([8, 9])


def test_late_binding_start_offsets(noida: NoidaBroker, topic: str) -> None:
    """Records that retention deletes before a load are not missed, whatever was read before."""
    assert read_values(noida.bootstrap_servers, subscribe=topic) == numbers(range(21))
    noida.delete_records(topic, 0, 7)
    assert read_values(noida.bootstrap_servers, subscribe=topic) == numbers(range(7, 21))


def test_the_end_of_a_task_is_one_line_in_the_log(
    noida: NoidaBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "spark_kafkawire"):
        assert len(read(noida.bootstrap_servers, subscribe=topic, minPartitions="3")) == 21
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("read ")]
    count = len(lines)
    assert count >= 3
    assert sum(int(re.findall(r": (\d+) rows? ", line)[0]) for line in lines) == 21
    line = (
        rf"read {topic} \d \[\d+, \d+\): \d+ rows? \(\d+ bytes of columns\) from {noida.bootstrap_servers} in"
    )
    assert [
        line
        for item in lines
        if re.match(rf"{line} \d+\.\d s, \d+\.\d s waiting for {noida.bootstrap_servers}, 0 retries$", item)
    ] == [line] * count


def test_the_line_of_a_task_names_the_broker_that_it_has_waited_for(
    mock_cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    mock_cluster.create_topic("t", partitions=3)
    for partition in range(3):
        mock_cluster.set_leader("t", partition, partition + 1)
    rows = [Record(b"v", partition=partition) for partition in range(3)]
    librdkafka.produce(mock_cluster.bootstrap_servers, "t", rows)
    slow = mock_cluster.bootstrap_servers.split(",")[1]
    with caplog.at_level(logging.INFO, "spark_kafkawire"):
        mock_cluster.set_broker_rtt(2, 300)
        assert len(read(mock_cluster.bootstrap_servers, subscribe="t")) == 3
    [line] = [item for item in caplog.messages if item.startswith("read t 1 ")]
    assert float(re.findall(f"([0-9.]+) s waiting for {slow}", line)[0]) >= 0.3


def test_a_task_near_a_follower_names_both_replicas(
    mock_cluster: MockCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    mock_cluster.create_topic("t", replicas=3)
    mock_cluster.set_leader("t", 0, 1)
    servers = mock_cluster.bootstrap_servers
    librdkafka.produce(servers, "t", [Record(b"%d" % number) for number in range(100)])
    mock_cluster.set_follower("t", 0, 2)
    monkeypatch.setenv("ZONE", "near")
    with caplog.at_level(logging.INFO, "spark_kafkawire"):
        assert len(read(servers, subscribe="t", clientRack="env:ZONE")) == 100
    [line] = [item for item in caplog.messages if item.startswith("read t 0 [0, 100)")]
    assert f"from {', '.join(sorted(servers.split(',')[:2]))} in" in line


def test_fail_on_data_loss_false_has_no_duplicates(
    noida: NoidaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = noida.create_topic()
    send(noida, topic, range(100))
    options = {"subscribe": topic, "failOnDataLoss": "false", "startingOffsets": by_partition(topic, {0: 0})}
    planned_before = Read(noida.bootstrap_servers, minPartitions="4", **options)
    noida.delete_records(topic, 0, 60)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert sorted(planned_before.column("offset")) == list(range(60, 100))
        assert caplog.text.count("are gone") == 3  # all of two tasks, and some of the third
        assert read_values(noida.bootstrap_servers, **options) == numbers(range(60, 100))
    assert f"option startingOffsets: offset 0 is not in {topic} 0, which holds [60, 100)" in caplog.text
    with pytest.raises(DataLossError, match=r"to read what is left, set failOnDataLoss=false"):
        Read(noida.bootstrap_servers, **{**options, "failOnDataLoss": "true"})


@for_each(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "starting offset for t 0 can't be latest (-1) for batch"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "ending offset for t 0 can't be earliest (-2) for batch"),
        ({"startingOffsets": '{"t":{"0":5.0}}'}, 'not of the form earliest or {"t":{"0":123}}'),
        ({"endingOffsets": '{"t":{"0":5.0}}'}, 'not of the form latest or {"t":{"0":123}}'),
        ({"startingTimestamp": "-3"}, "option startingTimestamp: '-3' is not milliseconds since 1970"),
        ({"subscribe": ""}, "subscribe: '' is not a topic or a list of topics"),
        ({"subscribe": None}, "subscribe, subscribePattern and assign: none is set"),
        ({"assign": '{"t":[0]}'}, "subscribe, subscribePattern and assign: subscribe and assign are set"),
        ({"subscribe": None, "assign": '{"t":["0-1"]}'}, 'not of the form {"topicA":[0,1],"topicB":[0,1]}'),
        ({"subscribe": None, "subscribePattern": ""}, "subscribePattern: '' is not a regular expression"),
        ({"startingOffsets": '{"t":{"0-1":5}}'}, 'not of the form earliest or {"t":{"0":123}}'),
        ({"minPartitions": "0"}, "option minPartitions: '0' is not a whole number from 1"),
        (
            {"maxBytesPerPartition": "1g"},
            "option maxBytesPerPartition does not apply to brokers of Kafka 0.8+",
        ),
        ({"kafka__isolation__level": "serializable"}, "is not read_uncommitted or read_committed"),
        ({"KAFKA__auto__OFFSET__reset": "latest"}, "is not supported: startingOffsets says where a query"),
        ({"kafka__enable__auto__commit": "true"}, "is not supported: a read commits no offsets"),
    ],
)
def test_bad_batch_query_options(options: dict[str, str | None], message: str) -> None:
    given = {"subscribe": "t", **options}
    with pytest.raises(OptionError) as caught:
        Read("127.0.0.1:1", **{name: value for name, value in given.items() if value is not None})
    assert message in str(caught.value)


def test_options_of_streams_warn(noida: NoidaBroker, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    option.warn_once.cache_clear()  # each is logged once in a process
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        result = read_values(noida.bootstrap_servers, subscribe=topic, maxOffsetsPerTrigger="1")
    assert result == numbers(range(21))
    assert "option maxOffsetsPerTrigger is for readStream and has no effect in a batch read" in caplog.text


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_kafka_transactions(noida: NoidaBroker, isolation_level: str) -> None:
    """Aborted records and open transactions are there for read_uncommitted only, markers for nobody."""
    topic, servers = noida.create_topic(), noida.bootstrap_servers
    options = {"subscribe": topic, "kafka__isolation__level": isolation_level}
    sees_all = isolation_level == "read_uncommitted"
    librdkafka.commit(servers, topic, [Record(b"%d" % number) for number in range(5)])
    librdkafka.abort(servers, topic, [Record(b"%d" % number) for number in range(5, 10)])
    librdkafka.commit(servers, topic, [Record(b"%d" % number) for number in range(10, 12)])
    with librdkafka.transaction(servers, topic, [Record(b"12"), Record(b"13")], outcome="open"):
        committed = [*range(5), *range(10, 12)]
        assert read_values(servers, **options) == numbers(range(14) if sees_all else committed)
    # Markers take offsets: the last one of the log is one of them.
    rows = read(servers, **options)
    assert [row["offset"] for row in rows if row["value"] in (b"4", b"10")] == [4, 12]
    assert len(rows) == (14 if sees_all else 7)


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_a_range_may_begin_and_end_anywhere_in_transactions(noida: NoidaBroker, isolation_level: str) -> None:
    topic, servers = noida.create_topic(), noida.bootstrap_servers
    for number in range(3):
        librdkafka.commit(servers, topic, [Record(b"c%d" % number)] * 2)
        librdkafka.abort(servers, topic, [Record(b"a%d" % number)] * 2)
    # c0 c0 M a0 a0 M c1 c1 M a1 a1 M c2 c2 M a2 a2 M
    options = {"assign": f'{{"{topic}":[0]}}', "kafka__isolation__level": isolation_level}
    whole = read(servers, **options)
    for cut in range(1, 18, 2):
        first = read(servers, endingOffsets=by_partition(topic, {0: cut}), **options)
        rest = read(servers, startingOffsets=by_partition(topic, {0: cut}), **options)
        assert first + rest == whole
    assert len(whole) == (12 if isolation_level == "read_uncommitted" else 6)


@pytest.mark.parametrize("count", [1, 3, 6, 50])
def test_spark_30656_min_partitions(noida: NoidaBroker, topic: str, count: int) -> None:
    loaded = Read(noida.bootstrap_servers, subscribe=topic, minPartitions=str(count))
    assert len(loaded.tasks) >= min(count, 21)
    assert sorted(loaded.column("value")) == numbers(range(21))


def test_large_partition_is_split(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=5)
    for partition in range(4):
        send(noida, topic, [partition], partition)
    send(noida, topic, range(4, 104), 4)
    loaded = Read(noida.bootstrap_servers, subscribe=topic, minPartitions="2")
    assert [task.range.size for task in loaded.tasks] == [1, 1, 1, 1, 33, 33, 34]
    assert sorted(loaded.column("value")) == numbers(range(104))
    assert len(Read(noida.bootstrap_servers, subscribe=topic).tasks) == 5


def test_spark_49259_max_records_per_partition(noida: NoidaBroker, topic: str) -> None:
    loaded = Read(noida.bootstrap_servers, subscribe=topic, maxRecordsPerPartition="4")
    assert [task.range.size for task in loaded.tasks] == [3, 3, 4, 3, 3, 4, 1]
    assert sorted(loaded.column("value")) == numbers(range(21))


def test_planning_has_retries_of_its_own() -> None:
    nobody = closed_port()
    options = {"retries": "0", "fetchOffset.numRetries": "4", "fetchOffset.retryIntervalMs": "1"}
    with pytest.raises(
        ConnectFailed, match=r"^gave up after 5 attempts in 0\.\d s .*kafka\.bootstrap\.servers"
    ):
        Read(f"{nobody.host}:{nobody.port}", subscribe="t", **options)


def test_topic_partitions_of_start_and_end_must_match(noida: NoidaBroker, topic: str) -> None:
    start, end = by_partition(topic, {0: 0, 1: 0, 2: 0}), by_partition(topic, {0: 1, 1: 1})
    with pytest.raises(OptionError, match=rf"endingOffsets must name exactly .*: {topic} 2 is missing"):
        Read(noida.bootstrap_servers, subscribe=topic, startingOffsets=start, endingOffsets=end)


@pytest.mark.parametrize("option", ["startingOffsets", "startingOffsetsByTimestamp"])
@pytest.mark.parametrize(("named", "problem"), [((0, 1), "2 is missing"), ((0, 1, 2, 3), "3 is not read")])
def test_spark_48383_offsets_must_name_the_assigned_partitions(
    noida: NoidaBroker, topic: str, option: str, named: tuple[int, ...], problem: str
) -> None:
    value = by_partition(topic, dict.fromkeys(named, 0))
    with pytest.raises(OptionError, match=rf"{option} must name exactly .*: {topic} {problem}"):
        Read(noida.bootstrap_servers, subscribe=topic, **{option: value})


def test_unresolved_start_offset_greater_than_end_offset(noida: NoidaBroker, topic: str) -> None:
    start, end = by_partition(topic, {0: 5, 1: 0, 2: 0}), by_partition(topic, {0: 3, 1: 1, 2: 1})
    with pytest.raises(OptionError, match=rf"{topic} 0 would start at 5 and end at 3"):
        Read(noida.bootstrap_servers, subscribe=topic, startingOffsets=start, endingOffsets=end)


def test_assign_skips_invalid_partitions(noida: NoidaBroker, topic: str) -> None:
    assign = json.dumps({topic: [0, 2, 7]})
    assert read_values(noida.bootstrap_servers, assign=assign) == numbers([*range(10), 20])


def test_subscribe_pattern_is_found_anywhere_in_the_name(noida: NoidaBroker) -> None:
    for name in ("pattern-one-x", "pattern-two-x", "other-three-x"):
        noida.create_topic(name=name)
        send(noida, name, [1])
    rows = read(noida.bootstrap_servers, subscribePattern="tern-[a-z]+-x")
    assert sorted(row["topic"] for row in rows) == ["pattern-one-x", "pattern-two-x"]
    assert not {row["topic"] for row in read(noida.bootstrap_servers, subscribePattern=".*[to].*")} & {
        "__consumer_offsets"
    }


def test_subscribe_takes_a_list_with_blanks_and_empty_names(noida: NoidaBroker, topic: str) -> None:
    second = noida.create_topic()
    send(noida, second, [99])
    assert read_values(noida.bootstrap_servers, subscribe=f" {topic}, ,{second},") == numbers(
        [*range(21), 99]
    )


def test_committed_offsets_of_a_group_are_a_start(noida: NoidaBroker, topic: str) -> None:
    librdkafka.commit_offsets(noida.bootstrap_servers, "stood-here", topic, {0: 8, 1: 10, 2: 0})
    options = {"subscribe": topic, "startingOffsets": "committed"}
    result = read_values(noida.bootstrap_servers, kafka__group__id="stood-here", **options)
    assert result == numbers([8, 9, 20])
    with pytest.raises(
        OptionError, match=rf"the group has committed no offset for {topic} 0; commit one, or"
    ):
        Read(noida.bootstrap_servers, kafka__group__id="never-stood", **options)
    with pytest.raises(OptionError, match=r"'committed' needs kafka\.group\.id"):
        Read(noida.bootstrap_servers, **options)


@pytest.mark.parametrize(
    ("produce", "codec"),
    [(librdkafka.produce, codec) for codec in CODECS]
    + [(kafka_python.produce, codec) for codec in kafka_python.CODECS],
)
def test_what_others_write_is_read(noida: NoidaBroker, produce: Callable[..., None], codec: str) -> None:
    topic = noida.create_topic(partitions=2)
    records = [
        Record(
            value=None if number % 7 == 0 else b"%d" % number * (number % 50),
            key=None if number % 5 == 0 and number % 7 else b"k%d" % number,
            headers=(("n", b"%d" % number), ("n", b"")) if number % 3 == 0 else (),
            timestamp_ms=T0 + number,
            partition=number % 2,
        )
        for number in range(2000)
    ]
    produce(noida.bootstrap_servers, topic, records, codec)
    rows = read(noida.bootstrap_servers, subscribe=topic, includeHeaders="true", fetchBytes="16k")
    assert [Record(row["value"], row["key"]) for row in rows if row["partition"] == 0] == [
        Record(record.value, record.key) for record in records[::2]
    ]
    for partition in range(2):
        mine = [row for row in rows if row["partition"] == partition]
        assert [row["offset"] for row in mine] == list(range(1000))
        assert [row["timestamp"].timestamp() * 1000 for row in mine] == [
            pytest.approx(record.timestamp_ms) for record in records[partition::2]
        ]
        assert [row["headers"] for row in mine] == [
            [{"key": key, "value": value} for key, value in record.headers] or None
            for record in records[partition::2]
        ]


def test_spark_27494_null_key_and_value(noida: NoidaBroker) -> None:
    topic = noida.create_topic()
    records = [Record(None), Record(b"", key=b""), Record(None, key=b"k"), Record(b"v")]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    rows = read(noida.bootstrap_servers, subscribe=topic)
    assert [(row["key"], row["value"]) for row in rows] == [(record.key, record.value) for record in records]
