"""Progress that a group follows, and lag: from events in the form of Spark Connect, and from a Spark."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.errors import OptionError
from spark_kafkawire.planner.stream_offsets import ID_MARK
from spark_kafkawire.streaming import GroupOffsets, offsets_behind_latest, progress_offsets
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.polling import DEADLINE_S, poll
from tests.support.query_events import Run, source
from tests.support.spark_streams import WAIT_MAX_S, into_noop, send
from tests.support.spark_streams import run as run_stream
from tests.support.sparks import READ_LIMITS
from tests.support.streaming import Checkpoint, Query


@pytest.fixture
def topic(noida: NoidaBroker) -> str:
    return noida.create_topic()


def options(noida: NoidaBroker, topic: str) -> dict[str, str]:
    connection = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic}
    return {**connection, "kafka.group.id": f"group-of-{topic}"}


def committed(noida: NoidaBroker, topic: str) -> int:
    return librdkafka.committed_offset(noida.bootstrap_servers, f"group-of-{topic}", topic)


def test_group_has_the_offsets_of_the_last_batch(
    noida: NoidaBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "spark_kafkawire")
    group, run = GroupOffsets(options(noida, topic)), Run("copy")
    for end in range(1, 4):
        group.onQueryProgress(run.progress(source({topic: {"0": end}}, {topic: {"0": 9}})))
    group.onQueryTerminated(run.terminated())
    assert group.awaitCommits(run, DEADLINE_S)
    assert committed(noida, topic) == 3
    lines = [record.getMessage() for record in caplog.records]
    assert lines[2] == (
        "query 'copy', batch 7: minOffsetsBehindLatest=6 maxOffsetsBehindLatest=6 avgOffsetsBehindLatest=6.0"
    )


def test_other_sources_and_other_topics_are_nothing_to_the_group(noida: NoidaBroker, topic: str) -> None:
    group, run = GroupOffsets(options(noida, topic)), Run()
    others = [
        source({"events": {"0": 5}}),
        source({topic: {"0": 5}, "events": {"0": 5}}),
        source({topic: {"0-1": 5}}),
        source({"offset": 5}),
        source(5),
        source(None),
        source({topic: {"0": 5}}, description="KafkaV2[Subscribe[t]]"),
    ]
    for other in others:
        group.onQueryProgress(run.progress(other))
    group.onQueryProgress(run.progress(*others, source({topic: {"0": 6}})))
    group.onQueryTerminated(run.terminated())
    assert group.awaitCommits(run, DEADLINE_S)
    assert committed(noida, topic) == 6


def test_of_two_queries_follow_one(noida: NoidaBroker, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    group, first, second = GroupOffsets(options(noida, topic)), Run("first"), Run("second")
    for run, end in ((first, 5), (second, 2), (second, 3)):
        group.onQueryProgress(run.progress(source({topic: {"0": end}})))
    group.onQueryTerminated(first.terminated())
    assert group.awaitCommits(first, DEADLINE_S)
    assert committed(noida, topic) == 5
    [reported] = [record.getMessage() for record in caplog.records]
    assert re.match(
        rf"group 'group-of-{topic}' follows the query {first.id} and not 'second', which", reported
    )
    group.onQueryProgress(second.progress(source({topic: {"0": 6}})))
    group.onQueryTerminated(second.terminated())
    assert group.awaitCommits(second, DEADLINE_S)
    assert committed(noida, topic) == 6


@pytest.mark.parametrize("by", ["name", "id"])
def test_a_query_that_is_named_is_the_one(noida: NoidaBroker, topic: str, by: str) -> None:
    first, second = Run("first"), Run("second")
    group = GroupOffsets(options(noida, topic), query="second" if by == "name" else str(second.id))
    for run, end in ((first, 5), (second, 2)):
        group.onQueryProgress(run.progress(source({topic: {"0": end}})))
        group.onQueryTerminated(run.terminated())
    assert group.awaitCommits(second, DEADLINE_S)
    assert committed(noida, topic) == 2


def test_a_commit_that_failed_is_tried_again_while_the_query_is_idle() -> None:
    with NoidaBroker() as broker:
        topic = broker.create_topic()
        connection = {**options(broker, topic), "requestTimeout": "1s", "retries": "0"}
        group, run = GroupOffsets(connection), Run()
        broker.stop()
        group.onQueryProgress(run.progress(source({topic: {"0": 4}})))
        poll(lambda: not group._commits.settle(0) and group._commits._idle.is_set(), "a commit to fail")
        broker.start()
        group.onQueryIdle(run.idle())
        assert group._commits.settle(DEADLINE_S)
        assert committed(broker, topic) == 4


def test_run_without_a_batch_commits_its_place(noida: NoidaBroker, topic: str) -> None:
    group, run = GroupOffsets(options(noida, topic)), Run()
    run.progress(source({topic: {"0": 8}}))  # which Spark keeps, and tells no listener
    group.onQueryTerminated(run.terminated())
    assert group.awaitCommits(run, DEADLINE_S)
    assert committed(noida, topic) == 8
    without = Run()
    group.onQueryTerminated(without.terminated())
    assert not group.awaitCommits(without, DEADLINE_S)


def test_a_listener_without_a_group_is_refused(noida: NoidaBroker, topic: str) -> None:
    without = {name: value for name, value in options(noida, topic).items() if name != "kafka.group.id"}
    with pytest.raises(OptionError, match=r"^GroupOffsets needs kafka\.group\.id"):
        GroupOffsets(without)


@pytest.mark.parametrize(
    ("end", "latest", "metrics"),
    [
        ({"t": {"0": 5, "1": 7}}, {"t": {"0": 5, "1": 10, "2": 9}}, (0, 9, 4.0)),
        ({"t": {"0-1": 500}}, {"t": {"0-1": 700}}, (200, 200, 200.0)),
    ],
)
def test_report_lag_of_either_generation(end: Any, latest: Any, metrics: tuple[float, ...]) -> None:
    result = offsets_behind_latest(source(end, latest))
    assert result == dict(
        zip(
            ("minOffsetsBehindLatest", "maxOffsetsBehindLatest", "avgOffsetsBehindLatest"),
            metrics,
            strict=True,
        )
    )


def test_offsets_of_a_progress_are_those_of_partitions_alone() -> None:
    for offsets in ({"t": {"0": 5, "1": 7}}, {"t": {"0-1": 500}}):
        written = {**offsets, f"{ID_MARK}t AAAAAAAAAAAAAAAAAAAABw": {}}
        assert progress_offsets(json.dumps(written)) == progress_offsets(str(written)) == offsets
    assert progress_offsets(None) == progress_offsets('{"offset": 3}') == {}


@pytest.mark.parametrize("unknown", [None, "None", {"offset": 3}])
def test_report_no_lag_where_the_latest_offsets_are_unknown(unknown: Any) -> None:
    assert offsets_behind_latest(source({"t": {"0": 5}}, unknown)) == {}


def test_a_source_that_commits_is_a_batch_late(noida: NoidaBroker, topic: str) -> None:
    def more(count: int) -> None:
        librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"v")] * count)

    more(5)
    query = Query(Checkpoint(), **options(noida, topic), commitOffsets="true", startingOffsets="earliest")
    assert [len(rows) for rows in query.batches()] == [5]
    assert committed(noida, topic) < 0
    more(2)
    assert [len(rows) for rows in query.batches()] == [2]
    assert query.reader._commits.settle(DEADLINE_S)
    assert committed(noida, topic) == 5


# Through Spark


@pytest.fixture
def filled(noida: NoidaBroker, topic: str) -> dict[str, str]:
    """Options of a stream of twenty records."""
    send(noida, topic, range(20))
    return {**options(noida, topic), "startingOffsets": "earliest"}


@READ_LIMITS
def test_the_listener_commits_for_a_query(
    spark: SparkSession, noida: NoidaBroker, topic: str, filled: dict[str, str], tmp_path: Path
) -> None:
    group = GroupOffsets(filled)
    spark.streams.addListener(group)
    try:
        # A run that finds nothing new has the group follow, too.
        for _ in range(2):
            query = run_stream(into_noop(spark, filled, tmp_path).trigger(availableNow=True))
            assert group.awaitCommits(query, WAIT_MAX_S)
            assert committed(noida, topic) == 20
        [progress] = query.recentProgress[-1].sources
        assert offsets_behind_latest(progress)["maxOffsetsBehindLatest"] == 0
    finally:
        spark.streams.removeListener(group)
