"""Options of a stream: all of a batch read's but its end, the limits of a batch, and what is refused."""

from __future__ import annotations

import logging
import re

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import (
    COMMITTED,
    EARLIEST,
    LATEST,
    OPTIONS,
    STREAM_OPTIONS,
    LimitKind,
    OffsetLimit,
    ReadOptions,
    StreamLimits,
    StreamOptions,
    kafka_properties,
    read_options_of,
)
from tests.support.cases import for_each

MODERN = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}
V07 = {"broker.list": "0:h:1", "subscribe": "t"}


def stream(given: dict[str, str], base: dict[str, str] = MODERN) -> StreamOptions:
    return StreamOptions.parse({**base, **given})


def test_a_stream_starts_at_the_latest_offsets_unless_it_is_told_where() -> None:
    assert stream({}).read.starting.for_all == LATEST
    assert stream({}, V07).read.starting.for_all == LATEST
    assert ReadOptions.parse(MODERN).starting.for_all == EARLIEST
    assert stream({"startingOffsets": "earliest"}).read.starting.for_all == EARLIEST
    assert stream({"startingOffsets": " Latest"}).read.starting.for_all == LATEST
    assert stream({"startingOffsets": "committed"}).read.starting.for_all == COMMITTED
    assert stream({"startingTimestamp": "5"}).read.starting.for_all == OffsetLimit(LimitKind.TIMESTAMP, 5)
    given = stream({"startingOffsets": '{"t":{"0":-1,"1":-2,"2":7}}'}).read.starting.by_partition
    assert [given[TopicPartition("t", number)] for number in range(3)] == [
        LATEST,
        EARLIEST,
        OffsetLimit(LimitKind.OFFSET, 7),
    ]


@pytest.mark.parametrize(
    ("word", "meant"),
    [("beginning", "earliest"), ("END", "latest"), ("largest", "latest"), ("commited", "committed")],
)
def test_a_word_of_other_clients_is_told_with_ours(word: str, meant: str) -> None:
    with pytest.raises(OptionError, match=f"'{word}' is not .*; did you mean {meant}\\?"):
        stream({"startingOffsets": word})


@pytest.mark.parametrize(
    ("given", "base", "limits"),
    [
        ({}, MODERN, StreamLimits(None, None, 900.0)),
        ({"maxOffsetsPerTrigger": "9223372036854775807"}, MODERN, StreamLimits((1 << 63) - 1)),
        (
            {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "5", "maxTriggerDelay": "10s"},
            MODERN,
            StreamLimits(5, 5, 10.0),
        ),
        ({"MAXBYTESPERTRIGGER": "1g"}, V07, StreamLimits(1 << 30)),
        ({"maxTriggerDelay": "1d"}, MODERN, StreamLimits(delay_max_s=86_400.0)),
        ({"maxTriggerDelay": "30d"}, MODERN, StreamLimits(delay_max_s=30 * 86_400.0)),
        ({"maxTriggerDelay": "7us"}, MODERN, StreamLimits(delay_max_s=7e-6)),
    ],
)
def test_limits_of_a_batch_are_parsed(
    given: dict[str, str], base: dict[str, str], limits: StreamLimits
) -> None:
    assert stream(given, base).limits == limits


@for_each(
    ("given", "base", "reported"),
    [
        ({"endingOffsets": "latest"}, MODERN, "option endingOffsets is for batch reads: a stream has no end"),
        ({"endingTimestamp": "5"}, MODERN, "option endingTimestamp is for batch reads"),
        ({"endingOffsetsByTimestamp": "{}"}, V07, "option endingOffsetsByTimestamp is for batch reads"),
        (
            {"maxOffsetsPerTrigger": "0"},
            MODERN,
            "option maxOffsetsPerTrigger: '0' is not a whole number from 1",
        ),
        ({"maxOffsetsPerTrigger": "-5"}, MODERN, "option maxOffsetsPerTrigger: '-5' is not"),
        ({"minOffsetsPerTrigger": "many"}, MODERN, "option minOffsetsPerTrigger: 'many' is not"),
        ({"maxTriggerDelay": "0s"}, MODERN, "option maxTriggerDelay: '0s' is not a time above zero"),
        ({"maxTriggerDelay": "1 week"}, MODERN, "option maxTriggerDelay: '1 week' is not a time above zero"),
        (
            {"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"},
            MODERN,
            "option minOffsetsPerTrigger: 6 is more than maxOffsetsPerTrigger=5",
        ),
        ({"maxBytesPerTrigger": "1m"}, MODERN, "option maxBytesPerTrigger does not apply to Kafka"),
        ({"maxBytesPerTrigger": "0"}, V07, "option maxBytesPerTrigger: '0' is not a size from 1"),
        ({"maxOffsetsPerTrigger": "5"}, V07, "option maxOffsetsPerTrigger does not apply to Kafka 0.7"),
        ({"minOffsetsPerTrigger": "5"}, V07, "option minOffsetsPerTrigger does not apply to Kafka 0.7"),
        (
            {"startingOffsets": '{"t":{"0":-3}}'},
            MODERN,
            "starting offset for t 0 can't be negative (-3); give",
        ),
        ({"startingOffsets": "newest"}, MODERN, "option startingOffsets: 'newest' is not of the form"),
        ({"topic": "t"}, MODERN, "option topic is for writing, not for a stream"),
        (
            {"maxOffsetPerTrigger": "5"},
            MODERN,
            "unknown option maxOffsetPerTrigger for a stream; did you mean ",
        ),
    ],
)
def test_what_a_stream_refuses_is_told_in_one_line(
    given: dict[str, str], base: dict[str, str], reported: str
) -> None:
    with pytest.raises(OptionError, match=re.escape(reported)) as error:
        stream(given, base)
    assert str(error.value).isprintable()


V07_GROUP = {"zookeeper.connect": "h:1", "subscribe": "t", "kafka.group.id": "etl"}


def test_a_group_follows_a_stream_of_either_generation_where_it_is_told_to() -> None:
    assert not stream({"kafka.group.id": "etl"}).commits_offsets
    assert stream({"kafka.group.id": "etl", "commitOffsets": "TRUE"}).commits_offsets
    of_07 = stream({"commitOffsets": "true"}, V07_GROUP)
    assert (of_07.commits_offsets, of_07.read.group_id) == (True, "etl")
    assert stream({}, V07_GROUP).read.group_id == "etl"
    assert read_options_of(V07_GROUP).group_id == "etl"
    with pytest.raises(OptionError, match=r"option kafka\.group\.id does not apply to Kafka 0\.7"):
        ReadOptions.parse(V07_GROUP)


@pytest.mark.parametrize(
    ("given", "base", "reported"),
    [
        ({}, MODERN, "commitOffsets needs the option kafka.group.id, the group to commit to"),
        ({"kafka.group.id": " "}, MODERN, "option kafka.group.id: ' ' is not the name of a consumer group"),
        ({"commitOffsets": "yes"}, MODERN, "option commitOffsets: 'yes' is not true or false"),
        (
            {"kafka.group.id": "etl"},
            V07,
            "commitOffsets: 0.7 keeps groups in ZooKeeper; set zookeeper.connect",
        ),
        ({"kafka.group.id": "a/b"}, V07_GROUP, "option kafka.group.id: 'a/b' is not the name of a node"),
        ({"kafka.group.id": ".."}, V07_GROUP, "option kafka.group.id: '..' is not the name of a node"),
    ],
)
def test_a_group_that_nobody_can_commit_to_is_told_before_the_query_starts(
    given: dict[str, str], base: dict[str, str], reported: str
) -> None:
    with pytest.raises(OptionError, match=re.escape(reported)):
        stream({"commitOffsets": "true", **given}, base)


def test_a_broker_that_is_away_for_a_minute_is_waited_for() -> None:
    assert stream({}).read.net.retry.retry_timeout_s == stream({}).read.planning_retry.retry_timeout_s == 120
    assert stream({"brokerDownTimeout": "5s"}).read.net.retry.retry_timeout_s == 5
    assert stream({"retries": "1"}).read.net.retry.retry_timeout_s == 0
    assert ReadOptions.parse(MODERN).net.retry.retry_timeout_s == 60


def test_every_option_of_a_batch_read_is_taken_or_refused_as_such() -> None:
    assert {option.name for option in OPTIONS if not option.stream} == {
        "endingOffsets",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
        *("path", "paths", "brokers", "fs.endpoint", "fs.region"),
    }
    assert all(option.read and not option.write for option in STREAM_OPTIONS)


def test_batch_reads_pass_over_the_limits_of_streams(caplog: pytest.LogCaptureFixture) -> None:
    kafka_properties._warn.cache_clear()  # each is told once in a process
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        ReadOptions.parse({**MODERN, "maxoffsetspertrigger": "1", "maxTriggerDelay": "1"})
    assert [record.getMessage() for record in caplog.records] == [
        f"option {name} has no effect in kafkawire and is ignored"
        for name in ("maxOffsetsPerTrigger", "maxTriggerDelay")
    ]


def test_a_load_that_may_be_of_either_is_checked_when_it_begins(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert read_options_of({**MODERN, "startingOffsets": "latest"}).starting.for_all == LATEST
        assert read_options_of(
            {**MODERN, "endingOffsets": "latest", "includeHeaders": "true"}
        ).include_headers
        read_options_of({**MODERN, "maxOffsetsPerTrigger": "5"})
    assert not caplog.records
    for given, reported in [
        ({"includeHeaders": "maybe"}, "option includeHeaders: 'maybe'"),
        ({"maxOffsetsPerTrigger": "x"}, "option maxOffsetsPerTrigger: 'x'"),
        ({"endingOffsets": "earliest"}, "option endingOffsets: 'earliest'"),
    ]:
        with pytest.raises(OptionError, match=reported):
            read_options_of({**MODERN, **given})
