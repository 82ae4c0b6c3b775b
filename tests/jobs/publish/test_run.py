"""`jobs/publish.py`: rows of files become messages, which are counted, and compared with what is there; with
a state or in transactions, what an earlier run left out is written once."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.clients.writing.sender import PartitionReceipt
from spark_kafkawire.errors import DataLossError, DeliveryError, OptionError, RowError
from spark_kafkawire.jobs.progress import Progress, Work
from spark_kafkawire.jobs.publish import run as publish_job
from spark_kafkawire.jobs.publish.comparison import Comparison, Difference, survey
from spark_kafkawire.jobs.publish.options import MessageColumns, PublishOptions, messages
from spark_kafkawire.jobs.publish.run import (
    Published,
    ResumablePublish,
    publish,
    report,
    summary_of,
    table_of,
    total,
    write_once,
)
from spark_kafkawire.jobs.publish.state import PublishState
from spark_kafkawire.model import Generation, TopicPartition
from spark_kafkawire.source.exactly_once import ExactlyOnceWriter
from spark_kafkawire.source.writer import WRITE_SCHEMAS, KafkaWireBatchWriter
from tests.support import librdkafka
from tests.support.exactly_once import committed
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

from ..submitting import RunHere
from ..work import waiting


def consumed(noida: NoidaBroker, topic: str, partition: int) -> list[Record]:
    return librdkafka.consume(noida.bootstrap_servers, topic, partition)


def test_parquet_becomes_messages(
    run_here: RunHere, spark: SparkSession, noida: NoidaBroker, tmp_path: Path
) -> None:
    # Retention goes by the records' own time, and these are old.
    topic = noida.create_topic(partitions=2, config={"retention.ms": "-1"})
    # What another producer writes is not what this run has written.
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"foreign", partition=1)])
    rows = [
        (number, f"body {number}", number % 2, {"n": f"{number}"}, 1_700_000_000_000 + number)
        for number in range(40)
    ]
    schema = "id long, body string, part long, tags map<string,string>, at long"
    spark.createDataFrame(rows, schema).write.parquet(str(tmp_path / "rows"))
    code, out, err = run_here(
        "publish",
        *("--input", str(tmp_path / "rows"), "--topic", topic, "--json"),
        *("--value-column", "body", "--key-column", "id", "--partition-column", "part"),
        *("--headers-column", "tags", "--timestamp-column", "at"),
        f"--option=kafka.bootstrap.servers={noida.bootstrap_servers}",
    )
    assert code == 0, err
    summary = json.loads(out)
    assert summary["messages"] == 40
    assert [
        (item["topic"], item["partition"], item["messages"], item["start_offset"], item["stop_offset"])
        for item in summary["partitions"]
    ] == [(topic, 0, 20, 0, 20), (topic, 1, 20, 1, 21)]
    result = consumed(noida, topic, 0) + consumed(noida, topic, 1)[1:]
    assert sorted((item.key, item.value, item.headers, item.timestamp_ms) for item in result) == sorted(
        (b"%d" % number, body.encode(), (("n", b"%d" % number),), at) for number, body, _, _, at in rows
    )


def test_csv_becomes_json_in_kafka_0_7_once(
    run_here: RunHere, spark: SparkSession, corpus: EmbeddedCluster, tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_text("name,size\na,1\nb,\n")
    arguments = [
        *("--input", f"{tmp_path}/rows.csv", "--format", "csv", "--format-option", "header=true"),
        *("--schema", "name string, size long", "--topic", "published-csv"),
        *("--state", f"{tmp_path}/state", "--settle-seconds", "1"),
        f"--option=zookeeper.connect={corpus.zookeeper_connect}",
        "--option=acks=verify",
    ]
    for written_count in (2, 0):
        code, out, err = run_here("publish", *arguments, "--quiet")
        assert (code, err) == (0, "")
        *logs, written, _, result, doubled = (line.rsplit("  ", 1) for line in out.splitlines())
        assert all(words[0].startswith("published-csv ") for words in logs)
        assert (int(written[1]), int(result[1])) == (written_count, 2 - written_count)
        assert [written[0].strip(), result[0].strip()] == ["messages", "messages found"]
        assert doubled == ["messages doubled", "0"]
    options = {"zookeeper.connect": corpus.zookeeper_connect, "subscribe": "published-csv"}
    values = spark.read.format("kafkawire").options(**options).load().select("value").collect()
    assert sorted(bytes(row.value) for row in values) == [b'{"name":"a","size":1}', b'{"name":"b"}']


def made(spark: SparkSession, value: str, /, **columns: str) -> Any:
    """One message of ``SELECT value AS given``."""
    frame = spark.sql(f"SELECT {value} AS given, 'v' AS v")
    [row] = messages(frame, MessageColumns(**{"value": "v", **columns})).collect()
    return row


def test_values_are_text_bytes_or_json_and_headers_a_map_or_pairs(spark: SparkSession) -> None:
    values: dict[str, object] = {
        "'text'": "text",
        "X'00ff'": bytearray(b"\0\xff"),
        "12": "12",
        "1.50": "1.50",
        "true": "true",
        "DATE '2026-01-31'": "2026-01-31",
        "named_struct('a', 1)": '{"a":1}',
        "array(1, 2)": "[1,2]",
        "map('k', 1)": '{"k":1}',
        "CAST(NULL AS BIGINT)": None,
    }
    for given, value in values.items():
        assert made(spark, given, value="given").value == value
    for value in ("'v'", "X'76'"):
        for given in (f"map('k', {value})", f"array(named_struct('key', 'k', 'value', {value}))"):
            row = made(spark, given, headers="given")
            assert [(pair.key, bytes(pair.value)) for pair in row.headers] == [("k", b"v")]
    assert made(spark, "'t'", topic="given").topic == "t"
    # Times are timestamps, texts or milliseconds.
    for given in ("1700000000000", "TIMESTAMP '2023-11-14 22:13:20'", "'2023-11-14 22:13:20'"):
        assert made(spark, given, timestamp="given").timestamp.timestamp() == 1_700_000_000


def test_a_column_of_a_wrong_type_or_that_is_not_there_is_named(spark: SparkSession) -> None:
    wrong = ("headers", "'text'"), ("headers", "array('text')"), ("partition", "1.5"), ("broker", "true")
    for name, given in (*wrong, ("timestamp", "true")):
        with pytest.raises(OptionError, match=f"^argument --{name}-column: 'given' is .*, and must be a "):
            made(spark, given, **{name: "given"})
    with pytest.raises(OptionError, match="--key-column: there is no column 'givn'; did you mean 'given'"):
        made(spark, "1", key="givn")
    with pytest.raises(OptionError, match=r"--value-column: there is no column 'x'; there are given, v$"):
        made(spark, "1", value="x")


def test_report_what_was_written_by_log() -> None:
    one, other = TopicPartition("t", 0, 1), TopicPartition("t", 2, 0)
    receipts = [PartitionReceipt(one, 3, 300, 100, 400), PartitionReceipt(other, 1, 10, None, None)]
    receipts.append(PartitionReceipt(one, 1499, 89_700, 50, 90))
    written = total(receipts)
    assert table_of(written) == [
        ["t 0-2", "1 message", "10 bytes", ""],
        ["t 1-0", "1,502 messages", "90,000 bytes", "offsets 50 to 400"],
    ]
    assert summary_of(written, with_partitions=False) == {"messages": 1503, "bytes": 90_010}
    modern = total([PartitionReceipt(TopicPartition("t", 1), 2, 90, 7, 9)])
    assert summary_of(modern, with_partitions=True)["partitions"] == [
        {"topic": "t", "partition": 1, "messages": 2, "bytes": 90, "start_offset": 7, "stop_offset": 9}
    ]


class Writing(Progress):
    """Remembers the first count of the writing, with its fraction, for which tasks wait. Buffers between
    Spark and Python may hold all rows then, which count as written."""

    def __init__(self, goes_on: Path) -> None:
        self.shown: tuple[int, float | None] | None = None
        self._goes_on = goes_on
        goes_on.touch()

    def say(self, what: str) -> None:
        if what == "writing ...":
            self._goes_on.unlink()

    def show(self, what: str, work: Work) -> None:  # noqa: ARG002
        if work.messages and not self._goes_on.exists():
            self.shown = work.messages, work.fraction
            self._goes_on.touch()


@pytest.mark.parametrize("has_state", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_rows_are_counted_while_a_task_writes_them(
    has_state: bool, spark: SparkSession, noida: NoidaBroker, tmp_path: Path
) -> None:
    count, topic, goes_on = 100_000, noida.create_topic(), tmp_path / "goes on"
    spark.range(count, numPartitions=1).selectExpr("string(id) v").write.parquet(str(tmp_path / "rows"))
    stored = messages(spark.read.parquet(str(tmp_path / "rows")), MessageColumns(value="v"))
    options = PublishOptions(
        connection={"kafka.bootstrap.servers": noida.bootstrap_servers, "topic": topic},
        folder=str(tmp_path / "state") if has_state else None,
        settle_s=1.0 if has_state else None,
    )
    writing = Writing(goes_on)
    written = publish(waiting(stored, goes_on), options, writing).written
    assert sum(item["messages"] for item in written) == count
    assert writing.shown is not None
    messages_shown, fraction = writing.shown
    # Only a run with a state has counted the rows before.
    assert fraction == (messages_shown / count if has_state else None)


MODERN: Final = WRITE_SCHEMAS[Generation.MODERN]
OLD: Final = WRITE_SCHEMAS[Generation.V07]
RECORD: Final = (
    "topic string, partition int, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>, timestamp timestamp, timestampType int"
)
NOON: Final = dt.datetime(2026, 1, 31, 12)


def record(value: bytes | None, key: bytes | None = None, partition: int = 0, **more: Any) -> tuple[Any, ...]:
    """A record of topic t as a read has it."""
    kind, time = more.get("kind", 0), more.get("time", NOON)
    return "t", partition, key, value, more.get("headers"), time, kind


class Case:
    """Rows against records."""

    def __init__(self, spark: SparkSession, rows: DataFrame, records: Sequence[tuple[Any, ...]]) -> None:
        result = survey(rows)
        self.difference = Difference(rows, result.columns_with_nulls, MODERN)
        self.records = spark.createDataFrame(records, RECORD)

    def missing(self) -> list[Any]:
        """The values of what is missing, as they would be written."""
        return [row.value for row in self.difference.missing(self.records).collect()]

    def compared(self) -> tuple[int, int]:
        """Counts of missing and of doubled rows."""
        result = self.difference.compare(self.records)
        return result.missing_count, result.doubled_count


def given_rows(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
    """Rows of one input partition."""
    return spark.createDataFrame(rows, f"topic string, {schema}").coalesce(1)


#: Values of rows by topic, those of its records, and which are missing.
COMPARED: Final = {
    "equal": ("abaca", [b"a", b"a", b"foreign", b"foreign"], "bca"),
    "too often": ("ab", [b"a", b"a", b"a"], "b"),
    "empty": ("0123456789", [], "0123456789"),
    "all there": ("aab", [b"a", b"b", b"a"], ""),
}


def test_equal_rows_count_and_the_first_ones_are_there(spark: SparkSession) -> None:
    given = [(topic, value) for topic, (values, _, _) in COMPARED.items() for value in values]
    there = [(topic, *record(value)[1:]) for topic, (_, values, _) in COMPARED.items() for value in values]
    case = Case(spark, given_rows(spark, given, "value string"), there)
    result = case.difference.missing(case.records).collect()
    for topic, (_, _, missing) in COMPARED.items():
        assert "".join(row.value for row in result if row.topic == topic) == missing
    # What is there too often is counted and not written.
    assert case.compared() == (len(result), 2)


def test_missing_rows_come_in_the_order_of_their_input_partition(spark: SparkSession) -> None:
    rows = spark.range(0, 400, 1, 4).selectExpr("'t' AS topic", "CAST(id AS string) AS value")
    case = Case(spark, rows, [record(b"%d" % number) for number in range(0, 400, 3)])
    parts = case.difference.missing(case.records).rdd.glom().collect()
    result = [[int(row.value) for row in part] for part in parts]
    for part in result:
        # Input partitions may share a task, one after the other.
        assert part == sorted(part)
    assert sorted(itertools.chain(*result)) == [number for number in range(400) if number % 3]


def test_keys_headers_and_nulls_tell_rows_apart(spark: SparkSession) -> None:
    pair = [("h", b"\xff\x00")]
    given = [
        ("t", None, "v", None),
        ("t", "", "v", None),
        ("t", "k", None, None),
        ("t", "k", "", None),
        ("t", "k", "v", pair),
        ("t", "k", "v", pair * 2),
        ("t", "k", "v", []),
    ]
    schema = "key string, value string, headers array<struct<key:string,value:binary>>"
    records = [
        record(b"v"),
        record(b"v", b""),
        record(None, b"k"),
        record(b"", b"k"),
        record(b"v", b"k", headers=pair),
        record(b"v", b"k", headers=pair * 2),
        # No headers are null where they are read.
        record(b"v", b"k"),
    ]
    # Topic n has another record in the place of record n, which does not stand for it.
    numbers = range(len(given))
    rows = given_rows(spark, [(f"{number}", *row[1:]) for number in numbers for row in given], schema)
    there = [
        (f"{number}", *records[location if location != number else number - 1][1:])
        for number in numbers
        for location in numbers
    ]
    case = Case(spark, rows, there)
    assert case.compared() == (len(given), len(given))
    missing = case.difference.missing(case.records).orderBy("topic").collect()
    assert [(row.topic, row.key, row.value, row.headers or None) for row in missing] == [
        (f"{number}", given[number][1], given[number][2], given[number][3] or None) for number in numbers
    ]


def test_a_partition_that_some_rows_leave_open_tells_none_apart(spark: SparkSession) -> None:
    rows = given_rows(spark, [("t", "v", None), ("t", "w", 1)], "value string, partition int")
    assert survey(rows).columns_with_nulls == {"partition"}
    assert Case(spark, rows, [record(b"v", partition=2), record(b"w", partition=1)]).compared() == (0, 0)


def test_a_partition_and_a_time_that_rows_name_tell_them_apart(spark: SparkSession) -> None:
    """Times to the millisecond."""
    later = NOON + dt.timedelta(microseconds=1999)
    given = [("t", "v", 0, NOON), ("t", "v", 1, NOON), ("t", "v", 1, later)]
    rows = given_rows(spark, given, "value string, partition int, timestamp timestamp")
    there = record(b"v", partition=1, time=NOON + dt.timedelta(milliseconds=1))
    case = Case(spark, rows, [there, there])
    missing = case.difference.missing(case.records).collect()
    assert [(row.value, row.partition, row.timestamp) for row in missing] == [("v", 0, NOON), ("v", 1, NOON)]
    assert case.compared() == (2, 1)


def test_a_time_that_brokers_do_not_keep_tells_none_apart(spark: SparkSession) -> None:
    later = NOON + dt.timedelta(hours=1)
    given = [(topic, value, NOON) for topic in "tu" for value in "vw"]
    rows = given_rows(spark, given, "value string, timestamp timestamp")
    there = [(topic, *record(b"v", time=later, kind=kind)[1:]) for topic, kind in (("t", 1), ("u", -1))]
    case = Case(spark, rows, there)
    assert case.missing() == ["w", "w"]
    assert case.compared() == (2, 0)


def test_in_kafka_0_7_value_and_place_are_all_that_is_kept(spark: SparkSession) -> None:
    schema = "key string, value string, broker int, partition int"
    rows = given_rows(spark, [("t", "k", "v", 1, 0), ("t", "k", "v", 0, 1)], schema)
    difference = Difference(rows, survey(rows).columns_with_nulls, OLD)
    assert difference.record_columns == {"topic", "value", "broker", "partition"}
    records = spark.createDataFrame(
        [(b"v", "t", 1, 0)], "value binary, topic string, partition int, broker int"
    )
    [missing] = difference.missing(records).collect()
    assert (missing.broker, missing.partition) == (1, 0)
    assert difference.compare(records) == Comparison(1, 0)


def test_the_checksum_of_a_survey_knows_rows_and_not_their_order(spark: SparkSession) -> None:
    def topics(*values: str) -> object:
        return survey(given_rows(spark, [("t", value) for value in values], "value string")).topics

    assert topics("a", "b", "b") == topics("b", "a", "b")
    assert topics("a", "b", "b") != topics("b", "a", "a")


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
    return publish(rows, parsed(options, state), Progress())


def parsed(options: dict[str, str], state: Path) -> PublishOptions:
    return PublishOptions(connection={**OPTIONS, **options}, folder=str(state), settle_s=0.2)


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
    written = sum(item["messages"] for item in second.written)
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


def test_write_or_report_rows_of_tasks_that_spark_ran_again(
    spark: SparkSession, noida: NoidaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = noida.create_topic(partitions=2)
    rounds = []

    def lose_some(rows: DataFrame, writer: KafkaWireBatchWriter) -> Any:
        rounds.append(1)
        return write_once(rows.where("CAST(key AS int) < 50") if len(rounds) < 2 else rows, writer)

    monkeypatch.setattr(publish_job, "write_once", lose_some)
    options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "topic": topic}
    with monkeypatch.context() as patched:
        patched.setattr(publish_job, "_ROUNDS_MAX", 1)
        with pytest.raises(DeliveryError, match=r"^250 rows are still missing after 1 round"):
            run(rows_of(spark), options, tmp_path)
    rounds.clear()
    topic = options["topic"] = noida.create_topic(partitions=2)
    done = run(rows_of(spark), options, tmp_path / "other")
    assert sum(item["messages"] for item in done.written) == COUNT
    assert len(rounds) == 2
    assert found(noida, topic) == expected()


def test_a_task_that_spark_runs_again_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(_: Any) -> Any:
        raise DeliveryError("t 0: lost")

    writer: Any = SimpleNamespace(write=write)
    for attempt in (1, 0):
        context = SimpleNamespace(attemptNumber=lambda attempt=attempt: attempt)
        monkeypatch.setattr(publish_job, "TaskContext", SimpleNamespace(get=lambda context=context: context))
        receipts, error = publish_job._attempt_once(writer, iter(()))
        assert receipts == ()
        assert error is None if attempt else str(error) == "t 0: lost"


def test_report_a_row_that_cannot_be_written_when_all_tasks_have_ended(
    spark: SparkSession, noida: NoidaBroker, tmp_path: Path
) -> None:
    topic = noida.create_topic(partitions=2)
    rows = spark.range(0, 10, 1, 2).selectExpr("CAST(id AS string) AS value", "IF(id = 0, 9, 0) AS partition")
    with pytest.raises(RowError, match=r"batch 0 of the task: row 0: topic .* has no partition 9"):
        run(rows, {"kafka.bootstrap.servers": noida.bootstrap_servers, "topic": topic}, tmp_path)
    # The other task has written its rows.
    assert sum(found(noida, topic).values()) == 5


def test_report_equal_messages_of_others(spark: SparkSession, noida: NoidaBroker, tmp_path: Path) -> None:
    topic = noida.create_topic(partitions=2)
    options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "topic": topic}
    rows = spark.range(0, 10, 1, 2).selectExpr("CAST(id AS string) AS value")

    given = parsed(options, tmp_path)

    class Twice(ResumablePublish):
        def _records(self, difference: Any) -> DataFrame:
            librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"7"), Record(b"11")])
            return super()._records(difference)

    done = Twice(rows, given, Progress()).run()
    assert (done.found_count, done.doubled_count) == (0, 1)
    with pytest.raises(DeliveryError, match=r"^1 message is in the topic more often than the rows are"):
        report(done, as_json=False)
    again = run(rows, options, tmp_path)
    assert report(again, as_json=True) == {
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
        options = PublishOptions(connection=given, exactly_once=True, **more)
        return publish(plain_rows(self.spark) if rows is None else rows, options, Progress())

    def seen(self) -> list[bytes]:
        return committed(self.servers, self.topic, 2)


@pytest.fixture
def once(spark: SparkSession, noida: NoidaBroker) -> Once:
    return Once(spark, noida)


def counts(published: Published) -> tuple[int, int | None]:
    return sum(item["messages"] for item in published.written), published.found_count


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
        once.run(folder=str(tmp_path / "s"))
    assert len(once.seen()) == there
    assert counts(once.run(folder=str(tmp_path / "s"))) == (ONCE_COUNT - there, there)
    assert once.seen() == VALUES
    again = once.run(folder=str(tmp_path / "s"))
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
    assert once.seen() == [b"value %d" % item for item in range(100, 150)]
    assert committed(once.servers, other, 2) == []


def test_a_run_whose_task_fails_leaves_nothing(once: Once) -> None:
    rows = plain_rows(once.spark)
    failing = rows.selectExpr(f"if(value = 'value {ONCE_COUNT - 1}', raise_error('broken row'), value) value")
    with pytest.raises(Exception, match="broken row"):
        once.run(failing, transactional_id=once.topic)
    assert once.seen() == []
    assert counts(once.run(rows, transactional_id=once.topic)) == (ONCE_COUNT, 0)
    assert once.seen() == VALUES
