"""Requests that reach Apache Kafka when the write of their attempt has ended: readers wait for nothing.

In the first protocol of transactions a partition joins by AddPartitionsToTxn; in the second one, of Kafka 4,
Produce and TxnOffsetCommit do that, and so begin a transaction where their producer's epoch is valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.late_requests import VALUES, failed_and_late, killed_and_late, open_ids, waiting
from tests.support.write_process import ForkedWrites, WriteProcess

from .apache_cluster import ApacheCluster
from .apache_kafka import ApacheKafka
from .needs import needs_broker
from .versions import NEWEST, newest, replicated

FENCED: Final = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
KILLED: Final = pytest.mark.parametrize("kills_run", [False, True], ids=["attempt", "run"])
#: What begins a transaction, by the protocol of a cluster of this version.
BEGINS: Final[dict[str, Api]] = {"3.9.1": modern.ADD_PARTITIONS_TO_TXN, NEWEST: modern.PRODUCE}
#: Two-phase commits are switched on.
IN_TWO_PHASES: Final = ("transaction.two.phase.commit.enable=true", "unstable.api.versions.enable=true")


@pytest.fixture(scope="module")
def writes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WriteProcess]:
    """Processes that are killed."""
    with ForkedWrites(tmp_path_factory.mktemp("writes")) as forked:
        yield forked


def check(
    kafka: ApacheKafka | ApacheCluster, writes: WriteProcess, api: Api, kills_run: bool, **options: str
) -> None:
    left = killed_and_late(writes, kafka.plain_ports, api, options, kills_run=kills_run)
    assert left.codes
    assert set(left.codes) <= FENCED
    assert (left.open_ids, left.waiting, left.rows) == ([], {}, VALUES)


@replicated
@KILLED
def test_what_begins_a_transaction_is_refused_when_it_comes_late(
    kafka: ApacheKafka | ApacheCluster, writes: WriteProcess, kills_run: bool
) -> None:
    check(kafka, writes, BEGINS[kafka.version], kills_run)


@replicated
@KILLED
def test_rows_and_records_of_one_that_was_open_are_refused_when_they_come_late(
    kafka: ApacheKafka | ApacheCluster, writes: WriteProcess, kills_run: bool
) -> None:
    check(kafka, writes, modern.TXN_OFFSET_COMMIT, kills_run)


@newest
def test_an_attempt_that_fails_gives_its_id_up(kafka: ApacheKafka) -> None:
    servers = kafka.bootstrap_servers()
    topic = librdkafka.create_topic(servers, 2, None, {})
    assert failed_and_late(kafka.plain_ports, topic, {}) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert (open_ids(servers, topic), waiting(servers, topic, 2)) == ([], {})


@KILLED
def test_in_two_phases_no_reader_waits_for_good(
    certificates: Certificates,
    tmp_path_factory: pytest.TempPathFactory,
    writes: WriteProcess,
    kills_run: bool,
) -> None:
    needs_broker(NEWEST)
    with ApacheKafka(NEWEST, tmp_path_factory.mktemp("kafka"), certificates, settings=IN_TWO_PHASES) as kafka:
        check(kafka, writes, modern.PRODUCE, kills_run, twoPhaseCommit="true")
