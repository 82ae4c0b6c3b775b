"""jobs/offsets.py on Apache Kafka itself: its report, and its refusals to change a group."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.offsets.importing import import_offsets
from spark_kafkawire.jobs.offsets.survey import Surveyed
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.pool import POOL
from tests.support import librdkafka
from tests.support.foreign import Record

from .apache_kafka import NEW_PROTOCOL_SINCE, ApacheKafka

TIMES_MS = (1_700_000_005_000, 1_700_000_009_000, 1_700_000_001_000)


@pytest.fixture(autouse=True)
def no_kept_connections() -> Iterator[None]:
    yield
    POOL.close_idle()


@pytest.fixture
def topic(kafka: ApacheKafka) -> str:
    """Three records in the first of two partitions, where its group stands at the second one."""
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, 2, None, {"retention.ms": "-1"})
    records = [Record(b"v", partition=0, timestamp_ms=time_ms) for time_ms in TIMES_MS]
    librdkafka.produce(servers, topic, records)
    librdkafka.commit_offsets(servers, group_of(topic), topic, {0: 1})
    return topic


def group_of(topic: str) -> str:
    return f"group-of-{topic}"


def surveyed(kafka: ApacheKafka, **options: str) -> Surveyed:
    return Surveyed.of({"kafka.bootstrap.servers": kafka.bootstrap_servers(), **options})


def quiet(_what: str) -> None:
    """Progress that nobody sees."""


def test_logs_are_told_with_times_and_lag(kafka: ApacheKafka, topic: str) -> None:
    report = surveyed(kafka, subscribe=topic).report([group_of(topic)], quiet)
    first, empty = report.partitions
    assert (first.topic_partition, first.size) == (TopicPartition(topic, 0), 3)
    assert (first.first_time_ms, first.max_time_ms) == (TIMES_MS[0], TIMES_MS[1])
    assert (first.positions[0].committed, first.positions[0].lag) == (1, 2)
    assert (empty.size, empty.first_time_ms, empty.max_time_ms, empty.committed) == (0, None, None, (None,))


def test_offsets_go_out_and_come_back(kafka: ApacheKafka, topic: str) -> None:
    assert surveyed(kafka, subscribe=topic).groups_with_offsets(quiet) == (group_of(topic),)
    report = surveyed(kafka).report([group_of(topic)], quiet)
    [entry] = report.group_offsets()
    assert (entry.topic_partition, entry.offset) == (TopicPartition(topic, 0), 1)
    text = f"{entry.group},{topic},0,3\n"
    [change] = import_offsets(surveyed(kafka), text, (), dry_run=False, step=quiet)
    assert (change.before, change.entry.offset, change.note) == (1, 3, "")
    assert librdkafka.committed_offset(kafka.bootstrap_servers(), group_of(topic), topic) == 3


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_left_alone(kafka: ApacheKafka, topic: str, protocol: str) -> None:
    if protocol == "consumer" and kafka.version < NEW_PROTOCOL_SINCE:
        pytest.skip("brokers before 4.0 do not coordinate groups themselves")
    group, servers, partition = group_of(topic), kafka.bootstrap_servers(), TopicPartition(topic, 0)
    text = f"{group},{topic},0,0\n"
    with librdkafka.member(servers, group, topic, group_protocol=protocol):
        for dry_run in (True, False):
            with pytest.raises(
                OptionError, match=rf"group '{group}' has 1 member, '[^']+' first, .*: stop them, or leave"
            ):
                import_offsets(surveyed(kafka), text, (), dry_run=dry_run, step=quiet)
        # One that came after the look for members.
        with pytest.raises(OptionError, match=rf"group '{group}' .*: the group has members, .* stop them"):
            surveyed(kafka).cluster.groups.commit(group, {partition: 0})
    assert librdkafka.committed_offset(servers, group, topic) == 1
    assert len(import_offsets(surveyed(kafka), text, (), dry_run=False, step=quiet)) == 1
    assert librdkafka.committed_offset(servers, group, topic) == 0
