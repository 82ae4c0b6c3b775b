"""Writes with delivery=exactly-once to noida-db: they die at requests, have a name that has been written, are
batches of a stream, or have attempts that are late."""

from __future__ import annotations

import contextlib
import logging
import re
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from spark_kafkawire.clients.writing.modern.transactional.requests import (
    FENCED_TIMEOUT_MS,
    FenceProducer,
    InitProducerId,
    TransactionRequests,
)
from spark_kafkawire.clients.writing.modern.transactional.write_state import (
    OPEN_COUNT_MAX,
    attempt_ids,
)
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.errors import ConnectFailed, DeliveryError, OptionError
from spark_kafkawire.jobs.offsets.run import Surveyed
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api, VersionRange
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.transactions import ONGOING
from tests.net.peers import closed_port
from tests.support.cases import for_each
from tests.support.exactly_once import OnceBatch, OnceWrite, committed, dying, losing
from tests.support.interrupted import SCRIPT
from tests.support.late_requests import VALUES as LATE_VALUES
from tests.support.late_requests import (
    HoldingProxy,
    LateRequest,
    SlowReplication,
    killed_and_late,
    open_ids,
    waiting,
)
from tests.support.log_broker import OFFERED
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.noida import NoidaBroker
from tests.support.short_and_long import short_and_long
from tests.support.spark_streams import lines, put, write
from tests.support.sparks import STREAM_SINKS, needs
from tests.support.streaming import task, writer
from tests.support.write_process import ForkedWrites, WriteProcess

PARTITIONS: Final = 2
#: Rows of three tasks, the last of which has none.
TASKS: Final = [[(b"a", 0), (b"b", 1)], [(b"c", 1)], []]
OTHERS: Final = [[(b"x", 0)], [(b"y", 1)], []]
VALUES: Final = [b"a", b"b", b"c"]
#: More requests about transactions than the write makes.
REQUESTS_MAX: Final = 40


def named(name: str, batch: str = "", **more: str) -> dict[str, str]:
    return {"kafka.transactional.id": name, **more} | ({"batch": batch} if batch else {})


def seen(noida: NoidaBroker, topic: str) -> list[bytes]:
    return committed(noida.bootstrap_servers, topic, PARTITIONS)


@pytest.mark.parametrize("is_given_up", [False, True], ids=["run again", "given up"])
@short_and_long("step", short=3, long=1)
def test_write_that_died_anywhere_is_there_once(noida: NoidaBroker, is_given_up: bool, step: int) -> None:
    """It dies before each request, and after its broker got it."""
    topic = noida.create_topic(partitions=PARTITIONS)
    for mark in range(0, 2 * REQUESTS_MAX, step):
        name = f"once-{topic}-{mark}"
        write = OnceWrite(noida.bootstrap_servers, topic, marked(TASKS, mark), named(name, "1"))
        with dying(mark // 2, after_it=mark % 2 == 1) as died:
            write.run()
        if not died:
            break
        if is_given_up:
            OnceWrite(noida.bootstrap_servers, topic, marked(OTHERS, mark), named(name, "2")).run()
        else:
            write.run()
    assert mark > 30
    result = seen(noida, topic)
    for item in range(0, mark, step):
        there = [value.split()[1] for value in result if int(value.split()[0]) == item]
        assert there in ([[b"x", b"y"], [*VALUES, b"x", b"y"]] if is_given_up else [VALUES]), item


def marked(tasks: list[list[tuple[bytes, int]]], mark: int) -> list[list[tuple[bytes, int]]]:
    """The same rows, of a write of their own."""
    return [[(b"%d %s" % (mark, value), partition) for value, partition in task] for task in tasks]


def test_second_run_writes_nothing(noida: NoidaBroker, caplog: pytest.LogCaptureFixture) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    write = OnceWrite(noida.bootstrap_servers, topic, TASKS, named(f"twice-{topic}"))
    write.run()
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        write.run()
    assert seen(noida, topic) == VALUES
    assert (
        "batch '': 2 of 3 task(s) found their rows committed already, and wrote none of them" in caplog.text
    )


def test_writes_without_a_name_are_each_there_once(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    for _ in range(2):
        OnceWrite(noida.bootstrap_servers, topic, TASKS, {}).run()
    assert seen(noida, topic) == sorted(2 * VALUES)


def test_a_task_that_fails_leaves_nothing_that_counts_or_keeps_readers_waiting(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    write = OnceWrite(noida.bootstrap_servers, topic, TASKS, named(f"failed-{topic}"))
    made = write.writer()
    reported = [write.message(made, 0), None, None]
    made.abort(reported)
    assert seen(noida, topic) == []
    OnceWrite(noida.bootstrap_servers, topic, OTHERS, {}).run()
    assert seen(noida, topic) == [b"x", b"y"]


def test_an_attempt_beside_the_one_that_counts_changes_nothing(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    write = OnceWrite(noida.bootstrap_servers, topic, TASKS, named(f"twin-{topic}"))
    made = write.writer()
    reported = [write.message(made, number) for number in range(3)]
    write.message(made, 0)  # a speculative attempt that came too late
    made.commit(reported)
    assert seen(noida, topic) == VALUES
    # What the late one left open is ended, too: a reader would wait for it.
    OnceWrite(noida.bootstrap_servers, topic, OTHERS, {}).run()
    assert seen(noida, topic) == [*VALUES, b"x", b"y"]


def test_of_two_runs_of_one_name_the_one_that_began_first_gives_way(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    write = OnceWrite(noida.bootstrap_servers, topic, TASKS, named(f"two-{topic}"))
    first = write.writer()
    reported = [write.message(first, number) for number in range(3)]
    second = OnceWrite(noida.bootstrap_servers, topic, OTHERS, named(f"two-{topic}", "2"))
    later = second.writer()
    with pytest.raises(DeliveryError, match="nothing of this run is committed"):
        first.commit(reported)
    later.commit([second.message(later, number) for number in range(3)])
    assert seen(noida, topic) == [b"x", b"y"]


@for_each("longer", ["1-driver", "1-2-7.0.3", "1-driver-0-7.0.3", "1-7.0.3-driver", "driver"])
def test_what_a_longer_name_has_open_is_left_alone(noida: NoidaBroker, longer: str) -> None:
    """Names that go on with a dash: all of theirs, driver and attempts, is theirs."""
    topic = noida.create_topic(partitions=PARTITIONS)
    transactions = transactions_of(noida)
    own, theirs = (transactions.begin(f"{topic}-{rest}", 60_000) for rest in ("1-7.0.3", longer))
    for item in (own, theirs):
        transactions.add_partitions(item, [TopicPartition(topic, 0)])
    name = topic if longer != "driver" else f"{topic}-1"
    OnceWrite(noida.bootstrap_servers, topic, TASKS, named(name)).run()
    assert transactions.describe(theirs.id).transaction_state == ONGOING
    assert (transactions.describe(own.id).transaction_state == ONGOING) is (name != topic)
    for item in (own, theirs):
        transactions.begin(item.id, 60_000)
    assert seen(noida, topic) == VALUES


def test_what_another_program_keeps_in_the_group_is_not_guessed_at(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    write = OnceWrite(noida.bootstrap_servers, topic, TASKS, named(f"foreign-{topic}"))
    surveyed = Surveyed.of({"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic})
    surveyed.cluster.groups.commit(f"foreign-{topic}-driver", {TopicPartition(topic, 0): 1})
    with pytest.raises(OptionError, match="holds an offset that another program committed"):
        write.run()


def test_report_a_timeout_that_brokers_do_not_take_before_rows(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    options = {"kafka.transaction.timeout.ms": "2000000000"}
    with pytest.raises(
        OptionError, match=r"^option kafka\.transaction\.timeout\.ms: .* above transaction\.max"
    ):
        OnceWrite(noida.bootstrap_servers, topic, TASKS, options).writer()


def test_report_an_old_broker_in_one_line() -> None:
    """Kafka 0.10 offers these versions."""
    offered = {key: OFFERED[key] for key in (modern.METADATA.key, modern.API_VERSIONS.key)}
    offered |= {modern.PRODUCE.key: VersionRange(0, 2), modern.FIND_COORDINATOR.key: VersionRange(0, 0)}
    with LogServer({"t": [MemoryLog()]}, offered=offered) as server:
        write = OnceWrite(server.bootstrap_servers, "t", TASKS, {})
        with pytest.raises(OptionError) as error:
            write.writer()
    reported = (
        "option delivery: exactly-once needs transactions, which Kafka has from 0.11 on; leave the option"
    )
    assert str(error.value).startswith(reported)
    assert str(error.value).isprintable()


def test_a_decision_about_many_tasks_is_carried_out_by_the_next_run(noida: NoidaBroker) -> None:
    """Of so many that their transactions are in two records, and looked for together."""
    topic = noida.create_topic(partitions=PARTITIONS)
    count = OPEN_COUNT_MAX + 10
    tasks = [[(b"%03d" % number, number % PARTITIONS)] for number in range(count)]
    write = OnceWrite(noida.bootstrap_servers, topic, tasks, named(f"many-{topic}"))
    # The driver's 2, each task's 3, the look whether it is open, 2 records and the end of the decision; then
    # some ends.
    with dying(2 + 4 * count + 3 + 20, after_it=True) as died:
        write.run()
    assert died
    part = seen(noida, topic)
    assert 0 < len(part) < count
    # Another write of the name finishes it first.
    OnceWrite(noida.bootstrap_servers, topic, OTHERS, named(f"many-{topic}", "2")).run()
    assert seen(noida, topic) == [b"%03d" % number for number in range(count)] + [b"x", b"y"]


# Through Spark


def save(frame: DataFrame, noida: NoidaBroker, topic: str, **options: Any) -> None:
    writer = frame.write.format("kafkawire").mode("append").option("topic", topic)
    writer = writer.option("kafka.bootstrap.servers", noida.bootstrap_servers)
    writer.options(delivery="exactly-once", **options).save()


def test_failed_batch_is_not_there_and_saved_again_once(spark: SparkSession, noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    rows = spark.range(400, numPartitions=4).selectExpr("cast(id AS string) value")
    failing = rows.selectExpr("if(value = '399', raise_error('broken row'), value) value")
    with pytest.raises(Exception, match="broken row"):
        save(failing, noida, topic, **{"kafka.transactional.id": f"job-{topic}", "batch": "1"})
    assert seen(noida, topic) == []
    for _ in range(2):
        save(rows, noida, topic, **{"kafka.transactional.id": f"job-{topic}", "batch": "1"})
        assert seen(noida, topic) == sorted(b"%d" % number for number in range(400))


@STREAM_SINKS
def test_batch_that_spark_forgot_is_once(spark: SparkSession, noida: NoidaBroker, tmp_path: Path) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    (tmp_path / "in").mkdir()
    given = {"topic": topic, "delivery": "exactly-once", "kafka.transactional.id": f"query-{topic}"}
    put(tmp_path, "1", "a", "b")
    write(lines(spark, tmp_path), noida, tmp_path, **given)
    for name in ("0", ".0.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    put(tmp_path, "2", "c")
    write(lines(spark, tmp_path), noida, tmp_path, **given)
    assert seen(noida, topic) == [b"a", b"b", b"c"]
    # Each run of the query has ids of its own, so that attempts of an earlier one end nothing of a later one.
    ids = [item.transactional_id for item in transactions_of(noida).listed()]
    runs = {re.fullmatch(rf"query-{topic}-[0-9]+-([0-9a-f]{{12}})[.][01][.]0", item) for item in ids}
    assert len({result[1] for result in runs if result}) == 2


# The same rows under a name that has been written, or others

#: A row: its topic, key, value, headers, and partition.
Row = tuple[str, bytes | None, bytes, list[dict[str, Any]] | None, int | None]
Tasks = Sequence[Sequence[Row]]
SCHEMA: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField(
            "headers",
            ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        ),
        StructField("partition", IntegerType()),
    ]
)
HEADERS: Final = [{"key": "h", "value": b"1"}]
#: Of topics "a" and "b", "c" has no rows.
FIRST: Final[Tasks] = [
    [("a", b"k1", b"v1", HEADERS, 0), ("a", b"k2", b"v2", None, 1), ("b", None, b"v3", None, None)],
    [("b", b"k4", b"v4", None, 1), ("b", b"", b"v5", None, 1)],
    [],
]
[[R1, R2, R3], [R4, R5], _] = FIRST


class Names:
    """Topics of a test, and a name for its write."""

    def __init__(self, noida: NoidaBroker) -> None:
        self._servers = noida.bootstrap_servers
        self.topics = {letter: noida.create_topic(partitions=PARTITIONS) for letter in "abc"}
        self._name = f"again-{self.topics['a']}"

    def write(self, tasks: Tasks) -> OnceWrite:
        named = [[(self.topics[row[0]], *row[1:]) for row in task] for task in tasks]
        return OnceWrite(self._servers, "", named, {"kafka.transactional.id": self._name}, SCHEMA)

    def values(self) -> dict[str, list[bytes]]:
        return {letter: committed(self._servers, topic, PARTITIONS) for letter, topic in self.topics.items()}


@pytest.fixture
def written(noida: NoidaBroker) -> Iterator[Names]:
    """A write that is there, and still the same after the test."""
    names = Names(noida)
    names.write(FIRST).run()
    there = {"a": [b"v1", b"v2"], "b": [b"v3", b"v4", b"v5"], "c": []}
    assert names.values() == there
    yield names
    assert names.values() == there


CONTENT: Final = "with as many rows and bytes, but another content"


def changed(row: Row, **columns: Any) -> Row:
    """A row with other columns."""
    names = "topic", "key", "value", "headers", "partition"
    return tuple((dict(zip(names, row, strict=True)) | columns).values())


@for_each(
    ("first", "message"),
    [
        ([changed(R1, value=b"v9"), R2, R3], CONTENT),
        ([changed(R1, key=b"k9"), R2, R3], CONTENT),
        ([changed(R1, value=b"v2"), changed(R2, value=b"v1"), R3], CONTENT),
        ([changed(R1, key=b"k1v", value=b"1"), R2, R3], CONTENT),
        ([changed(R1, headers=[{"key": "h", "value": b"2"}]), R2, R3], CONTENT),
        ([changed(R1, headers=None), R2, R3], CONTENT),
        ([changed(R1, headers=None), changed(R2, headers=HEADERS), R3], CONTENT),
        ([changed(R1, partition=1), R2, R3], CONTENT),
        ([R1, R2, changed(R3, key=b"")], CONTENT),
        ([changed(R1, topic="b"), R2, changed(R3, topic="a")], CONTENT),
        ([changed(R1, topic="b"), R2, R3], CONTENT),
        ([R1, R2], "to topic '{b}' too, for which there are no rows now"),
        (
            [R1, R2, changed(R3, topic="c")],
            "to topic '{b}', and not to topic '{c}', for which there are rows now",
        ),
        (
            [R1, changed(R2, topic="c"), R3],
            "not to topic '{c}', for which there are rows now, or that was deleted and made again since",
        ),
        ([R2, R3], "with 3 row(s) of 10 bytes, and now the task has 2 row(s) of 6 bytes"),
        ([R1, R2, R3, R3], "with 3 row(s) of 10 bytes, and now the task has 4 row(s) of 12 bytes"),
    ],
)
def test_other_rows_of_the_name_are_an_error(written: Names, first: Sequence[Row], message: str) -> None:
    with pytest.raises(DeliveryError) as error:
        written.write([first, *FIRST[1:]]).run()
    assert message.format(**written.topics) in str(error.value)
    assert "these are other rows, or partitioned otherwise; give another write another" in str(error.value)
    assert str(error.value).isprintable()


def test_of_a_name_only_the_last_batch_counts_also_in_other_topics(noida: NoidaBroker) -> None:
    """The group of a task has records of earlier batches in the topics of those."""
    one, other = (noida.create_topic(partitions=PARTITIONS) for _ in range(2))
    options = {"kafka.transactional.id": f"batches-{one}"}
    for topic, batch in ((one, "x"), (other, "y"), (other, "x"), (other, "x")):
        rows = [[(batch.encode(), 0)], [(batch.encode(), 1)]]
        OnceWrite(noida.bootstrap_servers, topic, rows, {**options, "batch": batch}).run()
    assert committed(noida.bootstrap_servers, one, PARTITIONS) == [b"x"] * 2
    assert committed(noida.bootstrap_servers, other, PARTITIONS) == [b"x"] * 2 + [b"y"] * 2


def test_topic_of_another_id_is_an_error(noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers may keep the offsets of a deleted topic for a while. This one has no ids."""
    names, ids = Names(noida), dict.fromkeys("abc", uuid.UUID(int=1))
    letters = {topic: letter for letter, topic in names.topics.items()}
    monkeypatch.setattr(Metadata, "id_of", lambda _, topic: ids[letters[topic]])
    names.write(FIRST).run()
    names.write(FIRST).run()
    ids["a"] = uuid.UUID(int=2)
    deleted = f"in topic '{names.topics['a']}' of other ids, which were deleted and made again since"
    with pytest.raises(DeliveryError, match=deleted):
        names.write(FIRST).run()
    assert len(names.values()["b"]) == 3


def test_what_was_lost_of_a_write_is_written_again_and_no_other_rows(noida: NoidaBroker) -> None:
    names = Names(noida)
    write = names.write(FIRST)
    made = write.writer()
    messages = [write.message(made, number) for number in range(3)]
    with losing(messages[1].transaction), pytest.raises(DeliveryError, match="1 of 2 transactions could not"):
        made.commit(messages)
    assert names.values()["a"] == [b"v1", b"v2"]
    with pytest.raises(DeliveryError, match=CONTENT):
        names.write([[changed(R1, value=b"v9"), R2, R3], *FIRST[1:]]).run()
    for _ in range(2):
        names.write(FIRST).run()
        assert names.values() == {"a": [b"v1", b"v2"], "b": [b"v3", b"v4", b"v5"], "c": []}


# Batches of streams, without Spark


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
    needs(STREAM_SINKS)
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


@STREAM_SINKS
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


@STREAM_SINKS
def test_asynchronous_progress_is_refused_exactly_once_and_taken_at_least_once() -> None:
    brokers = {"kafka__bootstrap__servers": f"127.0.0.1:{closed_port().port}", "brokerDownTimeout": "0s"}
    progress = {
        "ASYNCProgressTrackingEnabled": "true",
        "asyncProgressTrackingCheckpointIntervalMs": "500",
        "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
    }
    once = {"delivery": "exactly-once", "kafka__transactional__id": "x"}
    with pytest.raises(
        OptionError, match=r"^option asyncProgressTrackingEnabled: delivery=exactly-once needs"
    ):
        writer(**brokers, topic="t", **once, **progress)
    for given in (progress, once | {"asyncProgressTrackingEnabled": "false"}):
        writer(**brokers, topic="t", **given)


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


def test_report_a_task_that_has_no_rows_any_more(query: Query) -> None:
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
    for mark in range(0, 200, step):  # more requests than three batches make
        own = [marked(tasks, mark) for tasks in batches]
        name = f"died-{query.topic}-{mark}"
        query.done.clear()
        with dying(mark // 2, after_it=mark % 2 == 1) as died:
            query.run(own, name, "first")
        if not died:
            break
        query.run(own, name, "second")
    assert mark > 80
    result = query.seen()
    for item in range(0, mark, step):
        there = [value.split()[1] for value in result if int(value.split()[0]) == item]
        assert there == [*VALUES, b"d", b"e", b"f"], item


# Attempts that are over and still send: nothing of theirs begins a transaction that nobody ends. The broker
# has the first protocol of transactions, where a partition joins one by AddPartitionsToTxn; tests/interop has
# the second one.

#: What an attempt is told that begins when nobody waits for it.
NOT_AWAITED: Final = "the driver does not wait for this attempt any more"
FENCED: Final = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}


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
    assert (left.open_ids, left.waiting, left.rows) == ([], {}, LATE_VALUES)


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


def test_an_attempt_without_a_waiting_driver_sends_nothing(noida: NoidaBroker) -> None:
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
    for item in (orphaned, made):
        assert NOT_AWAITED in late_attempt(write, item)
    assert nothing_is_left(noida, topic)
    assert committed(noida.bootstrap_servers, topic, PARTITIONS) == VALUES


@STREAM_SINKS
def test_an_attempt_of_a_batch_of_a_stream_that_begins_late_sends_nothing(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    batch = OnceBatch(noida.bootstrap_servers, topic, TASKS, 3, f"late-{topic}")
    made = batch.writer()
    batch.end([batch.message(made, number) for number in range(3)])
    with pytest.raises(DeliveryError, match=NOT_AWAITED):
        batch.message(made, 0, attempt=1)
    assert nothing_is_left(noida, topic)
    assert committed(noida.bootstrap_servers, topic, PARTITIONS) == VALUES


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Counter[type]:
    """Count of the requests that begin ids, and of those that fence them."""
    count: Counter[type] = Counter()
    asked, asked_together = TransactionRequests._send, TransactionRequests._send_together

    def counts(sender: TransactionRequests, request: Any) -> Any:
        count[type(request)] += 1
        return asked(sender, request)

    def counts_all(sender: TransactionRequests, requests: Any) -> Any:
        count.update(type(item) for item in requests)
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
    for item in transactions.described(left).values():
        assert (item.producer_epoch, item.transaction_timeout_ms) == (1, FENCED_TIMEOUT_MS)
    assert len(transactions.listed((), attempt_ids(topic))) == len(left) + 3 * 2


def interrupted(noida: NoidaBroker, topic: str) -> list[str]:
    """Ids of attempts of a run that died: one with a transaction, the others have begun."""
    died = OnceWrite(noida.bootstrap_servers, topic, TASKS, named(topic, batch="1"))
    made, transactions = died.writer(), transactions_of(noida)
    run_name = made._committer.run_name
    left = [transactions.begin(f"{topic}-{task}-{run_name}.7", 900_000).id for task in range(5)]
    return [died.message(made, 0).transaction.id, *left]


def test_fence_ids_also_where_brokers_do_not_list_them(noida: NoidaBroker) -> None:
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
    assert committed(noida.bootstrap_servers, topic, PARTITIONS) == VALUES


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
    assert any(repr(item) in line for item in left)
    assert f"waiting until the next run with kafka.transactional.id={topic} or for 900 s" in line
    assert "error 15 COORDINATOR_NOT_AVAILABLE" in line
    assert nothing_is_left(noida, topic)
    assert committed(noida.bootstrap_servers, topic, PARTITIONS) == VALUES


def test_a_timeout_of_users_is_never_taken_for_that_of_fenced_ids(noida: NoidaBroker) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    timeout = {"kafka.transaction.timeout.ms": str(FENCED_TIMEOUT_MS)}
    died = OnceWrite(noida.bootstrap_servers, topic, TASKS, named(topic, batch="1", **timeout))
    made = died.writer()
    assert made._committer.timeout_ms == FENCED_TIMEOUT_MS + 1


def test_finishing_job_fences_attempts(noida: NoidaBroker, capsys: pytest.CaptureFixture[str]) -> None:
    topic = noida.create_topic(partitions=PARTITIONS)
    transactions = transactions_of(noida)
    write = OnceWrite(noida.bootstrap_servers, topic, TASKS, named(topic))
    made = write.writer()
    write.message(made, 0)
    empty = transactions.begin(f"{topic}-1-{made._committer.run_name}.99", 60_000)
    connection = f"--option=kafka.bootstrap.servers={noida.bootstrap_servers}"
    argv = ["--quiet", connection, "--transactional-id", topic, "--finish", "--force"]
    assert SCRIPT.JOB.main(argv) == 0, capsys.readouterr().err
    assert transactions.describe(empty.id).producer_epoch > empty.epoch
    assert nothing_is_left(noida, topic)
