"""The command line of ``jobs/stream_copy.py``: each argument that is wrong is refused before Spark starts."""

from __future__ import annotations

from typing import Final

import pytest

from spark_kafkawire.jobs.stream_copy.options import StreamCopyOptions

from ..arguments import arguments_of, command, complaint

SCRIPT: Final = command("stream_copy")
SOURCE: Final = "--source-option=kafka.bootstrap.servers=127.0.0.1:1"
SOURCE_07: Final = "--source-option=zookeeper.connect=127.0.0.1:1"
TARGET_07: Final = "--target-option=zookeeper.connect=127.0.0.1:2"
TARGET: Final = "--target-option=kafka.bootstrap.servers=127.0.0.1:2"
GOOD: Final = (SOURCE, TARGET, "--topic", "t", "--checkpoint", "c")
GOOD_07: Final = (SOURCE_07, TARGET, "--topic", "t", "--checkpoint", "c")
#: The argument that is wrong, all arguments, and what the line says.
CASES: Final = [
    ("--topic", GOOD[:2] + GOOD[4:], "one of the arguments --topic --topic-pattern is required"),
    ("--topic", (*GOOD[:2], "--topic", ",", *GOOD[4:]), "option subscribe: ',' is not a topic"),
    (
        "--topic-pattern",
        (*GOOD[:2], "--topic-pattern", "(", *GOOD[4:]),
        "option subscribePattern: '(' is not",
    ),
    ("--checkpoint", GOOD[:4], "the following arguments are required: --checkpoint"),
    ("--checkpoint", (*GOOD[:4], "--checkpoint", ""), "argument --checkpoint: '' is not a path"),
    (
        "--starting",
        (*GOOD, "--starting", "soon"),
        "argument --starting: 'soon' is not earliest, latest, a time",
    ),
    ("--starting", (*GOOD, "--starting", '{"t":'), "option startingOffsets: '{\"t\":' is not of the form"),
    ("--max-offsets", (*GOOD, "--max-offsets", "0"), "argument --max-offsets: '0' is not a whole number"),
    (
        "--max-offsets",
        (*GOOD_07, "--max-offsets", "5"),
        "--max-offsets: these brokers count bytes; use --max-b",
    ),
    (
        "--max-bytes",
        (*GOOD, "--max-bytes", "5"),
        "--max-bytes: these brokers count records; use --max-offsets",
    ),
    ("--group", (*GOOD, "--group", " "), "option kafka.group.id: ' ' is not the name of a consumer group"),
    ("--group", (*GOOD_07, "--group", "a/b"), "option kafka.group.id: 'a/b' is not the name of a node"),
    (
        "--group",
        ("--source-option=broker.list=0:h:1", *GOOD[1:], "--group", "g"),
        "argument --group: 0.7 keeps groups in ZooKeeper; set zookeeper.connect, not broker.list",
    ),
    ("--interval", (*GOOD, "--interval", "0"), "argument --interval: '0' is not a whole number above zero"),
    (
        "--interval",
        (*GOOD, "--available-now", "--interval", "5"),
        "not allowed with argument --available-now",
    ),
    ("--output", (*GOOD, "--output", "o"), "set either --target-option, the cluster to copy to, or --output"),
    ("--output", (GOOD[0], *GOOD[2:]), "set either --target-option, the cluster to copy to, or --output"),
    (
        "--target-topic",
        (GOOD[0], *GOOD[2:], "--output", "o", "--target-topic", "x"),
        "argument --target-topic: needs --target-option",
    ),
    (
        "--target-topic",
        (SOURCE, TARGET.replace(":2", ":1"), *GOOD[2:], "--target-topic", "t"),
        "argument --target-topic: source and target are the same topic of the same cluster",
    ),
    (
        "--target-topic",
        (
            SOURCE,
            TARGET.replace(":2", ":1"),
            "--topic-pattern",
            "t",
            *GOOD[4:],
            "--target-topic",
            "copy-of-t",
        ),
        "argument --target-topic: source and target are the same topic of the same cluster",
    ),
    (
        "--target-topic",
        (SOURCE, TARGET.replace(":2", ":1"), *GOOD[2:]),
        "argument --target-topic: source and target are the same topic of the same cluster",
    ),
    (
        "--keep-partitions",
        (*GOOD_07, "--keep-partitions"),
        "argument --keep-partitions: the partitions of 0.7 are numbered on each broker",
    ),
    (
        "--keep-partitions",
        (GOOD[0], *GOOD[2:], "--output", "o", "--keep-partitions"),
        "argument --keep-partitions: needs --target-option",
    ),
    ("--source-option", GOOD[1:], "set exactly one of the options kafka.bootstrap.servers"),
    (
        "--source-option",
        (*GOOD, "--source-option", "hunter2"),
        "argument --source-option: number 2 is not KEY=",
    ),
    (
        "--source-option",
        (*GOOD, "--source-option", "startingOffsets=latest"),
        "argument --source-option: startingOffsets is set by the job itself; use --starting",
    ),
    (
        "--source-option",
        (*GOOD, "--source-option", "endingOffsets=latest"),
        "option endingOffsets is for batch reads: a stream has no end",
    ),
    ("--source-options-file", (*GOOD, "--source-options-file", "not-there"), "not-there: No such file"),
    (
        "--target-option",
        (*GOOD, "--target-option", "topic=t"),
        "argument --target-option: topic is set by the job itself; use --target-topic",
    ),
    ("--target-option", (*GOOD, "--target-option", "acks=verify"), "option acks: 'verify' is not 0 or 1"),
    ("--target-options-file", (*GOOD, "--target-options-file", "not-there"), "not-there: No such file"),
    ("--wrong", (*GOOD, "--wrong=hunter2"), "unknown argument --wrong"),
    (
        "--bootstrap-server",
        (*GOOD, "--bootstrap-server", "h:9092"),
        "unknown argument --bootstrap-server (did you mean --source-option or --target-option kafka.boot",
    ),
]


@pytest.mark.parametrize(("argument", "argv", "said"), CASES)
def test_a_wrong_argument_is_refused_in_one_line_before_spark_starts(
    argument: str,
    argv: tuple[str, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(SCRIPT, "job_session", None)
    line = complaint(SCRIPT, [*argv], capsys)
    assert line.startswith("stream_copy: ")
    assert said in line, argument
    assert "hunter2" not in line


def test_every_argument_has_a_case() -> None:
    flags = {"--available-now"}
    assert {case[0] for case in CASES} >= arguments_of(SCRIPT.make_parser()) - flags


def options_of(*argv: str) -> StreamCopyOptions:
    options: StreamCopyOptions = SCRIPT.parse_arguments(SCRIPT.make_parser().parse_args(argv))
    return options


@pytest.mark.parametrize(
    ("argv", "columns", "left_out"),
    [
        (GOOD, ["headers", "key", "timestamp", "topic", "value"], ()),
        ((*GOOD, "--target-topic", "x"), ["headers", "key", "timestamp", "value"], ()),
        ((*GOOD, "--keep-partitions"), ["headers", "key", "partition", "timestamp", "topic", "value"], ()),
        (GOOD_07, ["topic", "value"], ()),
        ((SOURCE, TARGET_07, *GOOD[2:]), ["key", "topic", "value"], ("headers", "key", "timestamp")),
        (
            (SOURCE_07, TARGET_07, *GOOD[2:], "--keep-partitions"),
            ["broker", "partition", "topic", "value"],
            (),
        ),
    ],
)
def test_what_both_kinds_of_kafka_have_is_copied(
    argv: tuple[str, ...], columns: list[str], left_out: tuple[str, ...]
) -> None:
    options = options_of(*argv)
    assert sorted(options.columns) == columns
    assert options.left_out == left_out


def test_what_a_stream_is_given_follows_from_the_arguments() -> None:
    assert options_of(*GOOD).reading == {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "subscribe": "t",
        "startingOffsets": "earliest",
        "startingOffsetsByTimestampStrategy": "latest",
        "includeHeaders": "true",
    }
    limited = options_of(*GOOD, "--max-offsets", "9", "--starting", "latest", "--group", "g").reading
    assert (limited["maxOffsetsPerTrigger"], limited["startingOffsets"]) == ("9", "latest")
    assert limited["kafka.group.id"] == "g"
    of_07 = options_of(*GOOD_07, "--max-bytes", "9", "--starting", "5").reading
    assert (of_07["maxBytesPerTrigger"], of_07["startingTimestamp"]) == ("9", "5")
    assert "includeHeaders" not in of_07
