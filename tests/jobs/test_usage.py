"""Each argument of `jobs/migrate.py` and `jobs/publish.py` that is wrong is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.broker import EmbeddedCluster

from .arguments import arguments_of, complaint, script

MIGRATE: Final = script("migrate")
PUBLISH: Final = script("publish")
SOURCE: Final = "--source-option=zookeeper.connect=127.0.0.1:1"
TARGET: Final = "--target-option=kafka.bootstrap.servers=127.0.0.1:1"
BOTH: Final = [SOURCE, TARGET, "--state", "state"]
CONNECTION: Final = "--option=kafka.bootstrap.servers=127.0.0.1:1"

#: The argument that is wrong, all arguments, and what the line says.
MIGRATE_CASES: Final = [
    ("--topic", BOTH, "one of the arguments --topic --topic-pattern is required"),
    ("--topic", [*BOTH, "--topic", ","], "option subscribe: ',' is not a topic"),
    ("--topic-pattern", [*BOTH, "--topic-pattern", "("], "option subscribePattern: '(' is not a regular"),
    (
        "--topic-pattern",
        [*BOTH, "--topic", "t", "--topic-pattern", "t"],
        "not allowed with argument --topic",
    ),
    ("--map", [*BOTH, "--topic", "t", "--map", "t"], "argument --map: 't' is not OLD=NEW"),
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
        "--target-options-file",
        [*BOTH, "--topic", "t", "--target-options-file", "not-there"],
        "argument --target-options-file: not-there: No such file",
    ),
    ("--wrong", [*BOTH, "--topic", "t", "--wrong=hunter2"], "unknown argument --wrong"),
]
INPUT: Final = ["--input", "rows", CONNECTION]
PUBLISH_CASES: Final = [
    ("--input", [CONNECTION, "--topic", "t"], "the following arguments are required: --input"),
    ("--topic", INPUT, "one of the arguments --topic --topic-column is required"),
    ("--topic", [*INPUT, "--topic", "t", "--option=topic=t"], "topic is told by --topic"),
    ("--topic-column", [*INPUT, "--topic", "t", "--topic-column", "c"], "not allowed with argument --topic"),
    ("--option", ["--input", "rows", "--topic", "t"], "exactly one of the options kafka.bootstrap"),
    ("--option", [*INPUT, "--topic", "t", "--option", "acks=verify"], "option acks: 'verify' is not 0 or 1"),
    (
        "--options-file",
        [*INPUT, "--topic", "t", "--options-file", "not-there"],
        "argument --options-file: not-there: No such file",
    ),
    (
        "--format-option",
        [*INPUT, "--topic", "t", "--format-option", "header"],
        "argument --format-option: number 1 is not KEY=VALUE",
    ),
]
#: Arguments of publish whose values Spark or a column's type refuses: they have tests of their own.
NEEDS_SPARK: Final = {"--format", "--schema"} | {
    f"--{name}-column" for name in ("value", "key", "partition", "broker", "headers", "timestamp")
}


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


def test_every_argument_has_a_case() -> None:
    assert {case[0] for case in MIGRATE_CASES} >= arguments_of(MIGRATE.make_parser())
    assert {case[0] for case in PUBLISH_CASES} | NEEDS_SPARK >= arguments_of(PUBLISH.make_parser())


def test_a_name_for_a_topic_that_is_not_copied_is_refused(
    corpus: EmbeddedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [f"--source-option=zookeeper.connect={corpus.zookeeper_connect}", TARGET, "--dry-run"]
    argv += ["--topic", "debian-gzip", "--state", str(tmp_path), "--map", "other=t"]
    assert "argument --map: 'other' is not among the topics" in complaint(MIGRATE, argv, capsys)
