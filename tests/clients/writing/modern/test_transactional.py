"""Writes that are there wholly or not at all, in every order of events of a small case; see the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from spark_kafkawire.clients.writing.modern.transactional import write_state
from spark_kafkawire.clients.writing.modern.transactional.driver import (
    DriverStep,
    DriverTransaction,
    Due,
    WriteSummary,
)
from spark_kafkawire.clients.writing.modern.transactional.requests import (
    CommitOffset,
    EndTransaction,
    FetchOffsets,
    InitProducerId,
    Refused,
    outcome_of,
)
from spark_kafkawire.clients.writing.modern.transactional.task import TaskStep, TaskTransaction
from spark_kafkawire.clients.writing.modern.transactional.write_state import (
    BatchId,
    CommittedBatch,
    Decision,
    OffsetAndMetadata,
    part_count,
)
from spark_kafkawire.cluster.modern.transactions import Transaction
from spark_kafkawire.errors import OptionError
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from tests.support.cases import for_each

from . import transaction_model as model
from .transaction_model import PREFIX, Brokers, Fault, World, explore

#: A batch that is run until it is there, and one that is given up where it fails, for another one; a stream
#: goes on with the other one when the first is there.
RUN_AGAIN: Final = ("a",)
GIVEN_UP: Final = ("a", "b")
#: Batches of a stream, of which the third has ids of the first; and tasks that have no rows of the second.
THREE: Final = ("a", "b", "c")
EMPTY: Final = {"no rows": (("b", 0), ("b", 1)), "one task without": (("b", 1),)}


MANY: Final = tuple(f"t{number:02}" for number in range(30))


def world(version: int, batches: tuple[str, ...], is_stream: bool, **happens: Any) -> World:
    return World(Brokers(version), batches, is_stream, DriverTransaction.begin(PREFIX), **happens)


@for_each("is_stream", [False, True], ids=["batch", "stream"])
@for_each("batches", [RUN_AGAIN, GIVEN_UP], ids=["run again", "given up"])
@for_each("version", [1, 2])
@for_each(
    "happens",
    [{"crashes": 1}, {"twins": 1}, {"timeouts": 1}],
    ids=["a crash", "a second attempt", "a timeout"],
)
def test_whatever_happens_in_whichever_order_all_rows_are_there_once_or_none(
    version: int, batches: tuple[str, ...], is_stream: bool, happens: dict[str, int]
) -> None:
    # So many, or the model does not go far.
    assert explore(world(version, batches, is_stream, **happens)) > 300


@for_each("empty", EMPTY.values(), ids=EMPTY)
@for_each("version", [1, 2])
@for_each("happens", [{"crashes": 1}, {"twins": 1}, {"timeouts": 1}])
def test_ids_that_come_again_in_a_stream_and_tasks_without_rows_change_nothing(
    version: int, empty: tuple[tuple[str, int], ...], happens: dict[str, int]
) -> None:
    assert explore(world(version, THREE, True, empty=frozenset(empty), **happens)) > 1000


@pytest.mark.parametrize("batches", [RUN_AGAIN, GIVEN_UP], ids=["run again", "given up"])
def test_a_decision_of_several_parts_is_one(
    monkeypatch: pytest.MonkeyPatch, batches: tuple[str, ...]
) -> None:
    monkeypatch.setattr(write_state, "OPEN_COUNT_MAX", 1)
    assert explore(world(1, batches, False, crashes=1)) > 300


def transactions(count: int) -> tuple[Transaction, ...]:
    """As large as they can be."""
    return tuple(
        Transaction(f"{'n' * 120}-{100_000 + number}-{2**63 - 1}.32767.{2**31 - 1}", 2**63 - 1, 32_767, 2)
        for number in range(count)
    )


@pytest.mark.parametrize(
    ("lost", "again", "fault"),
    [
        (0, (3, 2, 0), None),
        (0, (2, 2, 0), "was begun by 3 task(s), and now there are 2"),
        (0, (3, 2, 1), "is committed already, and 1 task(s) have more rows"),
        (0, (3, 1, 0), "had rows in 2 task(s), and now in 1"),
        (0, (3, 3, 0), "had rows in 2 task(s), and now in 3"),
        (1, (3, 2, 1), None),
        (1, (3, 2, 2), "is committed except for 1 task(s), and 2 task(s) have more rows"),
    ],
)
def test_a_batch_that_is_run_again_is_the_same_rows_in_the_same_tasks(
    lost: int, again: tuple[int, int, int], fault: str | None
) -> None:
    decision = Decision(1, BatchId("a"), tasks=3, busy=2, lost=lost)
    reported = decision.fault_again(*again)
    assert reported == (fault and f"batch 'a' {fault}; {write_state.OTHER_ROWS}")


@for_each(
    ("kept", "count", "now", "fault"),
    [
        (("a", "b"), 2, ("a", "b"), None),
        (
            ("b",),
            2,
            ("a", "b"),
            "not to topic 'a', for which there are rows now, or that was deleted and made",
        ),
        (("a", "b"), 2, ("b",), "to topic 'a' too, for which there are no rows now"),
        (("a",), 1, ("b",), "to topic 'a', and not to topic 'b', for which there are rows now"),
        # Of an earlier version, which kept it in one topic; and of more topics than keep it.
        (("a",), 0, ("a", "b"), None),
        (MANY[:16], 17, MANY[:17], None),
    ],
)
def test_a_batch_that_is_run_again_has_the_topics_that_keep_its_decision(
    kept: tuple[str, ...], count: int, now: tuple[str, ...], fault: str | None
) -> None:
    decision = Decision(1, BatchId("a"), tasks=3, busy=2, topics=kept, topic_count=count)
    reported = decision.fault_again(3, 2, 0, now) or ""
    assert (reported != "") is (fault is not None)
    assert (fault or "") in reported


@pytest.mark.parametrize(
    ("lost", "busy", "loss"),
    [
        (2, 5, "is there in part: 2 of its 5 transactions had timed out before they were committed"),
        (5, 5, "is not there: all 5 of its transactions had timed out before they were committed"),
        (1, 1, "is not there: its only transaction had timed out before it was committed"),
    ],
)
def test_a_loss_has_both_numbers_and_says_where_nothing_is_there(lost: int, busy: int, loss: str) -> None:
    decision = Decision(1, BatchId("a"), tasks=7, busy=busy, lost=lost)
    assert decision.loss == loss
    fault = decision.fault_before(BatchId("b"))
    assert fault is not None
    assert fault.startswith(f"batch 'a' {loss}; run that write again")


@for_each(
    ("decided", "batch", "may_be_committed"),
    [
        (BatchId("a"), BatchId("a"), True),
        (BatchId("a"), BatchId("b"), False),
        (BatchId("q", 5, is_stream=True), BatchId("q", 5, is_stream=True), True),
        (BatchId("q", 5, is_stream=True), BatchId("q", 6, is_stream=True), False),
        # Not to be written after this: the task that looks says so before it has sent anything.
        (BatchId("q", 5, is_stream=True), BatchId("q", 4, is_stream=True), True),
        (BatchId("q", 5, is_stream=True), BatchId("other", 6, is_stream=True), True),
        (BatchId("q", 5, is_stream=True), BatchId("a"), True),
        (BatchId("a"), BatchId("q", 0, is_stream=True), True),
    ],
    ids=str,
)
def test_tasks_look_what_they_hold_where_their_batch_may_be_there_or_is_not_to_be_written(
    decided: BatchId, batch: BatchId, may_be_committed: bool
) -> None:
    assert Decision(1, decided, tasks=1, busy=1).may_be_committed(batch) is may_be_committed


@pytest.mark.parametrize("count", [0, 1, write_state.OPEN_COUNT_MAX, write_state.OPEN_COUNT_MAX + 1, 200])
def test_a_decision_is_read_as_it_was_written_and_fits_into_what_brokers_take(count: int) -> None:
    open_ = transactions(count)
    batch = BatchId("b" * 120, 2**40)
    first = open_[0].id if open_ else ""
    decision = Decision(7, batch, count, count, open_, ("t" * 249,), 1, first, lost=3)
    texts = decision.records("n" * 120)
    assert all(len(record.metadata.encode()) <= 4096 for record in texts)
    assert part_count(texts[0], "g") == len(texts)
    assert Decision.of(texts, "n" * 120, "g", decision.topics) == decision


@for_each(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"kafkawire":2}',
        '{"kafkawire":1}',
        "null",
        '{"kafkawire":1,"batch":1,"rows":1,"bytes":1}',
        '{"kafkawire":1,"batch":"a","stream":false,"rows":1,"bytes":1,"serial":"1"}',
    ],
)
def test_a_text_of_others_is_an_error_in_one_line(text: str) -> None:
    for read in (lambda record: CommittedBatch.of(record, "g"), lambda record: part_count(record, "g")):
        with pytest.raises(OptionError, match=r"^option kafka\.transactional\.id: group 'g' holds an offset"):
            read(OffsetAndMetadata(1, text))


def test_a_decision_that_lacks_a_part_is_not_carried_out_in_part() -> None:
    texts = Decision(7, BatchId("b"), 60, 60, transactions(60), ("t",), 1, "f").records("n" * 120)
    driver = DriverTransaction.begin("n").answered(
        InitProducerId("n-driver"), Transaction("n-driver", 1, 0, 1)
    )
    driver = driver.answered(driver.requests()[0], (texts[0],))
    [request] = driver.requests()
    assert request == FetchOffsets("n-driver.1", is_stable=True)
    failed = driver.answered(request, (replace(texts[1], offset=6),))
    assert failed.step is DriverStep.FAILED
    assert failed.failure == "group 'n-driver.1' lacks a part of decision 7 of 'n'"
    assert not failed.requests()


@pytest.mark.parametrize(
    ("topics", "expected"),
    [
        (("a", "b"), ("a", "b")),
        (("c", "d"), ("c", "d")),
        ((*MANY, "u"), (*MANY[: write_state.TOPIC_COUNT_MAX - 1], "u")),
    ],
)
def test_a_decision_is_kept_in_all_topics_up_to_a_number_those_of_the_last_one_first(
    topics: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    last = Decision(7, BatchId("1"), 1, 1, topics=("b", "u"), topic_count=2)
    driver = DriverTransaction.begin("n").answered(
        InitProducerId("n-driver"), Transaction("n-driver", 1, 0, 1)
    )
    [record] = last.records("n")
    kept = tuple(replace(record, topic=topic) for topic in last.topics)
    older = replace(record, offset=6, topic="old")
    driver = driver.answered(driver.requests()[0], (older, *kept))
    assert driver.last == last
    driver = driver.commit(WriteSummary(BatchId("2"), 1, 1, transactions(1), topics))
    [request] = driver.answered(driver.requests()[0], True).requests()
    assert isinstance(request, CommitOffset)
    assert tuple(each.topic for each in request.records) == expected
    assert {each.offset for each in request.records} == {8}


def test_what_is_due_is_not_copied_at_each_answer() -> None:
    decided = Decision(7, BatchId("b"), 30, 30, transactions(30), ("t",), 1, "f").records("n")
    driver = DriverTransaction.begin("n").answered(
        InitProducerId("n-driver"), Transaction("n-driver", 1, 0, 1)
    )
    driver = driver.answered(driver.requests()[0], decided)
    requests = driver.due.requests
    first, second, third, *_, last = requests
    for request in (first, second):
        driver = driver.answered(request, None)
        assert driver.due.requests is requests
    driver = driver.answered(last, None)  # out of turn
    assert driver.requests() == requests[2:-1]
    assert driver.answered(third, None).requests() == requests[3:-1]


@pytest.mark.parametrize(("rows", "size", "is_done"), [(2, 10, True), (1, 10, False), (2, 11, False)])
def test_a_task_whose_rows_are_there_compares_their_number_and_bytes(
    rows: int, size: int, is_done: bool
) -> None:
    held = CommittedBatch(BatchId("a"), 2, 10, 1, 1, (("t", "1"),))
    driver = Transaction("n-driver", 7, 0, 1)
    task = TaskTransaction("n-0-7.0.1", "n-0", BatchId("a"), driver)
    for answer in (Transaction("n-0-7.0.1", 8, 0, 1), True, held.records()):
        task = task.answered(answer)
    assert task.step is TaskStep.COMPARE
    counted = task.wrote(rows, size, 1, held.topics)
    assert counted.step is (TaskStep.DONE if is_done else TaskStep.FAILED)
    assert counted.transaction is None


def test_records_of_earlier_versions_are_compared_by_what_they_have() -> None:
    text = '{"kafkawire":1,"batch":"a","stream":false,"rows":2,"bytes":10}'
    held = CommittedBatch.last([OffsetAndMetadata(0, text, "t")], "g")
    assert held is not None
    now = CommittedBatch(BatchId("a"), 2, 10, 1, 1, (("t", "1"), ("u", "2")))
    assert held.difference(now) is None
    assert held.difference(replace(now, rows=3)) is not None
    text = (
        '{"kafkawire":1,"batch":"a","number":0,"stream":false,"tasks":2,"busy":2,"parts":1,"open":[],'
        '"topic":"t","first":"n-0-7.0.1","lost":0}'
    )
    decision = Decision.of((OffsetAndMetadata(2, text),), "n", "g", ("t",))
    assert decision.fault_again(2, 2, 0, ("t", "u")) is None


@for_each(
    ("code", "is_lost"),
    [
        (ErrorCode.PRODUCER_FENCED, True),
        (ErrorCode.INVALID_PRODUCER_EPOCH, True),
        (ErrorCode.INVALID_TXN_STATE, True),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True),
        (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, True),
        (ErrorCode.TRANSACTION_ABORTABLE, False),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, False),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, False),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_of_a_decided_write_what_is_over_is_lost_and_what_is_only_refused_is_left_to_the_next_run(
    code: ErrorCode, is_lost: bool
) -> None:
    decided = Decision(7, BatchId("b"), 2, 2, transactions(2), ("t",), 1, "f").records("n" * 120)
    driver = DriverTransaction.begin("n").answered(
        InitProducerId("n-driver"), Transaction("n-driver", 1, 0, 1)
    )
    driver = driver.answered(driver.requests()[0], decided)
    first, other = driver.requests()
    reported = driver.answered(first, Refused(outcome_of(broker_error(code, "EndTxn")), "refused"))
    assert (reported.lost, reported.step) == (
        (1, DriverStep.COMMIT_TASKS) if is_lost else (0, DriverStep.FAILED)
    )
    assert reported.requests() == ((other,) if is_lost else ())


def without_looking(task: TaskTransaction, _records: Any) -> TaskTransaction:
    return replace(task, step=TaskStep.WRITE)


def without_record(task: TaskTransaction, *_written: Any) -> TaskTransaction:
    return replace(task, step=TaskStep.DONE)


def without_finishing(driver: DriverTransaction, last: Any) -> DriverTransaction:
    return replace(driver, last=last, step=DriverStep.READY, due=Due())


def without_decision(driver: DriverTransaction) -> DriverTransaction:
    return replace(driver, last=RECORD_DECISION(driver).last)._commit_tasks()


def before_all_is_complete(driver: DriverTransaction) -> DriverTransaction:
    return driver._record_done()


def without_reading(driver: DriverTransaction, write: Any) -> DriverTransaction:
    return replace(driver, write=write)._abort_tasks("the write failed")


def by_its_ids_alone(driver: DriverTransaction, last: Any, write: Any) -> DriverTransaction:
    return ABORT_UNLESS_DECIDED(driver, last, replace(write, batch=last.batch) if last else write)


def with_one_id_for_all_attempts(run: str, task: int, _number: int, *knows: Any) -> TaskTransaction:
    return MACHINE(run, task, 0, *knows)


def without_asking_for_the_driver(task: TaskTransaction, answer: Any) -> TaskTransaction:
    return ANSWERED(task, True if task.step is TaskStep.CHECK_DRIVER else answer)


def without_fencing_itself(driver: DriverTransaction, write: Any) -> DriverTransaction:
    aborting = ABORT(driver, write)
    return (
        replace(aborting, due=Due((EndTransaction(driver.transaction, committed=False),)))
        if driver.transaction
        else aborting
    )


def of_what_is_open_alone(brokers: Brokers) -> Brokers:
    for id_, known in brokers.ids:
        if known.state == "Ongoing" and not id_.endswith("driver"):
            brokers = brokers.with_id(id_, known.begun())
    return brokers


def never(_driver: DriverTransaction, _batch: Any) -> bool:
    return False


RECORD_DECISION: Final = DriverTransaction._record_decision
ABORT_UNLESS_DECIDED: Final = DriverTransaction._abort_unless_decided
ABORT: Final = DriverTransaction.abort
ANSWERED: Final = TaskTransaction.answered
MACHINE: Final = model._machine


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("place", "name", "mutant", "happens"),
    [
        (TaskTransaction, "_read_committed", without_looking, {"crashes": 1}),
        (TaskTransaction, "wrote", without_record, {"crashes": 1}),
        (DriverTransaction, "_last_known", without_finishing, {"crashes": 1}),
        (DriverTransaction, "_record_decision", without_decision, {"crashes": 1}),
        (DriverTransaction, "_await_completion", before_all_is_complete, {"crashes": 1}),
        (DriverTransaction, "abort", without_reading, {"timeouts": 1}),
        (DriverTransaction, "_abort_unless_decided", by_its_ids_alone, {"timeouts": 1}),
        (DriverTransaction, "may_be_committed", never, {"crashes": 1}),
        (model, "_machine", with_one_id_for_all_attempts, {"twins": 1}),
        (TaskTransaction, "answered", without_asking_for_the_driver, {"twins": 1}),
        (TaskTransaction, "answered", without_asking_for_the_driver, {"crashes": 1}),
        (DriverTransaction, "abort", without_fencing_itself, {"timeouts": 1, "twins": 1}),
        (Brokers, "swept", of_what_is_open_alone, {"twins": 1}),
        (Brokers, "swept", of_what_is_open_alone, {"crashes": 1}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_model_finds_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
    place: Any,
    name: str,
    mutant: Callable[..., Any],
    happens: dict[str, int],
) -> None:
    monkeypatch.setattr(place, name, mutant)
    with pytest.raises(Fault):
        explore_all(happens)


def explore_all(happens: dict[str, int]) -> None:
    explore(world(1, THREE, True, empty=frozenset(EMPTY["no rows"]), **happens))
    for is_stream in (False, True):
        for batches in (RUN_AGAIN, GIVEN_UP):
            explore(world(1, batches, is_stream, **happens))
