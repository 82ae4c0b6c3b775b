"""Attempts that are over and still send: nothing of theirs begins a transaction that nobody ends.

A broker nobody here wrote judges, which has the first protocol of transactions: a partition joins one by
AddPartitionsToTxn. The second protocol is in tests/interop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest

from spark_kafkawire.clients.writing.modern.transactional.requests import (
    FENCED_TIMEOUT_MS,
    FenceProducer,
    InitProducerId,
    TransactionRequests,
)
from spark_kafkawire.clients.writing.modern.transactional.write_state import attempt_ids
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.errors import DeliveryError
from spark_kafkawire.jobs.shell.command_line import run_job
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from tests.support.exactly_once import OnceBatch, OnceWrite, committed, dying
from tests.support.interrupted import SCRIPT
from tests.support.late_requests import (
    VALUES,
    HoldingProxy,
    LateRequest,
    SlowReplication,
    killed_and_late,
    open_ids,
    waiting,
)
from tests.support.noida import NoidaBroker
from tests.support.sparks import STREAM_SINKS
from tests.support.write_process import ForkedWrites, WriteProcess

PARTITIONS: Final = 2
TASKS: Final = [[(b"a", 0), (b"b", 1)], [(b"c", 1)], []]
ROWS: Final = [b"a", b"b", b"c"]
#: More than a cluster takes to replicate a record, ms.
REPLICATION_MS: Final = 1_500.0
#: What an attempt is told that begins when nobody waits for it.
NOT_AWAITED: Final = "the driver does not wait for this attempt any more"
FENCED: Final = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}


def named(name: str, **more: str) -> dict[str, str]:
    return {"kafka.transactional.id": name, **more}


def transactions_of(noida: NoidaBroker) -> Transactions:
    options = WriteOptions.parse({"kafka.bootstrap.servers": noida.bootstrap_servers})
    return Transactions(Metadata(options.discovery.bootstrap_servers, options.net), options.net)


def nothing_is_left(noida: NoidaBroker, topic: str) -> bool:
    """True if no transaction is open, and no reader waits."""
    return not open_ids(noida.bootstrap_servers, topic) and not waiting(
        noida.bootstrap_servers, topic, PARTITIONS
    )


@pytest.fixture(scope="module")
def writes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WriteProcess]:
    """Processes that are killed."""
    with ForkedWrites(tmp_path_factory.mktemp("writes")) as forked:
        yield forked


@pytest.mark.parametrize("kills_run", [False, True], ids=["attempt", "run"])
@pytest.mark.parametrize("api", [modern.ADD_PARTITIONS_TO_TXN, modern.PRODUCE], ids=["joins", "sends"])
def test_late_request_of_a_kill(noida: NoidaBroker, writes: WriteProcess, api: Api, kills_run: bool) -> None:
    left = killed_and_late(writes, [noida.port], api, {}, kills_run=kills_run)
    assert left.codes
    assert set(left.codes) <= FENCED
    assert (left.open_ids, left.waiting, left.rows) == ([], {}, VALUES)


def test_late_request_of_a_failed_attempt_begins_nothing(noida: NoidaBroker) -> None:
    """The attempt gives its id up itself: the request comes before anybody sweeps."""
    topic, late = noida.create_topic(partitions=PARTITIONS), LateRequest()

    def rows() -> Iterator[list[tuple[bytes, int]]]:
        yield [(b"v" * 1000, 0)] * 10  # enough to be sent
        raise ValueError("no more rows")

    with HoldingProxy([noida.port], late) as proxy:
        options = named(f"failed-{topic}", batchBytes="1KiB")
        write = OnceWrite(proxy.bootstrap_servers, topic, TASKS, options)
        made = write.writer()
        # The connection is cut, and the request is sent again on another one.
        late.arm(modern.ADD_PARTITIONS_TO_TXN, lambda _: None)
        with pytest.raises(ValueError, match="no more rows"):
            write.message_of(made, 0, rows())
        [code] = late.release()
    assert code in FENCED
    assert nothing_is_left(noida, topic)


def late_attempt(write: OnceWrite, made: Any) -> str:
    """Error of an attempt that begins now."""
    with pytest.raises(DeliveryError) as error:
        write.message(made, 0)
    return str(error.value)


def test_an_attempt_that_begins_when_nobody_waits_for_it_sends_nothing(noida: NoidaBroker) -> None:
    """The write is given up, or committed, or its driver is gone and the next run is at work."""
    topic = noida.create_topic(partitions=PARTITIONS)
    write = OnceWrite(noida.bootstrap_servers, topic, TASKS, named(f"late-{topic}"))
    made = write.writer()
    made.abort([write.message(made, 0), None, None])
    assert NOT_AWAITED in late_attempt(write, made)
    assert nothing_is_left(noida, topic)
    orphaned, made = write.writer(), write.writer()
    assert NOT_AWAITED in late_attempt(write, orphaned)
    made.commit([write.message(made, number) for number in range(3)])
    for each in (orphaned, made):
        assert NOT_AWAITED in late_attempt(write, each)
    assert nothing_is_left(noida, topic)
    assert committed(noida.bootstrap_servers, topic, PARTITIONS) == ROWS


@STREAM_SINKS
def test_an_attempt_of_a_batch_of_a_stream_that_begins_late_sends_nothing(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    batch = OnceBatch(noida.bootstrap_servers, topic, TASKS, 3, f"late-{topic}")
    made = batch.writer()
    batch.end([batch.message(made, number) for number in range(3)])
    with pytest.raises(DeliveryError, match=NOT_AWAITED):
        batch.message(made, 0, attempt=1)
    assert nothing_is_left(noida, topic)
    assert committed(noida.bootstrap_servers, topic, PARTITIONS) == ROWS


def test_a_run_that_finishes_another_ones_decision_is_awaited_by_its_own_attempts(noida: NoidaBroker) -> None:
    """Its driver has committed a note before they begin."""
    for at in range(8, 30):
        topic = noida.create_topic(partitions=PARTITIONS)
        first = OnceWrite(noida.bootstrap_servers, topic, TASKS, named(f"decided-{topic}", batch="1"))
        with dying(at, after_it=True):
            first.run()
        if committed(noida.bootstrap_servers, topic, PARTITIONS):
            break
    OnceWrite(noida.bootstrap_servers, topic, TASKS, named(f"decided-{topic}", batch="2")).run()
    assert committed(noida.bootstrap_servers, topic, PARTITIONS) == sorted(2 * ROWS)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Counter[type]:
    """Count of the requests that begin ids, and of those that fence them."""
    count: Counter[type] = Counter()
    asked, asked_together = TransactionRequests._send, TransactionRequests._send_together

    def counts(sender: TransactionRequests, request: Any) -> Any:
        count[type(request)] += 1
        return asked(sender, request)

    def counts_all(sender: TransactionRequests, requests: Any) -> Any:
        count.update(type(each) for each in requests)
        return asked_together(sender, requests)

    monkeypatch.setattr(TransactionRequests, "_send", counts)
    monkeypatch.setattr(TransactionRequests, "_send_together", counts_all)
    return count


def test_write_without_lost_attempts_fences_nothing(noida: NoidaBroker, begun: Counter[type]) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    for number in range(3):
        OnceWrite(noida.bootstrap_servers, topic, TASKS, named(topic, batch=f"{number}")).run()
    assert begun[FenceProducer] == 0
    # Of each write the driver's, and those of two tasks with rows.
    assert begun[InitProducerId] == 9


def test_an_id_is_fenced_once(noida: NoidaBroker, begun: Counter[type]) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    transactions = transactions_of(noida)
    died = OnceWrite(noida.bootstrap_servers, topic, TASKS, named(topic, batch="0"))
    made = died.writer()
    left = [
        transactions.begin(f"{topic}-{task}-{made._committer.run_name}.7", 60_000).id for task in range(5)
    ]
    for number in range(1, 4):
        OnceWrite(noida.bootstrap_servers, topic, TASKS, named(topic, batch=f"{number}")).run()
    assert begun[FenceProducer] == len(left)
    for each in transactions.described(left).values():
        assert (each.producer_epoch, each.transaction_timeout_ms) == (1, FENCED_TIMEOUT_MS)
    assert len(transactions.listed((), attempt_ids(topic))) == len(left) + 3 * 2


def interrupted(noida: NoidaBroker, topic: str) -> list[str]:
    """Ids of attempts of a run that died: one with a transaction, the others have begun."""
    died = OnceWrite(noida.bootstrap_servers, topic, TASKS, named(topic, batch="1"))
    made, transactions = died.writer(), transactions_of(noida)
    run_name = made._committer.run_name
    left = [transactions.begin(f"{topic}-{task}-{run_name}.7", 900_000).id for task in range(5)]
    return [died.message(made, 0).transaction.id, *left]


def test_ids_are_fenced_also_where_nobody_tells_which_of_them_are(noida: NoidaBroker) -> None:
    """The connection is cut on which the next run asks that, and readers would wait for the one before."""
    topic, late = noida.create_topic(partitions=PARTITIONS), LateRequest()
    transactions = transactions_of(noida)
    died = OnceWrite(noida.bootstrap_servers, topic, TASKS, named(topic))
    made = died.writer()
    died.message(made, 0)
    transactions.begin(f"{topic}-1-{made._committer.run_name}.99", 60_000)
    with HoldingProxy([noida.port], late) as proxy:
        late.arm(modern.DESCRIBE_TRANSACTIONS, lambda _: None)
        OnceWrite(proxy.bootstrap_servers, topic, TASKS, named(topic)).run()
        assert late.is_held
    assert nothing_is_left(noida, topic)
    assert committed(noida.bootstrap_servers, topic, PARTITIONS) == ROWS


def test_ids_are_fenced_by_slow_brokers(noida: NoidaBroker, caplog: pytest.LogCaptureFixture) -> None:
    """Coordinators take the timeout of a fenced id as the time limit of the append."""
    topic = noida.create_topic(partitions=PARTITIONS)
    left = interrupted(noida, topic)
    with SlowReplication(noida.port, REPLICATION_MS) as proxy:
        OnceWrite(proxy.bootstrap_servers, topic, TASKS, named(topic, batch="2")).run()
    assert not proxy.refused
    assert "not fenced" not in caplog.text
    assert not {each for each in left if transactions_of(noida).describe(each).producer_epoch == 0}
    assert nothing_is_left(noida, topic)
    assert committed(noida.bootstrap_servers, topic, PARTITIONS) == ROWS


def test_unfenced_ids_are_one_warning(noida: NoidaBroker, caplog: pytest.LogCaptureFixture) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    left = interrupted(noida, topic)
    impatient = {"requestTimeout": "2s", "brokerDownTimeout": "1s"}
    with SlowReplication(noida.port, 60_000) as proxy:
        OnceWrite(proxy.bootstrap_servers, topic, TASKS, named(topic, batch="2", **impatient)).run()
    # All are tried again side by side, so each is tried as often.
    assert set(proxy.refused) == {*left}
    assert max(proxy.refused.values()) == min(proxy.refused.values()) > 1
    # The end of the write finds that they are fenced in fact.
    [line] = [line for line in caplog.messages if "not fenced" in line]
    assert line.startswith(f"{len(left)} transactional ids of attempts that are over are not fenced: ")
    assert any(repr(each) in line for each in left)
    assert f"waiting until the next run with kafka.transactional.id={topic} or for 900 s" in line
    assert "error 15 COORDINATOR_NOT_AVAILABLE" in line
    assert nothing_is_left(noida, topic)
    assert committed(noida.bootstrap_servers, topic, PARTITIONS) == ROWS


def test_a_timeout_of_users_is_never_taken_for_that_of_fenced_ids(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    timeout = {"kafka.transaction.timeout.ms": str(FENCED_TIMEOUT_MS)}
    died = OnceWrite(noida.bootstrap_servers, topic, TASKS, named(topic, batch="1", **timeout))
    made = died.writer()
    assert made._committer.timeout_ms == FENCED_TIMEOUT_MS + 1


def test_ids_of_a_longer_name_are_not_fenced(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    transactions = transactions_of(noida)
    theirs = [transactions.begin(f"{topic}-{rest}", 60_000) for rest in ("1-2-7.0.3", "1-driver", "x")]
    OnceWrite(noida.bootstrap_servers, topic, TASKS, named(topic)).run()
    for each in theirs:
        assert transactions.describe(each.id).producer_epoch == each.epoch


def test_finishing_job_fences_attempts(noida: NoidaBroker, capsys: pytest.CaptureFixture[str]) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    transactions = transactions_of(noida)
    write = OnceWrite(noida.bootstrap_servers, topic, TASKS, named(topic))
    made = write.writer()
    write.message(made, 0)
    empty = transactions.begin(f"{topic}-1-{made._committer.run_name}.99", 60_000)
    connection = f"--option=kafka.bootstrap.servers={noida.bootstrap_servers}"
    argv = ["--quiet", connection, "--transactional-id", topic, "--finish", "--force"]
    assert run_job(SCRIPT.make_parser(), SCRIPT.run, argv) == 0, capsys.readouterr().err
    assert transactions.describe(empty.id).producer_epoch > empty.epoch
    assert nothing_is_left(noida, topic)
