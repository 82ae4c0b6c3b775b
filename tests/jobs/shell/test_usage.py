"""Wrong arguments of `jobs/migrate.py` and `jobs/publish.py`: each is refused in one line."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster

from ..arguments import arguments_of, command, complaint

MIGRATE: Final = command("migrate")
PUBLISH: Final = command("publish")
SOURCE: Final = "--source-option=zookeeper.connect=127.0.0.1:1"
TARGET: Final = "--target-option=kafka.bootstrap.servers=127.0.0.1:1"
BOTH: Final = [SOURCE, TARGET, "--state", "state"]
CONNECTION: Final = "--option=kafka.bootstrap.servers=127.0.0.1:1"
CONNECTION_07: Final = "--option=broker.list=0:127.0.0.1:1"

#: The argument that is wrong, all arguments, and what the line says.
MIGRATE_CASES: Final = [
    ("--topic", BOTH, "one of the arguments --topic --topic-pattern is required"),
    ("--topic", [*BOTH, "--topic", ","], "option subscribe: ',' is not a topic"),
    ("--topic-pattern", [*BOTH, "--topic-pattern", "("], "option subscribePattern: '(' is not a supported"),
    (
        "--topic-pattern",
        [*BOTH, "--topic", "t", "--topic-pattern", "t"],
        "not allowed with argument --topic",
    ),
    ("--map", [*BOTH, "--topic", "t", "--map", "t"], "argument --map: 't' is not OLD=NEW"),
    (
        "--gone-broker",
        [*BOTH, "--topic", "t", "--gone-broker", "0,1"],
        "argument --gone-broker: '0,1' is not the id of a broker",
    ),
    ("--state", [SOURCE, TARGET, "--topic", "t"], "the following arguments are required: --state"),
    (
        "--replication-factor",
        [*BOTH, "--topic", "t", "--replication-factor", "0"],
        "'0' is not a whole number",
    ),
    (
        "--piece-bytes",
        [*BOTH, "--topic", "t", "--piece-bytes", "1MiB"],
        "argument --piece-bytes: '1MiB' is not a whole number",
    ),
    (
        "--source-option",
        [TARGET, "--topic", "t", "--state", "s", "--source-option", "hunter2"],
        "argument --source-option: number 1 is not KEY=VALUE",
    ),
    (
        "--source-options-file",
        [*BOTH, "--topic", "t", "--source-options-file", "not-there"],
        "argument --source-options-file: not-there: No such file",
    ),
    (
        "--target-option",
        [SOURCE, "--topic", "t", "--state", "s"],
        "exactly one of the options kafka.bootstrap",
    ),
    (
        "--target-option",
        [*BOTH, "--topic", "t", "--target-option", "topic=t"],
        "argument --target-option: topic is not for a migration",
    ),
    (
        "--source-option",
        [*BOTH, "--topic", "t", "--source-option", "valueFormat=avro"],
        "argument --source-option: valueFormat is for spark.read and df.write, and jobs handle keys and valu",
    ),
    (
        "--target-option",
        [*BOTH, "--topic", "t", "--target-option", "delivery=exactly-once"],
        "argument --target-option: delivery is set by --exactly-once and --transactional-id; leave it out",
    ),
    (
        "--exactly-once",
        [*BOTH, "--topic", "t", "--exactly-once", "--target-option", "kafka.isolation.level=read_committed"],
        "argument --target-option: kafka.isolation.level is not for --exactly-once, which reads what is com",
    ),
    (
        "--transactional-id",
        [*BOTH, "--topic", "t", "--transactional-id", "a"],
        "argument --transactional-id needs --exactly-once",
    ),
    (
        "--transactional-id",
        [*BOTH, "--topic", "t", "--exactly-once", "--transactional-id", " "],
        "option kafka.transactional.id: '' is not a name",
    ),
    (
        "--target-options-file",
        [*BOTH, "--topic", "t", "--target-options-file", "not-there"],
        "argument --target-options-file: not-there: No such file",
    ),
    ("--wrong", [*BOTH, "--topic", "t", "--wrong=hunter2"], "unknown argument --wrong"),
]
INPUT: Final = ["--input", "rows", CONNECTION]
INPUT_07: Final = ["--input", "rows", CONNECTION_07]
PUBLISH_CASES: Final = [
    ("--input", [CONNECTION, "--topic", "t"], "the following arguments are required: --input"),
    ("--topic", INPUT, "one of the arguments --topic --topic-column is required"),
    ("--topic", [*INPUT, "--topic", "t", "--option=topic=t"], "set the topic with --topic"),
    ("--topic-column", [*INPUT, "--topic", "t", "--topic-column", "c"], "not allowed with argument --topic"),
    ("--option", ["--input", "rows", "--topic", "t"], "exactly one of the options kafka.bootstrap"),
    ("--option", [*INPUT, "--topic", "t", "--option", "acks=verify"], "option acks: 'verify' is not 0 or 1"),
    (
        "--options-file",
        [*INPUT, "--topic", "t", "--options-file", "not-there"],
        "argument --options-file: not-there: No such file",
    ),
    ("--input", [*INPUT, "--topic", "t", "--input", ""], "argument --input: '' is not a path"),
    (
        "--format-option",
        [*INPUT, "--topic", "t", "--format-option", "header"],
        "argument --format-option: number 1 is not KEY=VALUE",
    ),
    ("--state", [*INPUT, "--topic", "t", "--state", ""], "argument --state: '' is not a path"),
    (
        "--state",
        [*INPUT, "--topic", "t", "--state", "s", "--option", "acks=1"],
        "option acks: with --state it is all, by which rows are found again; leave it out",
    ),
    (
        "--settle-seconds",
        [*INPUT, "--topic", "t", "--state", "s", "--settle-seconds", "0.5"],
        "argument --settle-seconds: '0.5' is not a whole number",
    ),
    (
        "--settle-seconds",
        [*INPUT, "--topic", "t", "--state", "s", "--exactly-once", "--settle-seconds", "5"],
        "argument --settle-seconds: with --exactly-once nothing is waited for",
    ),
    (
        "--exactly-once",
        [*INPUT, "--topic", "t", "--exactly-once"],
        "argument --exactly-once: needs --state or --transactional-id, by which the next run finds what a ki",
    ),
    (
        "--exactly-once",
        [*INPUT_07, "--topic", "t", "--exactly-once", "--transactional-id", "a"],
        "option delivery does not apply to Kafka 0.7",
    ),
    (
        "--transactional-id",
        [*INPUT, "--topic", "t", "--transactional-id", "a"],
        "argument --transactional-id needs --exactly-once",
    ),
    (
        "--option",
        [*INPUT, "--topic", "t", "--option=delivery=exactly-once"],
        "argument --option: delivery is set by --exactly-once and --transactional-id; leave it out",
    ),
    (
        "--settle-seconds",
        [*INPUT, "--topic", "t", "--settle-seconds", "5"],
        "argument --settle-seconds needs --state",
    ),
    (
        "--broker-column",
        [*INPUT, "--topic", "t", "--broker-column", "number"],
        "argument --broker-column: Kafka 0.8+ has no broker of a message; leave it out",
    ),
    (
        "--timestamp-column",
        [*INPUT_07, "--topic", "t", "--timestamp-column", "number"],
        "argument --timestamp-column: Kafka 0.7 has no timestamp of a message; leave it out",
    ),
    (
        "--headers-column",
        [*INPUT_07, "--topic", "t", "--headers-column", "tags"],
        "argument --headers-column: Kafka 0.7 has no headers of a message; leave it out",
    ),
]
NUMBER_NOT_FLAG: Final = "'flag' is boolean, and must be a whole number"
#: What Spark or the type of a column refuses: arguments that follow --input, and what the line says.
#: The input has the columns number (bigint), flag (boolean) and tags (a map).
SPARK_CASES: Final = [
    ("--input", CONNECTION, ["--input", "/no/such"], "Path does not exist: file:/no/such."),
    (
        "--format",
        CONNECTION,
        ["--format", "parkay"],
        "argument --format: Spark has no format 'parkay'; it has",
    ),
    ("--format", CONNECTION, ["--format", "orc"], "argument --input: cannot be read with --format orc,"),
    (
        "--format-option",
        CONNECTION,
        ["--format", "csv", "--format-option", "header=maybe"],
        "argument --input: cannot be read with --format csv, and --format-option and --schema as they are: ",
    ),
    (
        "--schema",
        CONNECTION,
        ["--schema", "number lang"],
        "argument --schema: 'number lang' is not columns with types, as 'id long, body string': [UNSUPP",
    ),
    (
        "--schema",
        CONNECTION,
        ["--schema", ""],
        "argument --schema: '' is not columns with types, as 'id long, ",
    ),
    (
        "--value-column",
        CONNECTION,
        ["--value-column", "body"],
        "argument --value-column: there is no column 'body'; there are number, flag, tags",
    ),
    (
        "--key-column",
        CONNECTION,
        ["--key-column", "numbr"],
        "argument --key-column: there is no column 'numbr'; did you mean 'number'?",
    ),
    (
        "--partition-column",
        CONNECTION,
        ["--partition-column", "flag"],
        f"argument --partition-column: {NUMBER_NOT_FLAG}",
    ),
    (
        "--broker-column",
        CONNECTION_07,
        ["--broker-column", "flag"],
        f"argument --broker-column: {NUMBER_NOT_FLAG}",
    ),
    (
        "--headers-column",
        CONNECTION,
        ["--headers-column", "number"],
        "argument --headers-column: 'number' is bigint, and must be a map, or an array of structs of key and",
    ),
    (
        "--timestamp-column",
        CONNECTION,
        ["--timestamp-column", "flag"],
        "argument --timestamp-column: 'flag' is boolean, and must be a timestamp, its text, or a",
    ),
    (
        "--topic-column",
        CONNECTION,
        ["--topic-column", "t"],
        "argument --topic-column: there is no column 't'",
    ),
]


@pytest.mark.parametrize(("argument", "argv", "said"), MIGRATE_CASES)
def test_migrate_refuses_a_wrong_argument_in_one_line(
    argument: str, argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = complaint(MIGRATE, argv, capsys)
    assert line.startswith("migrate: ")
    assert said in line, argument
    assert "hunter2" not in line


@pytest.mark.parametrize(("argument", "argv", "said"), PUBLISH_CASES)
def test_publish_refuses_a_wrong_argument_in_one_line(
    argument: str, argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = complaint(PUBLISH, argv, capsys)
    assert line.startswith("publish: ")
    assert said in line, argument


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("input") / "rows"
    columns = "id AS number", "id > 1 AS flag", "map('k', 'v') AS tags"
    spark.range(3).selectExpr(*columns).write.parquet(str(folder))
    return folder


@pytest.mark.parametrize(("argument", "connection", "argv", "said"), SPARK_CASES)
def test_publish_refuses_what_spark_refuses_in_one_line(
    argument: str,
    connection: str,
    argv: list[str],
    said: str,
    spark: SparkSession,
    rows: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(PUBLISH, "job_session", lambda _: contextlib.nullcontext(spark))
    given = ["--input", str(rows), connection, *argv]
    topic = [] if "--topic-column" in argv else ["--topic", "t"]
    line = complaint(PUBLISH, given + topic, capsys)
    assert line.startswith("publish: argument --")
    assert said in line, argument


def test_every_argument_has_a_case() -> None:
    assert {case[0] for case in MIGRATE_CASES} >= arguments_of(MIGRATE.make_parser())
    cases = [case[0] for case in PUBLISH_CASES] + [case[0] for case in SPARK_CASES]
    assert set(cases) >= arguments_of(PUBLISH.make_parser())


def test_a_name_for_a_topic_that_is_not_copied_is_refused(
    corpus: EmbeddedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [f"--source-option=zookeeper.connect={corpus.zookeeper_connect}", TARGET, "--dry-run"]
    argv += ["--topic", "debian-gzip", "--state", str(tmp_path), "--map", "other=t"]
    assert "argument --map: 'other' is not among the topics" in complaint(MIGRATE, argv, capsys)
