"""Writes that are there wholly or not at all, in every order of events of a small case; see the model."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Final

import pytest

from spark_kafkawire.clients.writing.modern.transactional import write_state
from spark_kafkawire.clients.writing.modern.transactional.driver import (
    DriverStep,
    DriverTransaction,
    WriteSummary,
)
from spark_kafkawire.clients.writing.modern.transactional.requests import (
    AwaitCompletion,
    CommitOffset,
    EndTransaction,
    FetchOffsets,
    InitProducerId,
    IsOngoing,
    Refused,
    TransactionOutcome,
    TransactionRequests,
    outcome_of,
)
from spark_kafkawire.clients.writing.modern.transactional.task import (
    TaskStep,
    TaskTransaction,
    TransactionAge,
)
from spark_kafkawire.clients.writing.modern.transactional.write_state import (
    BatchId,
    CommittedBatch,
    Decision,
    OffsetAndMetadata,
    decision_groups,
    driver_id,
    encode_metadata,
    may_be_group_of_write,
    part_count,
    task_group,
    write_of_group,
)
from spark_kafkawire.cluster.modern.metadata import Metadata, Topic
from spark_kafkawire.cluster.modern.transactions import Transaction
from spark_kafkawire.errors import DeliveryError, OptionError
from spark_kafkawire.jobs.migration.exactly_once import encode_note, partition_transactional_id
from spark_kafkawire.jobs.migration.state import Mark, Route
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.transactions import COMPLETE_COMMIT, ONGOING
from tests.clients.writing.modern.transaction_model import (
    PREFIX,
    Brokers,
    World,
    explore,
)
from tests.support.cases import for_each
from tests.support.mock_cluster import DISCONNECT, MockCluster
from tests.support.noida import NoidaBroker

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


#: Batches, whether they are those of a stream, and the rows that its tasks lack: ids that come again in a
#: stream, and tasks without rows, change nothing.
KINDS: Final = {
    "a batch is run again": (RUN_AGAIN, False, ()),
    "a batch is given up": (GIVEN_UP, False, ()),
    "a batch of a stream is run again": (RUN_AGAIN, True, ()),
    "a stream": (GIVEN_UP, True, ()),
    **{f"a stream, {name}": (THREE, True, rows) for name, rows in EMPTY.items()},
}


def marks_of(kind: str, event: str) -> list[pytest.MarkDecorator]:
    """Worlds with a timeout are few; most are of crashes, of which there are some for each commit."""
    if event == "timeouts":
        return []
    return [pytest.mark.nightly if event == "crashes" and "again" not in kind else pytest.mark.slow]


CASES: Final = [
    pytest.param(kind, version, event, marks=marks_of(kind, event))
    for kind in KINDS
    for version in (1, 2)
    for event in ("crashes", "twins", "timeouts")
]


@pytest.mark.parametrize(("kind", "version", "event"), CASES)
def test_whatever_happens_in_whichever_order_all_rows_are_there_once_or_none(
    kind: str, version: int, event: str
) -> None:
    batches, is_stream, empty = KINDS[kind]
    # So many, or the model does not go far.
    worlds_min = 1000 if empty else 300
    assert explore(world(version, batches, is_stream, empty=frozenset(empty), **{event: 1})) > worlds_min


@pytest.mark.slow
def test_a_decision_of_several_parts_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_state, "OPEN_COUNT_MAX", 1)
    assert explore(world(1, RUN_AGAIN, False, crashes=1)) > 300


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
        # Of more topics than keep it.
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
        with pytest.raises(OptionError, match=r"^option kafka\.transactional\.id: group 'g', which keeps"):
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
    assert tuple(item.topic for item in request.records) == expected
    assert {item.offset for item in request.records} == {8}


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


#: Enough for several connections to each coordinator.
COUNT = 40
END_TXN, FIND_COORDINATOR = 26, 10


def requests_to(bootstrap_servers: str) -> TransactionRequests:
    options = WriteOptions.parse({"kafka.bootstrap.servers": bootstrap_servers})
    return TransactionRequests(
        Metadata(options.discovery.bootstrap_servers, options.net), options.net, 60_000
    )


def begun(requests: TransactionRequests, topic: str) -> list[Transaction]:
    """Transactions that are open."""
    result = [requests.transactions.begin(f"{topic}-{number}", 60_000) for number in range(COUNT)]
    for item in result:
        requests.transactions.add_partitions(item, [TopicPartition(topic, 0)])
    return result


def states(requests: TransactionRequests, transactions: list[Transaction]) -> set[str]:
    result = requests.transactions.described([item.id for item in transactions])
    return {item.transaction_state for item in result.values()}


def test_of_many_ends_one_that_is_refused_is_refused_alone(noida: NoidaBroker) -> None:
    requests, topic = requests_to(noida.bootstrap_servers), noida.create_topic()
    open_ = begun(requests, topic)
    fenced, others = open_[7], [*open_[:7], *open_[8:]]
    again = requests.transactions.begin(fenced.id, 60_000)
    requests.transactions.add_partitions(again, [TopicPartition(topic, 0)])
    answers = requests.send_all([EndTransaction(item, committed=True) for item in open_])
    refused = answers.pop(7)
    assert isinstance(refused, Refused)
    assert (refused.outcome, f"EndTxn of '{fenced.id}'" in refused.message) == (
        TransactionOutcome.FENCED,
        True,
    )
    assert answers == others
    assert requests.send_all([AwaitCompletion(item) for item in others]) == [None] * (COUNT - 1)
    assert states(requests, others) == {COMPLETE_COMMIT}
    assert states(requests, [again]) == {ONGOING}
    assert requests.send(EndTransaction(again, committed=False)) == again


def test_all_topics_are_requested_only_for_a_group_without_offsets(
    noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows name their topics, so that the first offset of the group may be pending in any of them."""
    requests, topic = requests_to(noida.bootstrap_servers), noida.create_topic()
    asked, topics = list[Metadata](), Metadata.topics

    def counted(metadata: Metadata) -> tuple[Topic, ...]:
        asked.append(metadata)
        return topics(metadata)

    monkeypatch.setattr(Metadata, "topics", counted)
    assert requests.send(FetchOffsets(topic, is_stable=True)) == ()
    assert len(asked) == 1
    transaction, record = requests.transactions.begin(topic, 60_000), OffsetAndMetadata(7, "text", topic)
    assert requests.send(CommitOffset(transaction, topic, (record,))) is None
    requests.transactions.end(transaction, committed=True)
    assert requests.send(FetchOffsets(topic, is_stable=True)) == (record,)
    assert requests.send(FetchOffsets(f"{topic}-other")) == ()
    assert len(asked) == 1


def test_find_which_of_many_are_open(noida: NoidaBroker) -> None:
    requests, topic = requests_to(noida.bootstrap_servers), noida.create_topic()
    open_ = begun(requests, topic)
    for item in open_[::2]:
        requests.transactions.end(item, committed=False)
    again = requests.transactions.begin(open_[1].id, 60_000)  # by another attempt, of the same producer
    requests.transactions.add_partitions(again, [TopicPartition(topic, 0)])
    assert again.producer_id == open_[1].producer_id
    are_open = [False, False] + [False, True] * (COUNT // 2 - 1)
    assert requests.send_all([IsOngoing(item) for item in open_]) == are_open
    assert [requests.send(IsOngoing(item)) for item in (open_[1], again)] == [False, True]
    requests.send_all([EndTransaction(item, committed=False) for item in [again, *open_[3::2]]])


def test_one_is_complete_whose_producer_has_completed_another_one_since(noida: NoidaBroker) -> None:
    requests, topic = requests_to(noida.bootstrap_servers), noida.create_topic()
    open_ = begun(requests, topic)
    requests.send_all([EndTransaction(item, committed=True) for item in open_])
    again = requests.transactions.begin(open_[0].id, 60_000)
    requests.transactions.add_partitions(again, [TopicPartition(topic, 0)])
    for request in (EndTransaction(again, committed=True), AwaitCompletion(again)):
        requests.send(request)
    assert states(requests, [again]) == {COMPLETE_COMMIT}
    assert requests.send_all([AwaitCompletion(item) for item in open_]) == [None] * COUNT


def test_one_that_was_aborted_is_not_taken_for_complete(noida: NoidaBroker) -> None:
    requests, topic = requests_to(noida.bootstrap_servers), noida.create_topic()
    open_ = begun(requests, topic)
    requests.send_all([EndTransaction(item, committed=True) for item in open_[1:]])
    again = requests.transactions.begin(open_[0].id, 60_000)
    first, *others = requests.send_all([AwaitCompletion(item) for item in open_])
    assert isinstance(first, Refused)
    assert first.outcome is TransactionOutcome.FENCED
    assert others == [None] * (COUNT - 1)
    assert again.epoch == open_[0].epoch + 1


def test_many_ends_come_through_where_coordinators_move_and_hang_up(mock_cluster: MockCluster) -> None:
    """They tell of one coordinator at a time, and not which transactions are open."""
    mock_cluster.create_topic("t")
    requests = requests_to(mock_cluster.bootstrap_servers)
    open_ = begun(requests, "t")
    mock_cluster.push_request_errors(FIND_COORDINATOR, 0, 0, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    mock_cluster.push_request_errors(
        END_TXN,
        0,
        ErrorCode.NOT_COORDINATOR,
        DISCONNECT,
        0,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        DISCONNECT,
    )
    fresh = requests_to(mock_cluster.bootstrap_servers)
    assert fresh.send_all([IsOngoing(item) for item in open_]) == [None] * COUNT
    assert fresh.send_all([EndTransaction(item, committed=True) for item in open_]) == open_
    assert fresh.send_all([AwaitCompletion(item) for item in open_]) == [None] * COUNT


class Clock:
    """Stands in for both clocks of a machine."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now_s = 1e9
        patch.setattr(time, "monotonic", lambda: self.now_s)
        patch.setattr(time, "time", lambda: self.now_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def reported(age: TransactionAge, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Warnings that are logged now."""
    caplog.clear()
    age.warn()
    return [message.split(" of kafka", 1)[0] for message in caplog.messages]


def test_a_task_tells_each_part_of_its_time_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    age = TransactionAge(100_000, clock.now_s)
    expected = {49: [], 50: ["50 %"], 60: [], 90: ["90 %"], 99: []}
    began_s = clock.now_s
    for after_s, lines in expected.items():
        clock.now_s = began_s + after_s
        assert reported(age, caplog) == lines, after_s
    late = TransactionAge(100_000)
    clock.now_s += 95
    assert reported(late, caplog) == ["90 %"]


def test_a_late_task_tells_how_old_the_write_is(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    age = TransactionAge(100_000, clock.now_s - 45)
    assert reported(age, caplog) == []
    clock.now_s += 6
    assert reported(age, caplog) == ["the driver began this write 51.0 s ago, more than 50 %"]
    clock.now_s += 40
    assert reported(age, caplog) == ["the driver began this write 91.0 s ago, more than 90 %"]
    clock.now_s += 5
    assert reported(age, caplog) == ["50 %"]


def test_clocks_that_differ_make_no_write_younger_than_its_task(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    age = TransactionAge(100_000, clock.now_s + 1000)
    clock.now_s += 51
    assert reported(age, caplog) == ["50 %"]


def test_what_no_timeout_ends_tells_nothing(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    age = TransactionAge(None, clock.now_s - 1e6)
    assert reported(age, caplog) == []
    with pytest.raises(DeliveryError, match=r"^over$"), age.explain():
        raise DeliveryError("over")


def test_an_error_after_the_time_is_over_says_so(clock: Clock) -> None:
    age = TransactionAge(2_000)
    with pytest.raises(DeliveryError, match=r"^early$"), age.explain():
        raise DeliveryError("early")
    clock.now_s += 3
    said = r"^late; the task has had its transaction for 3\.0 s, and .*=2000 lets brokers abort it"
    with pytest.raises(DeliveryError, match=said), age.explain():
        raise DeliveryError("late")


#: With dashes and numbers, as names of others end.
NAME: Final = "orders-7-driver"
OPEN: Final = tuple(Transaction(f"{NAME}-{number}-7.0.1", 7, 0, 2) for number in range(100))
DECISION: Final = Decision(3, BatchId("b"), 100, 100, OPEN, ("t",), 1, OPEN[0].id).records(NAME)
TOPICS: Final = (("events-eu", "1"), ("events-us", "2"))
[BATCH, BATCH_OF_OTHER_TOPIC] = CommittedBatch(
    BatchId("q", 4, is_stream=True), 2, 10, 1 << 63, 1, TOPICS
).records()
ROUTE: Final = Route(TopicPartition("events-eu", 1, 0), TopicPartition("events-eu", 5))
NOTE: Final = encode_note(ROUTE, Mark(100, 7, 3))
#: What Java's and Python's consumers leave beside an offset.
OF_CONSUMER: Final = OffsetAndMetadata(5, "")


def test_every_group_of_a_write_is_known_with_its_name() -> None:
    for group, record in zip(decision_groups(driver_id(NAME), len(DECISION)), DECISION, strict=True):
        assert write_of_group(group, [record]) == NAME
    assert write_of_group(task_group(NAME, 12), [BATCH]) == NAME
    # Beside logs of two topics.
    assert write_of_group(task_group(NAME, 12), [BATCH, BATCH_OF_OTHER_TOPIC]) == NAME
    assert write_of_group(partition_transactional_id(NAME, ROUTE), [NOTE]) == NAME


@for_each("group", [driver_id(NAME), task_group(NAME, 12), partition_transactional_id(NAME, ROUTE)])
@for_each(
    "records",
    [
        [],
        [OF_CONSUMER],
        [BATCH, OF_CONSUMER],
        [DECISION[0], OF_CONSUMER],
        [NOTE, OF_CONSUMER],
        [BATCH, DECISION[0], NOTE],
        [OffsetAndMetadata(1, "{}")],
        [OffsetAndMetadata(1, '{"kafkawire":2}')],
        [OffsetAndMetadata(1, encode_metadata(batch="b"))],
        [OffsetAndMetadata(1, "[" * 5000)],
    ],
    ids=lambda records: "+".join(record.metadata[:24] for record in records),
)
def test_a_group_of_a_like_name_is_a_consumers_unless_all_that_it_holds_is_a_write_s(
    group: str, records: list[OffsetAndMetadata]
) -> None:
    assert may_be_group_of_write(group)
    assert write_of_group(group, records) is None


@pytest.mark.parametrize(
    "group", ["orders", "orders-", "orders-x", "-driver", "7", "driver", "orders-drivers"]
)
def test_a_record_of_a_write_makes_no_group_of_another_name_a_write_s(group: str) -> None:
    assert not may_be_group_of_write(group)
    assert write_of_group(group, [BATCH]) is None
    assert write_of_group(group, [DECISION[0]]) is None


def test_a_note_of_another_partition_is_no_proof() -> None:
    other = Route(ROUTE.source, TopicPartition("events-eu", 6))
    assert write_of_group(partition_transactional_id(NAME, other), [NOTE]) is None
