"""Wrong arguments of each job: each is refused in one line, which shows no value that may be a secret."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster

from .arguments import arguments_of, command, complaint

_HERE: Final = "127.0.0.1:1"
#: Short words for what most command lines have.
WORDS: Final = MappingProxyType(
    {
        "CON": [f"--option=kafka.bootstrap.servers={_HERE}"],
        "CON07": [f"--option=broker.list=0:{_HERE}"],
        "ZOO": [f"--option=zookeeper.connect={_HERE}"],
        "SRC": [f"--source-option=kafka.bootstrap.servers={_HERE}"],
        "SRC07": [f"--source-option=zookeeper.connect={_HERE}"],
        "DST": ["--target-option=kafka.bootstrap.servers=127.0.0.1:2"],
        "SAME": [f"--target-option=kafka.bootstrap.servers={_HERE}"],
        "T": ["--topic", "t"],
        "IN": ["--input", "rows"],
        "OUT": ["--output", "out"],
        "STATE": ["--state", "state"],
        "CHECK": ["--checkpoint", "c"],
    }
)
#: Arguments of each job, and what its line says: from its beginning, or anywhere after three dots.
CASES: Final = {
    "ingest": (
        ("T OUT CON --option subscribe=t", "option subscribe is set by the job itself; use --topic"),
        (
            "T OUT CON --option STARTINGOFFSETS=earliest",
            "option STARTINGOFFSETS is set by the job itself; use --starting",
        ),
        ("T OUT CON --option endingOffsets=latest", "…a run ends where the partitions do"),
        ("T OUT CON --option kafka.group.id=g", "…use --group"),
        ("T OUT CON --option fetchBtyes=1", "…unknown option fetchBtyes"),
        ("T OUT CON --option fetchBtyes=1", "…did you mean fetchBytes"),
        ("T OUT CON --gone-broker 1", "argument --gone-broker: only partitions of 0.7 are of one broker"),
        ("--output o", "one of the arguments --topic --topic-pattern is required; see --help"),
        ("T", "the following arguments are required: --output; see --help"),
        ("T OUT CON --topic-pattern t", "argument --topic-pattern: not allowed with argument --topic"),
        ("--topic-pattern '(' OUT CON", "option subscribePattern: '(' is not a supported Java regular"),
        ("--topic , OUT CON", "option subscribe: ',' is not a topic or a list of topics"),
        ("T OUT CON --output ''", "argument --output: '' is not a path"),
        (
            "T OUT CON --starting yesterday",
            "argument --starting: 'yesterday' is not earliest, latest, a time",
        ),
        (
            "T OUT CON --starting beginning",
            "argument --starting: 'beginning' is not earliest, latest, a time like 2026",
        ),
        ("T OUT CON --starting beginning", "…; did you mean earliest?"),
        (
            "T OUT CON --starting '{\"t\":'",
            "option startingOffsets: '{\"t\":' is not of the form earliest or",
        ),
        ("T OUT CON --max-bytes 0", "argument --max-bytes: '0' is not a whole number above zero"),
        ("T OUT CON --max-bytes 9", "argument --max-bytes: these brokers count records; use --max-records"),
        ("T OUT CON --max-records many", "argument --max-records: 'many' is not a whole number above zero"),
        ("T OUT CON --group g CHECK", "argument --checkpoint: not allowed with argument --group"),
        ("T OUT CON --group ' '", "argument --group: ' ' is not the name of a consumer group"),
        ("T OUT CON --checkpoint ''", "argument --checkpoint: '' is not a path"),
        ("T OUT CON --format ''", "argument --format: '' is not a format of Spark"),
        ("T OUT CON --format-option compression", "argument --format-option: number 1 is not KEY=VALUE"),
        ("T OUT CON --decode avro", "argument --decode: invalid choice: 'avro'"),
        ("T OUT CON --schema 'a int'", "argument --schema needs --decode json"),
        ("T OUT CON --partition-by =x", "argument --partition-by: '=x' is not NAME or NAME=SQL"),
        ("T OUT CON --partition-by batch", "argument --partition-by: 'batch' is the column of the runs"),
        ("T OUT --option x", "argument --option: number 1 is not KEY=VALUE"),
        ("T OUT", "set exactly one of the options kafka.bootstrap.servers, zookeeper.connect and"),
        ("T OUT CON --options-file /no/such", "argument --options-file: /no/such: No such file"),
        ("T OUT CON --json=1", "argument --json: ignored explicit argument '1'"),
        ("T OUT CON --quiet=1", "argument --quiet: ignored explicit argument '1'"),
    ),
    "publish": (
        ("CON T", "the following arguments are required: --input"),
        ("IN CON", "one of the arguments --topic --topic-column is required"),
        ("IN CON T --option=topic=t", "…topic is not an option here; set --topic"),
        ("IN CON T --topic-column c", "…not allowed with argument --topic"),
        ("IN T", "…exactly one of the options kafka.bootstrap"),
        ("IN CON T --option acks=verify", "option acks: 'verify' is not 0 or 1"),
        ("IN CON T --options-file not-there", "argument --options-file: not-there: No such file"),
        ("IN CON T --input ''", "argument --input: '' is not a path"),
        ("IN CON T --format-option header", "argument --format-option: number 1 is not KEY=VALUE"),
        ("IN CON T --state ''", "argument --state: '' is not a path"),
        (
            "IN CON T --state s --option acks=1",
            "option acks: with --state it is all, by which rows are found again; leave it out",
        ),
        ("IN CON T --state s --settle-seconds 0.5", "argument --settle-seconds: '0.5' is not a whole number"),
        (
            "IN CON T --state s --exactly-once --settle-seconds 5",
            "argument --settle-seconds: with --exactly-once nothing is waited for",
        ),
        (
            "IN CON T --exactly-once",
            "argument --exactly-once needs --state or --transactional-id, by which the next run finds",
        ),
        ("IN CON07 T --exactly-once --transactional-id a", "option delivery does not apply to Kafka 0.7"),
        ("IN CON T --transactional-id a", "argument --transactional-id needs --exactly-once"),
        (
            "IN CON T --option=delivery=exactly-once",
            "argument --option: delivery is set by --exactly-once and --transactional-id; leave it",
        ),
        ("IN CON T --settle-seconds 5", "argument --settle-seconds needs --state"),
        (
            "IN CON T --broker-column number",
            "argument --broker-column: Kafka 0.8+ has no broker of a message; leave it out",
        ),
        (
            "IN CON07 T --timestamp-column number",
            "argument --timestamp-column: Kafka 0.7 has no timestamp of a message; leave it out",
        ),
        (
            "IN CON07 T --headers-column tags",
            "argument --headers-column: Kafka 0.7 has no headers of a message; leave it out",
        ),
    ),
    "migrate": (
        (
            "SRC07 SAME STATE T --source-option subscribe=t",
            "argument --source-option: subscribe is not for a migration",
        ),
        (
            "SRC07 SAME STATE T --source-option startingOffsets=earliest",
            "argument --source-option: startingOffsets is not for a migration",
        ),
        (
            "SRC07 SAME STATE T --source-option endingTimestamp=1",
            "argument --source-option: endingTimestamp is not for a migration",
        ),
        (
            "SRC07 SAME STATE T --source-option minPartitions=3",
            "argument --source-option: minPartitions is not for a migration",
        ),
        (
            "SRC07 SAME STATE T --target-option acks=1",
            "argument --target-option: acks is not for a migration",
        ),
        (
            "SRC07 SAME STATE T --target-option kafka.acks=1",
            "argument --target-option: kafka.acks is not for a migration",
        ),
        (
            "SRC07 SAME STATE T --target-option kafka.enable.idempotence=1",
            "argument --target-option: kafka.enable.idempotence is not for a migration",
        ),
        (
            "SRC07 SAME STATE T --target-option partitioner=1",
            "argument --target-option: partitioner is not for a migration",
        ),
        (
            "SRC07 SAME STATE T --target-option kafka.partitioner.ignore.keys=1",
            "argument --target-option: kafka.partitioner.ignore.keys is not for a migration",
        ),
        ("SRC SAME STATE T", "…the source is a cluster of Kafka 0.7"),
        ("SRC07 --target-option zookeeper.connect=z:1 STATE T", "…the target is a cluster of Kafka 0.8"),
        (
            "SRC07 SAME STATE T --target-option kafka.transactional.id=a",
            "…kafka.transactional.id is set by --exactly-once and --tr",
        ),
        (
            "SRC07 SAME STATE T --exactly-once --target-option twoPhaseCommit=true",
            "…twoPhaseCommit is not for a migration",
        ),
        ("SRC07 SAME STATE", "one of the arguments --topic --topic-pattern is required"),
        ("SRC07 SAME STATE --topic ,", "option subscribe: ',' is not a topic"),
        ("SRC07 SAME STATE --topic-pattern '('", "option subscribePattern: '(' is not a supported"),
        ("SRC07 SAME STATE T --topic-pattern t", "…not allowed with argument --topic"),
        ("SRC07 SAME STATE T --map t", "argument --map: 't' is not OLD=NEW"),
        ("SRC07 SAME STATE T --gone-broker 0,1", "argument --gone-broker: '0,1' is not the id of a broker"),
        ("SRC07 SAME T", "the following arguments are required: --state"),
        ("SRC07 SAME STATE T --replication-factor 0", "…'0' is not a whole number"),
        ("SRC07 SAME STATE T --piece-bytes 1MiB", "argument --piece-bytes: '1MiB' is not a whole number"),
        ("SAME T --state s --source-option hunter2", "argument --source-option: number 1 is not KEY=VALUE"),
        (
            "SRC07 SAME STATE T --source-options-file not-there",
            "argument --source-options-file: not-there: No such file",
        ),
        ("SRC07 T --state s", "…exactly one of the options kafka.bootstrap"),
        (
            "SRC07 SAME STATE T --target-option topic=t",
            "argument --target-option: topic is not for a migration",
        ),
        (
            "SRC07 SAME STATE T --source-option valueFormat=avro",
            "argument --source-option: valueFormat is for spark.read and df.write, and jobs handle keys",
        ),
        (
            "SRC07 SAME STATE T --target-option delivery=exactly-once",
            "argument --target-option: delivery is set by --exactly-once and --transactional-id; leave it",
        ),
        (
            "SRC07 SAME STATE T --exactly-once --target-option kafka.isolation.level=read_committed",
            "argument --target-option: kafka.isolation.level is not for --exactly-once, which reads what is",
        ),
        ("SRC07 SAME STATE T --transactional-id a", "argument --transactional-id needs --exactly-once"),
        (
            "SRC07 SAME STATE T --exactly-once --transactional-id ' '",
            "option kafka.transactional.id: '' is not a name",
        ),
        (
            "SRC07 SAME STATE T --target-options-file not-there",
            "argument --target-options-file: not-there: No such file",
        ),
        ("SRC07 SAME STATE T --wrong=hunter2", "unknown argument --wrong"),
    ),
    "stream_copy": (
        ("SRC DST CHECK", "one of the arguments --topic --topic-pattern is required"),
        ("SRC DST --topic , CHECK", "option subscribe: ',' is not a topic"),
        ("SRC DST --topic-pattern '(' CHECK", "option subscribePattern: '(' is not"),
        ("SRC DST T", "the following arguments are required: --checkpoint"),
        ("SRC DST T --checkpoint ''", "argument --checkpoint: '' is not a path"),
        ("SRC DST T CHECK --starting soon", "argument --starting: 'soon' is not earliest, latest, a time"),
        ("SRC DST T CHECK --starting '{\"t\":'", "option startingOffsets: '{\"t\":' is not of the form"),
        ("SRC DST T CHECK --max-offsets 0", "argument --max-offsets: '0' is not a whole number"),
        ("SRC07 DST T CHECK --max-offsets 5", "…--max-offsets: these brokers count bytes; use --max-b"),
        ("SRC DST T CHECK --max-bytes 5", "…--max-bytes: these brokers count records; use --max-offsets"),
        ("SRC DST T CHECK --group ' '", "option kafka.group.id: ' ' is not the name of a consumer group"),
        ("SRC07 DST T CHECK --group a/b", "option kafka.group.id: 'a/b' is not the name of a node"),
        (
            "--source-option=broker.list=0:h:1 DST T CHECK --group g",
            "argument --group: 0.7 keeps groups in ZooKeeper; set zookeeper.connect, not broker.list",
        ),
        ("SRC DST T CHECK --interval 0", "argument --interval: '0' is not a whole number above zero"),
        ("SRC DST T CHECK --available-now --interval 5", "…not allowed with argument --available-now"),
        ("SRC DST T CHECK --output o", "set either --target-option, the cluster to copy to, or --output"),
        ("SRC T CHECK", "set either --target-option, the cluster to copy to, or --output"),
        ("SRC T CHECK --output o --target-topic x", "argument --target-topic needs --target-option"),
        (
            "SRC SAME T CHECK --target-topic t",
            "argument --target-topic: source and target are the same topic of the same cluster",
        ),
        (
            "SRC SAME --topic-pattern t CHECK --target-topic copy-of-t",
            "argument --target-topic: source and target are the same topic of the same cluster",
        ),
        (
            "SRC SAME T CHECK",
            "argument --target-topic: source and target are the same topic of the same cluster",
        ),
        (
            "SRC07 DST T CHECK --keep-partitions",
            "argument --keep-partitions: the partitions of 0.7 are numbered on each broker",
        ),
        ("SRC T CHECK --output o --keep-partitions", "argument --keep-partitions needs --target-option"),
        ("DST T CHECK", "set exactly one of the options kafka.bootstrap.servers"),
        ("SRC DST T CHECK --source-option hunter2", "argument --source-option: number 2 is not KEY="),
        (
            "SRC DST T CHECK --source-option startingOffsets=latest",
            "argument --source-option: startingOffsets is set by the job itself; use --starting",
        ),
        (
            "SRC DST T CHECK --source-option endingOffsets=latest",
            "option endingOffsets is for batch reads, because a stream has no end",
        ),
        ("SRC DST T CHECK --source-options-file not-there", "…not-there: No such file"),
        (
            "SRC DST T CHECK --target-option topic=t",
            "argument --target-option: topic is set by the job itself; use --target-topic",
        ),
        ("SRC DST T CHECK --target-option acks=verify", "option acks: 'verify' is not 0 or 1"),
        ("SRC DST T CHECK --target-options-file not-there", "…not-there: No such file"),
        ("SRC DST T CHECK --wrong=hunter2", "unknown argument --wrong"),
        (
            "SRC DST T CHECK --bootstrap-server h:9092",
            "unknown argument --bootstrap-server (did you mean --source-option or --target-option kafka.boot",
        ),
    ),
    "offsets": (
        ("", "set exactly one of the options"),
        ("--option x", "argument --option: number 1 is not KEY=VALUE"),
        ("ZOO --option acks=1", "option acks is for writing"),
        ("--options-file missing", "argument --options-file: missing: No such file"),
        ("ZOO --topic", "argument --topic: expected one argument"),
        ("--option broker.list=0:127.0.0.1:9", "argument --topic: brokers of 0.7 cannot list their topics"),
        ("ZOO --export file", "argument --export needs --group or --all-groups; add one"),
        ("ZOO --check", "argument --check needs --group or --all-groups; add one"),
        ("ZOO --import wrong --check", "argument --check cannot be combined with --import"),
        ("ZOO --group g --all-groups", "argument --all-groups: not allowed with"),
        ("ZOO --import wrong --all-groups", "argument --all-groups cannot be combined with --import"),
        ("ZOO --import missing", "argument --import: missing: No such file"),
        ("ZOO --import latin", "argument --import: latin is not a text in UTF-8"),
        ("ZOO --import wrong --group g --export f", "argument --export: not allowed with"),
        ("ZOO --import wrong T", "argument --topic cannot be combined with --import"),
        ("ZOO --import wrong --topic-pattern ''", "argument --topic-pattern cannot be combined with"),
        ("ZOO T --topic-pattern t", "argument --topic-pattern: not allowed with"),
        (
            "ZOO --topic-pattern '('",
            "option subscribePattern: '(' is not a supported Java regular expression",
        ),
        ("ZOO --import wrong --html f", "argument --html cannot be combined with --import"),
        ("ZOO --dry-run", "argument --dry-run needs --import; add that, or leave it out"),
        ("ZOO --json=yes", "argument --json: ignored explicit argument"),
        ("ZOO --quiet=yes", "argument --quiet: ignored explicit argument"),
        ("ZOO --gruop g", "unknown argument --gruop"),
    ),
    "checkpoints": (
        ("hdfs://host/checkpoint", "argument CHECKPOINT: 'hdfs://host/checkpoint' is not on this machine"),
        ("s3a://bucket/checkpoint", "argument CHECKPOINT: 's3a://bucket/checkpoint' is not on this machine"),
        ("file://elsewhere/checkpoint", "…'file://elsewhere/checkpoint' is not on this machine"),
        ("checkpoint --write", "argument --write needs --to or --place"),
        (
            "checkpoint --to kafka --place '{\"t\":{}}'",
            "arguments --place and --to cannot be combined: run the command once with each",
        ),
        ("checkpoint --place '{}'", "argument --place: '{}' is not JSON of the form"),
        ("checkpoint --place '{\"t\":5}'", "argument --place: '{\"t\":5}' is not JSON of the form"),
        ('checkpoint --place \'{"t":{"0":-1}}\'', "…is not JSON of the form"),
        ("checkpoint --place 11", "…is not JSON of the form"),
        ("checkpoint --to noida", "argument --to: invalid choice"),
        ("", "the following arguments are required: CHECKPOINT"),
    ),
    "transactions": (
        ("CON --force", "argument --force needs --finish; add that, or leave it out"),
        ("CON --dry-run", "argument --dry-run needs --finish; add that, or leave it out"),
        ("CON --finish", "argument --finish needs --transactional-id, the name of the write; add it"),
        ("CON --option=delivery=x", "argument --option: delivery is set by --transactional-id; leave it out"),
        ("CON --transactional-id ' '", "option kafka.transactional.id: '' is not a name"),
        ("--option=broker.list=0:h:1", "option delivery does not apply to Kafka 0.7"),
        ("--options-file not-there", "argument --options-file: not-there: No such file"),
    ),
}
#: What Spark or the type of a column refuses. The input has the columns number (bigint), flag (boolean) and
#: tags (a map).
SPARK_CASES: Final = (
    ("CON --input /no/such", "Path does not exist: file:/no/such."),
    ("CON --format parkay", "argument --format: Spark has no format 'parkay'; give"),
    ("CON --format orc", "argument --input: cannot be read with --format orc,"),
    (
        "CON --format csv --format-option header=maybe",
        "argument --input: cannot be read with --format csv, and --format-option and --schema as they are: ",
    ),
    (
        "CON --schema 'number lang'",
        "argument --schema: 'number lang' is not columns with types, as 'id long, body string': [UNSUPP",
    ),
    ("CON --schema ''", "argument --schema: '' is not columns with types, as 'id long, "),
    (
        "CON --value-column body",
        "argument --value-column: there is no column 'body'; there are number, flag, tags",
    ),
    ("CON --key-column numbr", "argument --key-column: there is no column 'numbr'; did you mean 'number'?"),
    (
        "CON --partition-column flag",
        "argument --partition-column: 'flag' is boolean, and must be a whole number",
    ),
    ("CON07 --broker-column flag", "argument --broker-column: 'flag' is boolean, and must be a whole number"),
    (
        "CON --headers-column number",
        "argument --headers-column: 'number' is bigint, and must be a map, or an array of structs of key and",
    ),
    (
        "CON --timestamp-column flag",
        "argument --timestamp-column: 'flag' is boolean, and must be a timestamp, its text, or a",
    ),
    ("CON --topic-column t", "argument --topic-column: there is no column 't'"),
)


def argv_of(text: str) -> list[str]:
    return [each for word in shlex.split(text) for each in WORDS.get(word, [word])]


def is_said(start: str, said: str, line: str) -> bool:
    return line.startswith(start) and said[1:] in line if said[0] == "…" else line.startswith(start + said)


@pytest.mark.parametrize("job", CASES)
def test_a_wrong_argument_is_refused_in_one_line_before_spark_starts(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command(job), "job_session", None, raising=False)
    (tmp_path / "wrong").write_text("\nthis is no offset\n")
    (tmp_path / "latin").write_bytes(b"/consumers/\xfc/offsets/t/0-0:1\n")
    lines = [complaint(command(job), argv_of(text), capsys) for text, _ in CASES[job]]
    assert [
        (case, line)
        for case, line in zip(CASES[job], lines, strict=True)
        if "hunter2" in line or not is_said(f"{job}: ", case[1], line)
    ] == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latin", "wrong"]


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("input") / "rows"
    columns = "id AS number", "id > 1 AS flag", "map('k', 'v') AS tags"
    spark.range(3).selectExpr(*columns).write.parquet(str(folder))
    return folder


def test_publish_refuses_what_spark_refuses_in_one_line(
    spark: SparkSession, rows: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    publish = command("publish")
    monkeypatch.setattr(publish, "job_session", lambda _: contextlib.nullcontext(spark))
    for text, said in SPARK_CASES:
        argv = ["--input", str(rows), *argv_of(text)]
        topic = [] if "--topic-column" in argv else ["--topic", "t"]
        line = complaint(publish, argv + topic, capsys)
        assert is_said("publish: argument --", f"…{said}", line), (text, line)


@pytest.mark.parametrize("job", ["migrate", "publish", "stream_copy"])
def test_every_argument_has_a_case(job: str) -> None:
    """Beyond those that stand for words of all cases."""
    cases: Sequence[tuple[str, str]] = (*CASES[job], *(SPARK_CASES if job == "publish" else ()))
    tried = {word for case in cases for text in case for word in re.findall(r"(?<![\w-])--[a-z-]+", text)}
    assert arguments_of(command(job).make_parser()) - {"--available-now"} <= tried


@pytest.mark.parametrize("job", CASES)
def test_help_tells_every_argument(job: str) -> None:
    parser = command(job).make_parser()
    reported = parser.format_help()
    for action in parser._actions:
        assert action.help, action.option_strings
        assert not action.option_strings or action.option_strings[-1] in reported


def test_a_name_for_a_topic_that_is_not_copied_is_refused(
    corpus: EmbeddedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [f"--source-option=zookeeper.connect={corpus.zookeeper_connect}", *WORDS["SAME"], "--dry-run"]
    argv += ["--topic", "debian-gzip", "--state", str(tmp_path), "--map", "other=t"]
    line = complaint(command("migrate"), argv, capsys)
    assert "argument --map: 'other' is not among the topics" in line
