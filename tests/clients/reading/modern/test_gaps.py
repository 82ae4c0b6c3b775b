"""Fetches that bring no record: what explains that, and records that are gone."""

from __future__ import annotations

import itertools
import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_kafkawire.clients.reading import data_loss
from spark_kafkawire.errors import BrokerError, DataLossError
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.modern import fetch
from spark_kafkawire.protocol.modern.describe_configs import ResourceConfigs
from spark_kafkawire.protocol.modern.limits import (
    NO_TOPIC_ID,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from spark_kafkawire.protocol.modern.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
)
from spark_kafkawire.protocol.modern.metadata import MetadataTopic
from tests.support.fetching import (
    COUNT,
    PARTITION,
    SMALL,
    VALUES,
    CompactedLog,
    altered,
    cluster_of,
    fetcher_of,
    list_offsets_as,
    rows,
    values,
)
from tests.support.log_broker import LEADER_EPOCH, OFFERED
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.mock_cluster import FETCH, MockCluster


def test_a_partition_whose_last_records_are_compacted_away_ends_where_it_was_planned(
    log: MemoryLog, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    with LogServer({"t": [CompactedLog(log)]}) as server, caplog.at_level(logging.WARNING, "spark_kafkawire"):
        server.broker.configs["t"] = {"cleanup.policy": "compact,delete"}
        result = rows(fetcher_of(server.bootstrap_servers, pool, 1960, 1980))
        assert [offset for offset, _ in result] == [*range(1960, 1967), *range(1974, 1980)]
        assert caplog.text == ""
        assert rows(fetcher_of(server.bootstrap_servers, pool, 1995, COUNT)) == []
    assert "t 0 at offset 1995 on broker 0" in caplog.text
    assert "compaction removed all records up to offset 2000" in caplog.text


def test_empty_answers_do_not_prove_that_records_are_gone(
    served: LogServer, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    numbers = itertools.count(1)
    altered(served, lambda _: {"records": b""} if next(numbers) <= 3 else {})
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert values(fetcher_of(served.bootstrap_servers, pool)) == VALUES
    altered(served, lambda _: {"records": b""})
    with pytest.raises(
        BrokerError,
        match=r"^gave up after 4 attempts .*: t 0 at offset 0 on broker 0 .* no record below offset 2000, .*"
        r"; compaction does not explain it, because cleanup.policy is delete; if nothing is missing, end the "
        r"range at 0 \(endingOffsets\)$",
    ):
        values(fetcher_of(served.bootstrap_servers, pool))
    assert caplog.text == ""


def test_a_compacted_topic_is_asked_once_more_before_its_end_is_believed(
    served: LogServer, pool: Pool
) -> None:
    served.broker.configs["t"] = {"cleanup.policy": "compact"}
    numbers = itertools.count(1)
    altered(served, lambda _: {"records": b""} if next(numbers) <= 3 else {})
    fetcher = fetcher_of(served.bootstrap_servers, pool)
    before = served.requests.count(modern.METADATA)
    assert values(fetcher) == VALUES
    assert served.requests.count(modern.METADATA) > before  # who leads it was asked again


def test_an_end_that_the_leader_does_not_confirm_is_waited_for(served: LogServer, pool: Pool) -> None:
    list_offsets_as(served, {LATEST_TIMESTAMP: 1990})
    served.broker.configs["t"] = {"cleanup.policy": "compact"}
    altered(served, lambda _: {"records": b""})
    with pytest.raises(
        BrokerError, match=r"^gave up after 4 .*; the leader reports 1990 as the end of the log$"
    ):
        values(fetcher_of(served.bootstrap_servers, pool))


@pytest.mark.parametrize("refused", ["no right", "too old", "no answer"])
def test_what_cannot_be_seen_is_no_proof_either(log: MemoryLog, pool: Pool, refused: str) -> None:
    offered = {**OFFERED}
    if refused == "too old":
        del offered[modern.DESCRIBE_CONFIGS.key]
    with LogServer({"t": [log]}, offered=offered) as server:
        server.broker.configs["t"] = {"cleanup.policy": "compact"}
        changes: dict[str, Any] = {
            "no right": {"error_code": 29, "configs": ()},
            "no answer": {"configs": ()},
        }
        server.broker.alter(ResourceConfigs, lambda honest, _: replace(honest, **changes.get(refused, {})))
        altered(server, lambda _: {"records": b""})
        reason = {
            "no right": "the user is not authorized for this operation on the topic",
            "too old": "brokers before 0.11 do not report cleanup.policy",
            "no answer": "the response does not contain cleanup.policy",
        }[refused]
        with pytest.raises(
            BrokerError,
            match=rf"might explain it, but cleanup.policy is not known: DescribeConfigs .* 't': {reason}.*; "
            r"allow the user DescribeConfigs, or, if nothing is missing, end the range at 0 \(ending",
        ) as caught:
            values(fetcher_of(server.bootstrap_servers, pool))
        assert "\n" not in str(caught.value)


def test_what_is_compacted_before_an_open_transaction_is_proven_by_its_records(
    log: MemoryLog, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    # Compaction took [1967, 1974), and the transaction begins at 1974.
    open_log = CompactedLog(log)
    with LogServer({"t": [open_log]}) as server:

        def fetched(response: fetch.FetchResponse, request: fetch.FetchRequest) -> fetch.FetchResponse:
            [topic] = response.responses
            [partition] = topic.partitions
            asked = request.topics[0].partitions[0].fetch_offset
            if request.isolation_level == READ_COMMITTED and asked >= 1967:
                partition = replace(partition, records=b"")
            topics = (replace(topic, partitions=(replace(partition, last_stable_offset=1974),)),)
            return replace(response, responses=topics)

        server.broker.alter(fetch.FetchRequest, fetched)
        server.broker.configs["t"] = {"cleanup.policy": "compact"}
        options = replace(SMALL, isolation_level=READ_COMMITTED)
        with caplog.at_level(logging.WARNING, "spark_kafkawire"):
            result = rows(fetcher_of(server.bootstrap_servers, pool, 1960, 1974, options))
        assert [offset for offset, _ in result] == list(range(1960, 1967))
        assert caplog.text == ""
        # A record of the range that comes so is no proof, and not read: it may be of the transaction.
        altered(server, lambda _: {"records": bytes(log.read(1967, 1))})
        server.broker.alter(fetch.FetchRequest, _only_uncommitted)
        with pytest.raises(BrokerError, match=r"^gave up after 4 attempts .*no record below offset 1974"):
            values(fetcher_of(server.bootstrap_servers, pool, 1967, 1974, options))


def _only_uncommitted(response: fetch.FetchResponse, request: fetch.FetchRequest) -> fetch.FetchResponse:
    if request.isolation_level == READ_UNCOMMITTED:
        return response
    [topic] = response.responses
    [partition] = topic.partitions
    return replace(response, responses=(replace(topic, partitions=(replace(partition, records=b""),)),))


@pytest.mark.parametrize(
    "change",
    [{"high_watermark": 1999}, {"high_watermark": -1}, {"throttle_time_ms": 1}],
    ids=["a new leader", "a leader that does not tell", "a quota"],
)
def test_records_that_are_only_late_are_not_taken_for_compacted_ones(
    served: LogServer, pool: Pool, change: dict[str, Any]
) -> None:
    # Compaction could explain it: what the broker says besides is why it does not.
    served.broker.configs |= {PARTITION.topic: {"cleanup.policy": "compact"}}
    altered(served, lambda _: {"records": b"", **change})
    with pytest.raises(
        BrokerError, match=r"^gave up after 4 attempts .*Fetch returned no record below offset 2000"
    ):
        values(fetcher_of(served.bootstrap_servers, pool))


def test_records_in_tiered_storage_are_waited_for(served: LogServer, pool: Pool) -> None:
    list_offsets_as(served, {EARLIEST_LOCAL_TIMESTAMP: 1000})
    altered(served, lambda _: {"records": b""})
    served.broker.configs["t"] = {"cleanup.policy": "compact"}
    with pytest.raises(
        BrokerError, match=r"returned no record where the log has data, up to 1000 in tiered storage"
    ):
        values(fetcher_of(served.bootstrap_servers, pool))
    assert values(fetcher_of(served.bootstrap_servers, pool, start=1000)) == []


def test_a_leader_that_serves_nothing_that_is_due_ends_the_read(served: LogServer, pool: Pool) -> None:
    altered(served, lambda _: {"records": b"", "high_watermark": 1000})
    with pytest.raises(
        BrokerError,
        match=r"^gave up after 4 attempts .* t 0 at offset 1000 on broker 0 .*no record below offset 2000, "
        r"the end of the log when the read was planned; now the broker reports 1000; the log was truncated",
    ):
        values(fetcher_of(served.bootstrap_servers, pool, start=1000))


def test_a_broker_that_gives_nothing_for_lost_offsets_is_a_data_loss(served: LogServer, pool: Pool) -> None:
    # Tansu 0.6 does so, where others answer OFFSET_OUT_OF_RANGE.
    list_offsets_as(served, dict.fromkeys((EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP), 1500))
    altered(served, lambda asked: {} if asked.fetch_offset >= 1500 else {"records": b""})
    with pytest.raises(DataLossError, match=r"records up to 1500 are gone; the log now holds \[1500, 2000\)"):
        values(fetcher_of(served.bootstrap_servers, pool))
    options = replace(SMALL, fail_on_data_loss=False)
    assert values(fetcher_of(served.bootstrap_servers, pool, options=options)) == VALUES[1500:]


def test_a_partition_that_lost_its_end_is_a_data_loss(
    served: LogServer, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    # A leader out of sync was elected: what it has not got is gone.
    with pytest.raises(DataLossError, match=r"records up to 2010 are gone; the log now holds \[0, 2000\)"):
        values(fetcher_of(served.bootstrap_servers, pool, stop=COUNT + 10))
    options = replace(SMALL, fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        result = values(fetcher_of(served.bootstrap_servers, pool, stop=COUNT + 10, options=options))
    assert result == VALUES
    assert "t 0 at offset 2000 on broker 0" in caplog.text
    assert "records up to 2010 are gone" in caplog.text


def loses(written: MockCluster, before_offset: int) -> None:
    written.delete_records("t", 0, before_offset)


def test_offsets_that_retention_took_are_a_data_loss(written: MockCluster, pool: Pool) -> None:
    loses(written, 700)
    with pytest.raises(
        DataLossError,
        match=r"^t 0 at offset 3 on broker 1 .*: records up to 700 are gone; the log now holds \[700, 2000\);"
        r" to read what is left, set failOnDataLoss=false$",
    ):
        values(fetcher_of(written.bootstrap_servers, pool, start=3))


@pytest.mark.parametrize(
    ("start", "stop", "before", "expected"),
    [
        (0, 2000, 700, (700, 2000)),  # what is left is read
        (0, 700, 700, None),  # nothing is left
        (0, 500, 700, None),
        (800, 900, 700, (800, 900)),  # nothing of it was lost
        (1999, 2000, 2000, None),
    ],
)
def test_what_survives_is_read_once_with_a_warning(
    written: MockCluster,
    pool: Pool,
    caplog: pytest.LogCaptureFixture,
    start: int,
    stop: int,
    before: int,
    expected: tuple[int, int] | None,
) -> None:
    loses(written, before)
    options = replace(SMALL, fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        result = rows(fetcher_of(written.bootstrap_servers, pool, start, stop, options))
    first, last = expected or (0, 0)
    assert result == list(zip(range(first, last), VALUES[first:last], strict=True))
    assert ("are gone" in caplog.text) == (start < before)


def test_an_offset_that_is_out_of_range_and_back_is_read(written: MockCluster, pool: Pool) -> None:
    written.push_request_errors(FETCH, 1, 0, 1)
    assert values(fetcher_of(written.bootstrap_servers, pool)) == VALUES


def test_a_gap_at_a_log_start_that_moved_is_a_data_loss(log: MemoryLog, pool: Pool) -> None:
    with LogServer({"t": [CompactedLog(log)]}) as server:
        altered(server, lambda _: {"log_start_offset": 14})
        with pytest.raises(BrokerError, match="Fetch returned no record where the log has data"):
            values(fetcher_of(server.bootstrap_servers, pool, start=7, stop=21))


def test_a_recreated_topic_is_a_data_loss(
    served: LogServer, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    planned = cluster_of(served.bootstrap_servers, pool).leaders_of((PARTITION,))[PARTITION]
    before = replace(planned, topic_id=served.broker.topic_id("of another time"))
    altered(served, lambda _: {"error_code": 100})
    with pytest.raises(
        DataLossError, match=r"records up to 2000 are gone; .*'t' was deleted, and another topic"
    ):
        values(fetcher_of(served.bootstrap_servers, pool, leader=before))
    options = replace(SMALL, fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert values(fetcher_of(served.bootstrap_servers, pool, leader=before, options=options)) == []
    assert "another topic has its name" in caplog.text


@pytest.mark.parametrize("planned", [True, False])
def test_a_topic_whose_id_was_not_known_is_not_another_one(
    served: LogServer, pool: Pool, monkeypatch: pytest.MonkeyPatch, planned: bool
) -> None:
    leader = cluster_of(served.bootstrap_servers, pool).leaders_of((PARTITION,))[PARTITION]
    if planned:  # and brokers that know no ids answer later
        monkeypatch.setattr(served.broker, "topic_id", lambda _: NO_TOPIC_ID)
    else:
        leader = replace(leader, topic_id=None)
    numbers = itertools.count(1)
    altered(served, lambda _: {"error_code": 6 if next(numbers) == 2 else 0})
    assert values(fetcher_of(served.bootstrap_servers, pool, leader=leader)) == VALUES


def test_a_leader_whose_epoch_falls_is_not_read_from(
    served: LogServer, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Before 2.8 topics have no ids; the epochs of one that is made anew begin with 0.
    monkeypatch.setattr(served.broker, "topic_id", lambda _: NO_TOPIC_ID)
    planned = cluster_of(served.bootstrap_servers, pool).leaders_of((PARTITION,))[PARTITION]
    later = replace(planned, epoch=LEADER_EPOCH + 1)
    numbers = itertools.count(1)
    altered(served, lambda _: {"error_code": 75 if next(numbers) == 1 else 0})
    with pytest.raises(
        BrokerError,
        match=r"^gave up after 4 attempts .*: t 0 at offset 0.* leads in epoch 5, below 6 when the "
        r"read was planned: the topic was deleted and created again, or brokers are behind; run again$",
    ):
        values(fetcher_of(served.bootstrap_servers, pool, leader=later))


def test_a_topic_that_no_broker_knows_for_a_while_is_not_gone(
    served: LogServer, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    planned = cluster_of(served.bootstrap_servers, pool).leaders_of((PARTITION,))[PARTITION]
    numbers, logs = itertools.count(1), served.broker.logs
    altered(served, lambda _: {"error_code": 6 if next(numbers) == 1 else 0})
    asked = itertools.count(1)

    def topic(name: str) -> MetadataTopic:
        # Each try asks four times.
        served.broker.logs = {} if next(asked) <= 10 else logs
        described: MetadataTopic = honest(name)
        served.broker.logs = logs
        return described

    honest = served.broker.answer_with(MetadataTopic, topic)
    options = replace(SMALL, fail_on_data_loss=False, retry_timeout_s=60.0)
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        assert values(fetcher_of(served.bootstrap_servers, pool, leader=planned, options=options)) == VALUES
    assert "are gone" not in caplog.text
    assert all(item.endswith("trying again for up to 60 s (brokerDownTimeout)") for item in caplog.messages)


def test_a_topic_that_is_gone_is_a_data_loss(log: MemoryLog, pool: Pool) -> None:
    topics = {"t": [log]}
    with LogServer(topics) as server:
        fetcher = fetcher_of(server.bootstrap_servers, pool)
        altered(server, lambda _: {"error_code": 3})
        del topics["t"]
        server.broker.logs = {"t": [log], **topics}
        server.broker.answer_with(
            MetadataTopic, lambda name: MetadataTopic(error_code=3, name=name, partitions=())
        )
        with pytest.raises(DataLossError, match=r"records up to 2000 are gone; the topic is gone: "):
            values(fetcher)


@pytest.mark.parametrize("start", [0, 3, 7, 13, 14])
def test_offsets_that_compaction_took_are_no_loss(log: MemoryLog, pool: Pool, start: int) -> None:
    stop = COUNT - COUNT % 14
    with LogServer({"t": [CompactedLog(log)]}) as server:
        result = rows(fetcher_of(server.bootstrap_servers, pool, start, stop - 7))
    left = [offset for offset in range(start, stop) if offset % 14 < 7]
    assert result == [(offset, VALUES[offset]) for offset in left]


TESTS = Path(__file__).parents[3]


def test_every_proof_has_its_test() -> None:
    named = set(re.findall(r"\btest_\w+", data_loss.__doc__ or ""))
    there = {
        name for path in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    assert len(named) > 25
    assert named <= there, named - there
