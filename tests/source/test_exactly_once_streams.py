"""Batches of streams with delivery=exactly-once, without Spark, on noida-db."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Sequence
from typing import Any, Final

import pytest

from spark_kafkawire.errors import ConnectFailed, DeliveryError, OptionError
from tests.net.peers import closed_port
from tests.support.exactly_once import OnceBatch, OnceWrite, committed, dying, losing
from tests.support.noida import NoidaBroker
from tests.support.short_and_long import short_and_long
from tests.support.sparks import STREAM_SINKS
from tests.support.streaming import task, writer

pytestmark = STREAM_SINKS

PARTITIONS: Final = 2
TASKS: Final = [[(b"a", 0), (b"b", 1)], [(b"c", 1)], []]
VALUES: Final = [b"a", b"b", b"c"]
#: More requests about transactions than three batches make.
REQUESTS_MAX: Final = 100


class Query:
    """Batches of a stream into a topic of its own."""

    def __init__(self, noida: NoidaBroker) -> None:
        self._servers = noida.bootstrap_servers
        self.topic = noida.create_topic(partitions=PARTITIONS)
        #: The batches that the checkpoint tells to be done.
        self.done: list[int] = []

    def batch(self, number: int, tasks: Any = TASKS, name: str = "", **reported: str) -> OnceBatch:
        return OnceBatch(self._servers, self.topic, tasks, number, name or f"query-{self.topic}", **reported)

    def run(self, batches: Sequence[Any], name: str, run: str) -> None:
        """All batches that are not done yet, one after the other."""
        for number in range(len(self.done), len(batches)):
            self.batch(number, batches[number], name, run=run).run_it()
            self.done.append(number)

    def seen(self) -> list[bytes]:
        return committed(self._servers, self.topic, PARTITIONS)


@pytest.fixture
def query(noida: NoidaBroker) -> Query:
    return Query(noida)


def test_failed_tasks_leave_nothing_open(query: Query, caplog: pytest.LogCaptureFixture) -> None:
    batch = query.batch(3)
    made = batch.writer()
    batch.message(made, 0)  # what it told was lost with its process
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        batch.writer().abort([None, None, None], 3)
    assert "the write failed: nothing of this run is committed" in caplog.text
    assert "stays in the partitions" not in caplog.text
    # Readers would wait for what is open.
    query.batch(3, [[(b"x", 0)], [(b"y", 1)]]).run_it()
    assert query.seen() == [b"x", b"y"]


def test_batch_without_rows(query: Query, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "spark_kafkawire"):
        query.batch(3, [[], []]).run_it()
        query.batch(4, []).run_it()
    assert "committed nothing, exactly once" in caplog.text
    assert "batch 3: wrote" not in caplog.text


def test_writer_without_brokers_says_what_stays_open(caplog: pytest.LogCaptureFixture) -> None:
    options = {
        "kafka__bootstrap__servers": f"127.0.0.1:{closed_port().port}",
        "topic": "t",
        "brokerDownTimeout": "0s",
    }
    made = writer(**options, delivery="exactly-once", kafka__transactional__id="x")
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        made.abort([None, None], 3)
    [reported] = [record.getMessage() for record in caplog.records if "batch 3" in record.getMessage()]
    assert reported.startswith("batch 3 failed, and what its tasks left open could not be aborted: ")
    assert "kafka.bootstrap.servers" in reported
    assert reported.isprintable()
    with pytest.raises(ConnectFailed, match=r"^batch 3: .*kafka\.bootstrap\.servers"):
        made.commit([None, None], 3)
    with pytest.raises(ConnectFailed, match=r"^the batch: .*kafka\.bootstrap\.servers"):
        task(made, "a")


def test_a_batch_all_of_whose_transactions_timed_out_is_said_not_to_be_there(query: Query) -> None:
    batch = query.batch(3)
    messages = batch.messages()
    with contextlib.ExitStack() as stack:
        for message in messages:
            if message.transaction is not None:
                stack.enter_context(losing(message.transaction))
        with pytest.raises(DeliveryError, match="all 2 transactions could not be committed any more: "):
            batch.end(messages)
    assert query.seen() == []
    said = (
        "batch 'the query' 3 is not there: all 2 of its transactions had timed out before they were committed"
    )
    with pytest.raises(DeliveryError, match=said):
        query.batch(4, run="later").run_it()
    query.batch(3, run="later still").run_it()
    assert query.seen() == VALUES


def test_a_task_that_has_no_rows_any_more_is_told_of(query: Query) -> None:
    query.batch(3).run_it()
    with pytest.raises(
        DeliveryError, match=re.escape("had rows in 2 task(s), and now in 1; these are other rows, or")
    ):
        query.batch(3, [TASKS[0], [], []], run="later").run_it()
    with pytest.raises(DeliveryError, match=re.escape("is committed already, and 1 task(s) have more rows")):
        query.batch(3, [TASKS[0], [], TASKS[1]], run="later").run_it()
    query.batch(3, run="later").run_it()
    assert query.seen() == VALUES


#: As the batch was partitioned first: its last two tasks have what was committed and what was not.
THREE: Final = [[(b"a", 0)], [(b"b", 1)], [(b"c", 0)]]


#: The same rows partitioned otherwise, and what is said of that.
OTHERWISE: Final = [
    ([THREE[0], [], [*THREE[1], *THREE[2]]], "had rows in 3 task(s), and now in 2"),
    ([THREE[0], [], []], "had rows in 3 task(s), and now in 1"),
    ([[], THREE[1], THREE[2]], "had rows in 3 task(s), and now in 2"),
    ([THREE[1], THREE[0], THREE[2]], "with as many rows and bytes, but another content"),
    ([*THREE, []], "was begun by 3 task(s), and now there are 4"),
    ([], "is there in part: 1 of its 3 transactions had timed out before they were"),
]


def test_a_batch_that_timed_out_in_part_is_completed_by_the_same_tasks_only(query: Query) -> None:
    batch = query.batch(3, THREE)
    messages = batch.messages()
    # The decision is made, and one of three transactions is gone then.
    lost = pytest.raises(DeliveryError, match="1 of 3 transactions could not be")
    with losing(messages[2].transaction), lost:
        batch.end(messages)
    assert query.seen() == [b"a", b"b"]
    for number, (tasks, message) in enumerate(OTHERWISE):
        with pytest.raises(DeliveryError, match=re.escape(message)):
            query.batch(3, tasks, run=f"later {number}").run_it()
        with pytest.raises(DeliveryError, match="batch 'the query' 3 is there in part: 1 of its 3"):
            query.batch(4, run=f"later {number}").run_it()
        assert query.seen() == [b"a", b"b"]
    query.batch(3, THREE, run="later still").run_it()
    assert query.seen() == [b"a", b"b", b"c"]


def test_a_new_checkpoint_needs_another_name(query: Query) -> None:
    query.batch(3).run_it()
    others: list[Any] = [TASKS, [[], [], TASKS[0]], [[], [], []]]
    for tasks in others:
        other = query.batch(0, tasks, query="another query")
        reported = (
            "batch 'another query' 0 is of another query or write than batch 'the query' 3.*choose one "
        )
        with pytest.raises(
            DeliveryError, match=reported + "for each query: a new checkpoint makes a new query"
        ):
            other.run_it()
    # A write of the name that is no stream, too; and the query itself goes on.
    options = {"kafka.transactional.id": other.name}
    with pytest.raises(OptionError, match=r"^option batch: batch '' is of another query or write than batch"):
        OnceWrite(other.bootstrap_servers, query.topic, TASKS, options).run()
    query.batch(3, run="later").run_it()
    query.batch(4, [[], [(b"x", 0)], []], run="later").run_it()
    assert query.seen() == [*VALUES, b"x"]


def test_a_stream_does_not_follow_a_write_of_its_name(query: Query) -> None:
    batch = query.batch(0)
    write = OnceWrite(
        batch.bootstrap_servers, query.topic, [[(b"x", 0)]], {"kafka.transactional.id": batch.name}
    )
    write.run()
    with pytest.raises(DeliveryError, match="batch 'the query' 0 is of another query or write than batch ''"):
        batch.run_it()
    assert query.seen() == [b"x"]


def test_a_checkpoint_that_was_set_back_is_an_error_also_where_no_task_has_rows_of_it(query: Query) -> None:
    query.batch(3, [[(b"a", 0)], [], []]).run_it()
    query.batch(4, [[(b"b", 0)], [], []]).run_it()
    reported = (
        "batch 'the query' 3 is older than batch 'the query' 4, which is committed: its checkpoint was set "
    )
    with pytest.raises(DeliveryError, match=reported):
        query.batch(3, [[], [(b"a", 0)], []], run="later").run_it()
    assert query.seen() == [b"a", b"b"]


def test_failed_batch_is_not_taken_for_another(query: Query, caplog: pytest.LogCaptureFixture) -> None:
    """The one between has no rows, and so nothing was decided about it."""
    query.batch(3).run_it()
    query.batch(4, [[], [], []]).run_it()
    batch = query.batch(5)
    messages = batch.messages()
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        batch.writer().abort([*messages[:2], None], 5)
    assert "the write failed: nothing of this run is committed" in caplog.text
    query.batch(5, [[(b"x", 0)], [(b"y", 1)], []], run="later").run_it()
    assert query.seen() == [*VALUES, b"x", b"y"]


def test_tasks_of_a_stage_that_was_attempted_again_are_there_once(query: Query) -> None:
    """Spark counts their attempts anew, and those before may still be at work: of the same ids."""
    batch = query.batch(3)
    made = batch.writer()
    batch.message(made, 0)  # lost with its executor
    batch.end([batch.message(made, number) for number in range(3)])
    # One before that is late, and begins its id when the other one is done: the batch is not decided.
    batch = query.batch(4, [[(b"x", 0)], [(b"y", 1)], []])
    messages = batch.messages()
    batch.message(batch.writer(), 0)
    with pytest.raises(DeliveryError, match="is not open any more"):
        batch.end(messages)
    query.batch(4, batch.tasks, run="later").run_it()
    assert query.seen() == [*VALUES, b"x", b"y"]


def test_a_batch_that_was_there_ends_what_late_attempts_of_it_left_open(query: Query) -> None:
    batch = query.batch(3)
    batch.run_it()
    late = query.batch(4, [[(b"late", 0)]])
    late.message(late.writer(), 0, attempt=1)
    query.batch(3, run="later").run_it()
    write = [[(b"x", 0)], [(b"y", 1)]]
    OnceWrite(batch.bootstrap_servers, query.topic, write, {}).run()
    assert query.seen() == [*VALUES, b"x", b"y"]


@short_and_long("step", short=9, long=1)
def test_a_query_that_died_anywhere_has_each_batch_once_when_it_went_on(query: Query, step: int) -> None:
    """Before any request of three batches and after it; the second batch has no rows in some tasks."""
    batches = [TASKS, [[], [], [(b"d", 0)]], [[(b"e", 1)], [(b"f", 0)], []]]
    for mark in range(0, 2 * REQUESTS_MAX, step):
        own = [
            [[(b"%d %s" % (mark, value), to) for value, to in task] for task in tasks] for tasks in batches
        ]
        name = f"died-{query.topic}-{mark}"
        query.done.clear()
        with dying(mark // 2, after_it=mark % 2 == 1) as died:
            query.run(own, name, "first")
        if not died:
            break
        query.run(own, name, "second")
    assert mark > 80
    found = query.seen()
    for each in range(0, mark, step):
        there = [value.split()[1] for value in found if int(value.split()[0]) == each]
        assert there == [*VALUES, b"d", b"e", b"f"], each
