"""jobs/transactions.py as a user runs it, on noida-db."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_kafkawire.jobs.transactions import TransactionsSurvey
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol import modern
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
    survey, found = TransactionsSurvey.of, list[TransactionsSurvey]()

    def ends_late(options: WriteOptions, name: str | None, *, needs_list: bool = True) -> TransactionsSurvey:
        """Before the end, and for some looks after it, brokers report the transaction."""
        found.append(survey(options, name, needs_list=needs_list))
        if 1 < len(found) <= 1 + looks:
            [ongoing] = found[0].transactions
            return replace(found[-1], transactions=(replace(ongoing, state="PrepareAbort"),))
        return found[-1]

    monkeypatch.setattr(TransactionsSurvey, "of", ends_late)
    options = ("--transactional-id", topic, "--finish", "--force", "--option=requestTimeout=500")
    exit_code, _, err = job.run(*options)
    assert exit_code == code
    if code:
        assert f"1 transaction(s) are still open, '{message.transaction.id}' first; run again" in err
    else:
        assert len(found) == 2 + looks


def test_a_name_and_a_list_that_brokers_do_not_know_are_told(job: TransactionsJob) -> None:
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
