"""`publish` with a state or in transactions: what an earlier run left out is written once."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.errors import DataLossError, DeliveryError, OptionError, RowError
from spark_kafkawire.jobs.publish import run as publish_job
from spark_kafkawire.jobs.publish import write as publish_write
from spark_kafkawire.jobs.publish.options import PublishOptions
from spark_kafkawire.jobs.publish.report import report
from spark_kafkawire.jobs.publish.rows import MessageColumns, messages
from spark_kafkawire.jobs.publish.run import Published, ResumablePublish, publish
from spark_kafkawire.jobs.publish.state import PublishState
from spark_kafkawire.jobs.publish.write import write_once
from spark_kafkawire.jobs.shell.progress import Progress
from spark_kafkawire.source.exactly_once import ExactlyOnceWriter
from spark_kafkawire.source.writer import KafkaWireBatchWriter
from tests.support import librdkafka
from tests.support.exactly_once import committed
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

from ..arguments import RunHere

COUNT: Final = 300
#: Several batches for each task.
OPTIONS: Final = {"batchBytes": "1KiB", "retryBackoff": "5ms"}


class Broken(Exception):
    """Stands for a kill."""


def rows_of(spark: SparkSession, count: int = COUNT) -> DataFrame:
    """Rows of two tasks; the last third of them are equal ones."""
    numbers = spark.range(0, count, 1, 2).selectExpr(f"least(id, {count * 2 // 3}) AS id")
    frame = numbers.selectExpr("CAST(id AS string) AS k", "concat('value ', id) AS v", "map('n', id) AS h")
    return messages(frame, MessageColumns(value="v", key="k", headers="h"))


def expected(count: int = COUNT) -> Counter[tuple[bytes, bytes]]:
    numbers = [min(number, count * 2 // 3) for number in range(count)]
    return Counter((b"%d" % number, b"value %d" % number) for number in numbers)


def found(noida: NoidaBroker, topic: str, partitions: int = 2) -> Counter[tuple[Any, Any]]:
    records = [
        record
        for partition in range(partitions)
        for record in librdkafka.consume(noida.bootstrap_servers, topic, partition)
    ]
    return Counter((record.key, record.value) for record in records)


def run(rows: DataFrame, options: dict[str, str], state: Path) -> Published:
    return publish(rows, parsed(options, state), Progress(None))


def parsed(options: dict[str, str], state: Path) -> PublishOptions:
    return PublishOptions.parse({**OPTIONS, **options}, state=str(state), settle_s=0.2)


def writing_only(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next run write only some rows, and end as if it was killed."""

    def write_some(rows: DataFrame, writer: KafkaWireBatchWriter) -> Any:
        write_once(rows.where(condition), writer)
        monkeypatch.setattr(publish_job, "write_once", write_once)
        raise Broken

    monkeypatch.setattr(publish_job, "write_once", write_some)


def test_a_run_that_was_cut_off_is_finished_by_the_next_and_then_nothing_is_written(
    spark: SparkSession, noida: NoidaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows name their topics, and are found in them again."""
    topics = [noida.create_topic(partitions=2) for _ in range(2)]
    choice = f"IF(CAST(key AS int) % 2 = 0, '{topics[0]}', '{topics[1]}')"
    rows = rows_of(spark).selectExpr("*", f"{choice} AS topic")
    # Before the publication, and of another producer: not what it has written.
    librdkafka.produce(noida.bootstrap_servers, topics[1], [Record(b"value 1", key=b"1")])
    options = {"kafka.bootstrap.servers": noida.bootstrap_servers}
    writing_only("CAST(key AS int) % 3 > 0", monkeypatch)
    with pytest.raises(Broken):
        run(rows, options, tmp_path)
    librdkafka.produce(noida.bootstrap_servers, topics[1], [Record(b"foreign")])

    second = run(rows, options, tmp_path)
    written = sum(each.message_count for each in second.written)
    assert (written + (second.found_count or 0), second.doubled_count) == (COUNT, 0)
    assert 0 < written < COUNT
    others = Counter({(b"1", b"value 1"): 1, (None, b"foreign"): 1})

    def assert_all_there() -> None:
        for remainder, topic in enumerate(topics):
            own = Counter({key: count for key, count in expected().items() if int(key[0]) % 2 == remainder})
            assert found(noida, topic) == (own + others if remainder else own)

    assert_all_there()

    assert run(rows, options, tmp_path) == Published((), COUNT, 0, was_done=True)
    assert_all_there()
    for wrong, said in (
        ("CAST(NULL AS string)", r"300 row\(s\) name no topic; fill it$"),
        ("'a b'", "topic 'a b': the brokers refuse characters"),
    ):
        with pytest.raises(RowError, match=f"^argument --topic-column: {said}"):
            run(rows_of(spark).selectExpr("*", f"{wrong} AS topic"), options, tmp_path / "wrong")


def test_rows_of_tasks_that_spark_ran_again_are_written_in_the_next_round(
    spark: SparkSession, noida: NoidaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = noida.create_topic(partitions=2)
    rounds = []

    def lose_some(rows: DataFrame, writer: KafkaWireBatchWriter) -> Any:
        rounds.append(1)
        return write_once(rows.where("CAST(key AS int) < 50") if len(rounds) < 2 else rows, writer)

    monkeypatch.setattr(publish_job, "write_once", lose_some)
    options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "topic": topic}
    done = run(rows_of(spark), options, tmp_path)
    assert sum(each.message_count for each in done.written) == COUNT
    assert len(rounds) == 2
    assert found(noida, topic) == expected()


@pytest.mark.nightly
def test_rows_that_stay_missing_are_an_error_in_the_end(
    spark: SparkSession, noida: NoidaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish_job, "write_once", lambda *_: [])
    monkeypatch.setattr(publish_job, "_ROUNDS_MAX", 2)
    options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "topic": noida.create_topic()}
    with pytest.raises(DeliveryError, match=r"^300 rows are still missing after 2 rounds"):
        run(rows_of(spark), options, tmp_path)


class Attempt:
    """A task's context."""

    def __init__(self, number: int) -> None:
        self._number = number

    def get(self) -> Attempt:
        return self

    def attemptNumber(self) -> int:
        return self._number


class Refusing:
    """A writer that must not be asked, or that fails."""

    def write(self, _: Any) -> Any:
        raise DeliveryError("t 0: lost")


def test_a_task_that_spark_runs_again_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    once = publish_write._Once(Refusing())  # type: ignore[arg-type]
    monkeypatch.setattr(publish_write, "TaskContext", Attempt(1))
    assert once(iter(())) == publish_write._Outcome()
    monkeypatch.setattr(publish_write, "TaskContext", Attempt(0))
    assert str(once(iter(())).error) == "t 0: lost"


def test_a_row_that_cannot_be_written_is_told_when_all_tasks_have_ended(
    spark: SparkSession, noida: NoidaBroker, tmp_path: Path
) -> None:
    topic = noida.create_topic(partitions=2)
    rows = spark.range(0, 10, 1, 2).selectExpr("CAST(id AS string) AS value", "IF(id = 0, 9, 0) AS partition")
    with pytest.raises(RowError, match=r"batch 0 of the task: row 0: topic .* has no partition 9"):
        run(rows, {"kafka.bootstrap.servers": noida.bootstrap_servers, "topic": topic}, tmp_path)
    # The other task has written its rows.
    assert sum(found(noida, topic).values()) == 5


def test_equal_messages_of_others_are_told(spark: SparkSession, noida: NoidaBroker, tmp_path: Path) -> None:
    topic = noida.create_topic(partitions=2)
    options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "topic": topic}
    rows = spark.range(0, 10, 1, 2).selectExpr("CAST(id AS string) AS value")

    given = parsed(options, tmp_path)
    assert given.state is not None

    class Twice(ResumablePublish):
        def _records(self, difference: Any) -> DataFrame:
            librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"7"), Record(b"11")])
            return super()._records(difference)

    done = Twice(rows, given, given.state, Progress(None)).run()
    assert (done.found_count, done.doubled_count) == (0, 1)
    out = io.StringIO()
    with pytest.raises(DeliveryError, match=r"^1 message is in the topic more often than the rows are"):
        report(done, out, as_json=False)
    again = run(rows, options, tmp_path)
    assert report(again, out, as_json=True) == {
        "messages": 0,
        "bytes": 0,
        "partitions": [],
        "messages_found": 10,
        "messages_doubled": 1,
    }


def test_a_partition_that_has_lost_its_start_is_an_error_and_nothing_is_written(
    spark: SparkSession, noida: NoidaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = noida.create_topic(partitions=2)
    options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "topic": topic}
    writing_only("CAST(key AS int) % 3 > 0", monkeypatch)
    with pytest.raises(Broken):
        run(rows_of(spark), options, tmp_path)
    before = found(noida, topic)
    noida.delete_records(topic, 1, 5)
    with pytest.raises(DataLossError, match=rf"^{topic} 1 goes from 5 to .* from offset 0 on was deleted;"):
        run(rows_of(spark), options, tmp_path)
    assert sum(found(noida, topic).values()) == sum(before.values()) - 5


def test_speculation_is_refused(tmp_path: Path) -> None:
    rows: Any = SimpleNamespace(sparkSession=SimpleNamespace(conf={"spark.speculation": "true"}))
    with pytest.raises(OptionError, match=r"^argument --state: spark.speculation runs tasks twice"):
        run(rows, {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}, tmp_path)


def test_kafka_0_7_a_run_that_was_cut_off_is_finished(
    spark: SparkSession, corpus: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody has registered this topic yet: the first run makes its partitions.
    options = {"zookeeper.connect": corpus.zookeeper_connect, "topic": "resumed", "compression": "gzip"}
    rows = rows_of(spark).select("key", "value")
    writing_only("CAST(key AS int) % 3 > 0", monkeypatch)
    with pytest.raises(Broken):
        run(rows, options, tmp_path)
    second = run(rows, options, tmp_path)
    assert 0 < (second.found_count or 0) < COUNT
    assert second.doubled_count == 0
    reading = {"zookeeper.connect": corpus.zookeeper_connect, "subscribe": "resumed"}
    there = spark.read.format("kafkawire").options(**reading).load().select("value").collect()
    values = Counter(value for (_, value), count in expected().items() for _ in range(count))
    assert Counter(bytes(row.value) for row in there) == values
    recorded = json.loads((tmp_path / "run-0.json").read_text())["ends"]["resumed"]
    assert recorded == {f"{broker}-{partition}": 0 for broker in (0, 1) for partition in (0, 1, 2)}


ONCE_COUNT: Final = 300
VALUES: Final = sorted(b"value %d" % number for number in range(ONCE_COUNT))


def plain_rows(spark: SparkSession, count: int = ONCE_COUNT) -> DataFrame:
    numbers = spark.range(0, count, 1, 3)
    return messages(numbers.selectExpr("concat('value ', id) AS v"), MessageColumns(value="v"))


class Once:
    """Publications of rows to a topic in transactions."""

    def __init__(self, spark: SparkSession, noida: NoidaBroker) -> None:
        self.spark = spark
        self.servers = noida.bootstrap_servers
        self.topic = noida.create_topic(partitions=2)

    def run(self, rows: DataFrame | None = None, **more: Any) -> Published:
        given = {"kafka.bootstrap.servers": self.servers, "topic": self.topic}
        options = PublishOptions.parse(given, exactly_once=True, **more)
        return publish(plain_rows(self.spark) if rows is None else rows, options, Progress(None))

    def seen(self) -> list[bytes]:
        return committed(self.servers, self.topic, 2)


@pytest.fixture
def once(spark: SparkSession, noida: NoidaBroker) -> Once:
    return Once(spark, noida)


def counts(published: Published) -> tuple[int, int | None]:
    return sum(each.message_count for each in published.written), published.found_count


def breaking(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, *, after_it: bool) -> None:
    """Let the next call of a method end the run as a kill does, before or after it."""
    method = getattr(owner, name)

    def breaks(*args: Any) -> None:
        monkeypatch.setattr(owner, name, method)
        if after_it:
            method(*args)
        raise Broken

    monkeypatch.setattr(owner, name, breaks)


@pytest.mark.parametrize(
    ("owner", "name", "after_it", "there"),
    [
        pytest.param(PublishState, "begin", True, 0, id="begun", marks=pytest.mark.nightly),
        pytest.param(ExactlyOnceWriter, "commit", False, 0, id="written"),
        pytest.param(ExactlyOnceWriter, "commit", True, ONCE_COUNT, id="committed"),
        pytest.param(PublishState, "finish", False, ONCE_COUNT, id="not noted", marks=pytest.mark.nightly),
    ],
)
def test_a_run_that_was_cut_off_is_finished_by_the_next(
    once: Once,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    after_it: bool,
    there: int,
) -> None:
    monkeypatch.setattr(ExactlyOnceWriter, "abort", lambda *_: None)  # a kill aborts nothing
    breaking(monkeypatch, owner, name, after_it=after_it)
    with pytest.raises(Broken):
        once.run(state=str(tmp_path / "s"))
    assert len(once.seen()) == there
    assert counts(once.run(state=str(tmp_path / "s"))) == (ONCE_COUNT - there, there)
    assert once.seen() == VALUES
    again = once.run(state=str(tmp_path / "s"))
    assert (counts(again), again.was_done) == ((0, ONCE_COUNT), True)
    assert once.seen() == VALUES


def test_a_given_name_needs_no_state(once: Once) -> None:
    assert counts(once.run(transactional_id=once.topic)) == (ONCE_COUNT, 0)
    assert counts(once.run(transactional_id=once.topic)) == (0, ONCE_COUNT)
    with pytest.raises(Exception, match="these are other rows, or partitioned otherwise"):
        once.run(plain_rows(once.spark, ONCE_COUNT + 10), transactional_id=once.topic)
    assert once.seen() == VALUES


def test_a_given_name_is_refused_for_another_topic_and_for_other_rows(
    run_here: RunHere, noida: NoidaBroker, once: Once, tmp_path: Path
) -> None:
    """By its command line; the other rows have the same sizes."""
    topic, other = once.topic, noida.create_topic(partitions=2)
    for name, start in (("a", 100), ("b", 200)):
        numbers = once.spark.range(start, start + 50, 1, 1).selectExpr("concat('value ', id) AS v")
        numbers.write.parquet(str(tmp_path / name))
    ended = []
    for name, to in (("a", topic), ("a", other), ("b", topic)):
        given = f"--option kafka.bootstrap.servers={once.servers} --input {tmp_path / name}"
        given += f" --topic {to} --value-column v --exactly-once --transactional-id nightly-{topic}"
        ended.append(run_here("publish", *given.split(), "--quiet"))
    assert [code == 0 for code, _, _ in ended] == [True, False, False]
    assert f"to topic '{topic}', and not to topic '{other}', for which there are rows now" in ended[1][2]
    assert "with as many rows and bytes, but another content" in ended[2][2]
    assert once.seen() == [b"value %d" % each for each in range(100, 150)]
    assert committed(once.servers, other, 2) == []


def test_a_run_whose_task_fails_leaves_nothing(once: Once) -> None:
    rows = plain_rows(once.spark)
    failing = rows.selectExpr(f"if(value = 'value {ONCE_COUNT - 1}', raise_error('broken row'), value) value")
    with pytest.raises(Exception, match="broken row"):
        once.run(failing, transactional_id=once.topic)
    assert once.seen() == []
    assert counts(once.run(rows, transactional_id=once.topic)) == (ONCE_COUNT, 0)
    assert once.seen() == VALUES
