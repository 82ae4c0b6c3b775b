"""jobs/transactions.py as a user runs it, on noida-db."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.clients.writing.modern.transactional.write_state import (
    BatchId,
    Decision,
    attempt_id,
)
from spark_kafkawire.cluster.modern.transactions import Transaction
from spark_kafkawire.jobs import transactions
from spark_kafkawire.jobs.transactions import TransactionsSurvey
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.modern.transactions import DescribedTransaction, TransactionTopic
from tests.support.exactly_once import OnceWrite, committed, dying
from tests.support.interrupted import (
    REQUESTS_MAX,
    VALUES,
    OfAnyBroker,
    TransactionsJob,
    new_topic,
    once,
)
from tests.support.log_broker import OFFERED
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.noida import NoidaBroker

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "transactions.txt"


@pytest.fixture
def job(noida: NoidaBroker, capsys: pytest.CaptureFixture[str]) -> TransactionsJob:
    return TransactionsJob(noida.bootstrap_servers, capsys)


class TestOnNoida(OfAnyBroker):
    """Interrupted and running writes on noida-db. ``make interop`` has them die at each request."""

    step = 3


def test_the_table_names_transactions_those_who_wait_and_the_decision(job: TransactionsJob) -> None:
    topic = new_topic(job.bootstrap_servers)
    once(job.bootstrap_servers, topic, topic).run()
    other = OnceWrite(
        job.bootstrap_servers, topic, [[(b"x", 1)], []], {"kafka.transactional.id": topic, "batch": "2"}
    )
    made = other.writer()
    left = other.message(made, 0).transaction
    code, out, err = job.run("--transactional-id", topic)
    assert (code, err) == (0, "")
    head, row, _, waiting_head, waiting, _, decision = out.splitlines()
    assert head.split() == ["id", "state", "producer", "epoch", "age", "partitions", "decided"]
    assert row.split()[:4] == [left.id, "Ongoing", f"{left.producer_id}", f"{left.epoch}"]
    assert row.endswith("  no")
    assert waiting_head.split()[:5] == ["topic", "partition", "readers", "wait", "at"]
    assert waiting.split()[:2] == [topic, "1"]
    assert " 1 offset(s) " in waiting
    assert waiting.split()[-2:] == [left.id, "0"]
    assert decision == f"{topic}: batch '', 3 task(s), is committed"
    # Without a name all are told, also those of other writes.
    assert left.id in job.run()[1]
    made.abort([None, None])
    assert "no transaction is open" in job.run("--transactional-id", topic)[1]


def test_a_decision_is_finished_without_force(job: TransactionsJob) -> None:
    for at in range(REQUESTS_MAX):
        topic = new_topic(job.bootstrap_servers)
        with dying(at, after_it=True):
            once(job.bootstrap_servers, topic, topic).run()
        [*decided] = job.reported("--transactional-id", topic)["decisions"]
        if decided and decided[0]["to_commit"]:
            break
    assert len(job.reported("--transactional-id", topic, "--finish")["committed"]) == 2
    assert committed(job.bootstrap_servers, topic, 2) == VALUES


@pytest.mark.parametrize(("looks", "code"), [(2, 0), (1000, 1)])
def test_a_finish_waits_until_nothing_is_ending(
    looks: int, code: int, job: TransactionsJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(job.bootstrap_servers)
    write = once(job.bootstrap_servers, topic, topic)
    message = write.message(write.writer(), 0)
    survey, result = TransactionsSurvey.of, list[TransactionsSurvey]()

    def ends_late(options: WriteOptions, name: str | None, *, needs_list: bool = True) -> TransactionsSurvey:
        """Before the end, and for some looks after it, brokers report the transaction."""
        result.append(survey(options, name, needs_list=needs_list))
        if 1 < len(result) <= 1 + looks:
            [ongoing] = result[0].transactions
            return replace(result[-1], transactions=({**ongoing, "state": "PrepareAbort"},))
        return result[-1]

    monkeypatch.setattr(TransactionsSurvey, "of", ends_late)
    options = ("--transactional-id", topic, "--finish", "--force", "--option=requestTimeout=500")
    exit_code, _, err = job.run(*options)
    assert exit_code == code
    if code:
        assert f"1 transaction(s) are still open, '{message.transaction.id}' first; run again" in err
    else:
        assert len(result) == 2 + looks


def test_report_a_name_and_a_list_that_brokers_do_not_know(job: TransactionsJob) -> None:
    for more in ([], ["--finish", "--force"]):
        code, out, err = job.run("--transactional-id", "unknown", *more)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "know no transaction of 'unknown', and no decision; check its spelling" in err
    offered = {key: versions for key, versions in OFFERED.items() if key != modern.LIST_TRANSACTIONS.key}
    with LogServer({"t": [MemoryLog()]}, offered=offered) as server:
        code, _, err = TransactionsJob(server.bootstrap_servers, job.capsys).run("--transactional-id", "a")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith(
        "transactions: Kafka lists open transactions from 3.0 on; with earlier versions each "
    )


def described(id_: str, state: str, **topics: tuple[int, ...]) -> DescribedTransaction:
    return DescribedTransaction(
        error_code=0,
        transactional_id=id_,
        transaction_state=state,
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=1 << 42,  # its age is 0: no clock is that late
        producer_id=4001,
        producer_epoch=3,
        topics=tuple(TransactionTopic(topic=topic, partitions=own) for topic, own in topics.items()),
    )


def test_the_report_and_its_json_are_as_they_were() -> None:
    own, other = attempt_id("w", 0, "f00d.5.0"), "connect-7"
    open_ = Transaction(own, 4001, 3, 12)
    decision = Decision(7, BatchId("day", 2, is_stream=True), 3, 2, (open_,))
    result = TransactionsSurvey(
        "w",
        tuple(
            transactions.transaction_row(item, {(own, 4001, 3)})
            for item in (described(own, "Ongoing", u=(1,), t=(2, 0)), described(other, "PrepareAbort"))
        ),
        tuple(
            transactions.waiting_row(TopicPartition("t", at), 5, end, (own, other))
            for at, end in ((0, 1_500), (2, 5))
        ),
        {"w": decision, "v": Decision(1, BatchId("x"), 1, 1, lost=1)},
    )
    table, report = "\n".join(transactions.table_of(result)), json.dumps(transactions.json_of(result))
    assert f"{table}\n{report}\n".replace("}, {", "},\n{") == GOLDEN.read_text("utf-8")
