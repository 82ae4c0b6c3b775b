"""Batches of streams with delivery=exactly-once, without Spark, against a broker nobody here wrote."""

from __future__ import annotations

import logging
from typing import Any, Final

import pytest

from spark_kafkawire.errors import ConnectFailed
from tests.net.peers import closed_port
from tests.support.exactly_once import OnceBatch, committed
from tests.support.noida import NoidaBroker

from .test_stream_writer import task, writer

PARTITIONS: Final = 2
TASKS: Final = [[(b"a", 0), (b"b", 1)], [(b"c", 1)], []]
VALUES: Final = [b"a", b"b", b"c"]


class Query:
    """Batches of a stream into a topic of its own."""

    def __init__(self, noida: NoidaBroker) -> None:
        self._servers = noida.bootstrap_servers
        self.topic = noida.create_topic(partitions=PARTITIONS)

    def batch(self, number: int, tasks: Any = TASKS, **told: str) -> OnceBatch:
        return OnceBatch(self._servers, self.topic, tasks, number, f"query-{self.topic}", **told)

    def seen(self) -> list[bytes]:
        return committed(self._servers, self.topic, PARTITIONS)


@pytest.fixture
def query(noida: NoidaBroker) -> Query:
    return Query(noida)


def test_a_batch_whose_tasks_all_failed_leaves_nothing_open(
    query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    batch = query.batch(3)
    made = batch.writer()
    batch.message(made, 0)  # what it told was lost with its process
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        batch.writer().abort([None, None, None], 3)
    assert "the write failed: nothing of it is there" in caplog.text
    assert "stays in the logs" not in caplog.text
    # Readers would wait for what is open.
    query.batch(3, [[(b"x", 0)], [(b"y", 1)]]).run_it()
    assert query.seen() == [b"x", b"y"]


@pytest.mark.parametrize("tasks", [[[], []], []], ids=["tasks without rows", "no task"])
def test_a_batch_without_rows_is_none_that_is_written_at_least_once(
    query: Query, caplog: pytest.LogCaptureFixture, tasks: list[list[tuple[bytes, int]]]
) -> None:
    with caplog.at_level(logging.INFO, "spark_kafkawire"):
        query.batch(3, tasks).run_it()
    assert "committed nothing, exactly once" in caplog.text
    assert "batch 3: wrote" not in caplog.text


def test_a_writer_that_could_not_be_made_says_what_stays_open_and_fails_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    options = {"kafka__bootstrap__servers": f"127.0.0.1:{closed_port().port}", "topic": "t", "patience": "0s"}
    made = writer(**options, delivery="exactly-once", kafka__transactional__id="x")
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        made.abort([None, None], 3)
    [told] = [record.getMessage() for record in caplog.records if "batch 3" in record.getMessage()]
    assert told.startswith("batch 3 failed, and what its tasks left open could not be aborted: ")
    assert "kafka.bootstrap.servers" in told
    assert told.isprintable()
    with pytest.raises(ConnectFailed, match=r"^batch 3: .*kafka\.bootstrap\.servers"):
        made.commit([None, None], 3)
    with pytest.raises(ConnectFailed, match=r"^the batch: .*kafka\.bootstrap\.servers"):
        task(made, "a")
