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

from .submitting import arguments_of, command, complaint

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
#: What is behind ``ALL`` for each job.
NEEDED: Final = MappingProxyType(
    {
        "ingest": "T OUT CON",
        "publish": "IN CON T",
        "migrate": "SRC07 SAME STATE T",
        "stream_copy": "SRC DST T CHECK",
    }
)


def cases_of(table: str) -> list[tuple[str, str]]:
    """Arguments and text of each line."""
    return [
        (argv.strip(), said) for argv, _, said in (line.partition("| ") for line in table.splitlines()[1:])
    ]


#: Arguments of each job, and what its line says: from its beginning, where "argument" goes without saying, or
#: anywhere after three dots. ``ALL`` is all that the job needs.
CASES: Final = {
    "ingest": cases_of("""
ALL --option subscribe=t | option subscribe is set by the job itself; use --topic
ALL --option STARTINGOFFSETS=earliest | option STARTINGOFFSETS is set by the job itself; use --starting
ALL --option endingOffsets=latest | …a run ends where the partitions do
ALL --option kafka.group.id=g | …use --group
ALL --option fetchBtyes=1 | …unknown option fetchBtyes
ALL --option fetchBtyes=1 | …did you mean fetchBytes
ALL --gone-broker 1 | --gone-broker: only partitions of 0.7 are of one broker
--output o | one of the arguments --topic --topic-pattern is required; see --help
T | one of the arguments --output --table is required; see --help
T CON --table delta:t | --table needs --checkpoint, which keeps the progress
ALL --table delta:t | --table: not allowed with argument --output
T CON CHECK --table parquet:t | --table: 'parquet:t' is neither delta:NAME nor iceberg:NAME
T CON CHECK --table iceberg:t --format orc | --table: the table has a format and partitions; leave --format
ALL --topic-pattern t | --topic-pattern: not allowed with argument --topic
--topic-pattern '(' OUT CON | option subscribePattern: '(' is not a supported Java regular
--topic , OUT CON | option subscribe: ',' is not a topic or a list of topics
ALL --output '' | --output: '' is not a path
ALL --starting yesterday | --starting: 'yesterday' is not earliest, latest, a time
ALL --starting beginning | --starting: 'beginning' is not earliest, latest, a time like 2026
ALL --starting beginning | …; did you mean earliest?
ALL --starting '{"t":' | option startingOffsets: '{"t":' is not of the form earliest or
ALL --max-bytes 0 | --max-bytes: '0' is not a whole number above zero
ALL --max-bytes 9 | --max-bytes: these brokers count records; use --max-records
ALL --max-records many | --max-records: 'many' is not a whole number above zero
ALL --group g CHECK | --checkpoint: not allowed with argument --group
ALL --group ' ' | --group: ' ' is not the name of a consumer group
ALL --checkpoint '' | --checkpoint: '' is not a path
ALL --format '' | --format: '' is not a format of Spark
ALL --format-option compression | --format-option: number 1 is not KEY=VALUE
ALL --decode avro | --decode: invalid choice: 'avro'
ALL --schema 'a int' | --schema needs --decode json
ALL --partition-by =x | --partition-by: '=x' is not NAME or NAME=SQL
ALL --partition-by batch | --partition-by: 'batch' is the column of the runs
T OUT --option x | --option: number 1 is not KEY=VALUE
T OUT | set exactly one of the options kafka.bootstrap.servers, zookeeper.connect and
ALL --options-file /no/such | --options-file: /no/such: No such file
ALL --json=1 | --json: ignored explicit argument '1'
ALL --quiet=1 | --quiet: ignored explicit argument '1'
"""),
    "publish": cases_of("""
CON T | the following arguments are required: --input
IN CON | one of the arguments --topic --topic-column is required
ALL --option=topic=t | …topic is not an option here; set --topic
ALL --topic-column c | …not allowed with argument --topic
IN T | …exactly one of the options kafka.bootstrap
ALL --option acks=verify | option acks: 'verify' is not 0 or 1
ALL --options-file not-there | --options-file: not-there: No such file
ALL --input '' | --input: '' is not a path
ALL --format-option header | --format-option: number 1 is not KEY=VALUE
ALL --state '' | --state: '' is not a path
ALL --state s --option acks=1 | option acks: with --state it is all, by which rows are found again; leave it o
ALL --state s --settle-seconds 0.5 | --settle-seconds: '0.5' is not a whole number
ALL --state s --exactly-once --settle-seconds 5 | --settle-seconds: with --exactly-once nothing is waited for
ALL --exactly-once | --exactly-once needs --state or --transactional-id, by which the next run finds
IN CON07 T --exactly-once --transactional-id a | option delivery does not apply to Kafka 0.7
ALL --transactional-id a | --transactional-id needs --exactly-once
ALL --option=delivery=exactly-once | --option: delivery is set by --exactly-once and --transactional-id; leave
ALL --settle-seconds 5 | --settle-seconds needs --state
ALL --broker-column number | --broker-column: Kafka 0.8+ has no broker of a message; leave it out
IN CON07 T --timestamp-column number | --timestamp-column: Kafka 0.7 has no timestamp of a message; leave it o
IN CON07 T --headers-column tags | --headers-column: Kafka 0.7 has no headers of a message; leave it out
"""),
    "migrate": cases_of("""
SRC SAME STATE T | …the source is a cluster of Kafka 0.7
SRC07 --target-option zookeeper.connect=z:1 STATE T | …the target is a cluster of Kafka 0.8
ALL --target-option kafka.transactional.id=a | …kafka.transactional.id is set by --exactly-once and --tr
ALL --exactly-once --target-option twoPhaseCommit=true | …twoPhaseCommit is not for a migration
SRC07 SAME STATE | one of the arguments --topic --topic-pattern is required
SRC07 SAME STATE --topic , | option subscribe: ',' is not a topic
SRC07 SAME STATE --topic-pattern '(' | option subscribePattern: '(' is not a supported
ALL --topic-pattern t | …not allowed with argument --topic
ALL --map t | --map: 't' is not OLD=NEW
ALL --gone-broker 0,1 | --gone-broker: '0,1' is not the id of a broker
SRC07 SAME T | the following arguments are required: --state
ALL --replication-factor 0 | …'0' is not a whole number
ALL --piece-bytes 1MiB | --piece-bytes: '1MiB' is not a whole number
SAME T --state s --source-option hunter2 | --source-option: number 1 is not KEY=VALUE
ALL --source-options-file not-there | --source-options-file: not-there: No such file
SRC07 T --state s | …exactly one of the options kafka.bootstrap
ALL --source-option valueFormat=avro | --source-option: valueFormat is for spark.read and df.write, and jobs h
ALL --target-option delivery=exactly-once | --target-option: delivery is set by --exactly-once and --transacti
ALL --exactly-once --target-option kafka.isolation.level=read_committed | --target-option: kafka.isolation.lev
ALL --transactional-id a | --transactional-id needs --exactly-once
ALL --exactly-once --transactional-id ' ' | option kafka.transactional.id: '' is not a name
ALL --target-options-file not-there | --target-options-file: not-there: No such file
ALL --wrong=hunter2 | unknown argument --wrong
ALL --source-option subscribe=t | --source-option: subscribe is not for a migration
ALL --source-option startingOffsets=earliest | --source-option: startingOffsets is not for a migration
ALL --source-option endingTimestamp=1 | --source-option: endingTimestamp is not for a migration
ALL --source-option minPartitions=3 | --source-option: minPartitions is not for a migration
ALL --target-option acks=1 | --target-option: acks is not for a migration
ALL --target-option kafka.acks=1 | --target-option: kafka.acks is not for a migration
ALL --target-option kafka.enable.idempotence=1 | --target-option: kafka.enable.idempotence is not for a migrat
ALL --target-option partitioner=1 | --target-option: partitioner is not for a migration
ALL --target-option kafka.partitioner.ignore.keys=1 | --target-option: kafka.partitioner.ignore.keys is not fo
ALL --target-option topic=t | --target-option: topic is not for a migration
"""),
    "stream_copy": cases_of("""
SRC DST CHECK | one of the arguments --topic --topic-pattern is required
SRC DST --topic , CHECK | option subscribe: ',' is not a topic
SRC DST --topic-pattern '(' CHECK | option subscribePattern: '(' is not
SRC DST T | the following arguments are required: --checkpoint
SRC DST T --checkpoint '' | --checkpoint: '' is not a path
ALL --starting soon | --starting: 'soon' is not earliest, latest, a time
ALL --starting '{"t":' | option startingOffsets: '{"t":' is not of the form
ALL --max-offsets 0 | --max-offsets: '0' is not a whole number
SRC07 DST T CHECK --max-offsets 5 | …--max-offsets: these brokers count bytes; use --max-b
ALL --max-bytes 5 | …--max-bytes: these brokers count records; use --max-offsets
ALL --group ' ' | option kafka.group.id: ' ' is not the name of a consumer group
SRC07 DST T CHECK --group a/b | option kafka.group.id: 'a/b' is not the name of a node
--source-option=broker.list=0:h:1 DST T CHECK --group g | --group: 0.7 keeps groups in ZooKeeper; set zookeepe
ALL --interval 0 | --interval: '0' is not a whole number above zero
ALL --available-now --interval 5 | …not allowed with argument --available-now
ALL --output o | set either --target-option, the cluster to copy to, or --output
SRC T CHECK | set either --target-option, the cluster to copy to, or --output
SRC T CHECK --output o --target-topic x | --target-topic needs --target-option
SRC SAME T CHECK --target-topic t | --target-topic: source and target are the same topic of the same cluster
SRC SAME --topic-pattern t CHECK --target-topic copy-of-t | --target-topic: source and target are the same top
SRC SAME T CHECK | --target-topic: source and target are the same topic of the same cluster
SRC07 DST T CHECK --keep-partitions | --keep-partitions: the partitions of 0.7 are numbered on each broker
SRC T CHECK --output o --keep-partitions | --keep-partitions needs --target-option
DST T CHECK | set exactly one of the options kafka.bootstrap.servers
ALL --source-option hunter2 | --source-option: number 2 is not KEY=
ALL --source-option startingOffsets=latest | --source-option: startingOffsets is set by the job itself; use --
ALL --source-option endingOffsets=latest | option endingOffsets: latest moves when the query starts again, so
ALL --source-options-file not-there | …not-there: No such file
ALL --target-option topic=t | --target-option: topic is set by the job itself; use --target-topic
ALL --target-option acks=verify | option acks: 'verify' is not 0 or 1
ALL --target-options-file not-there | …not-there: No such file
ALL --wrong=hunter2 | unknown argument --wrong
ALL --bootstrap-server h:9092 | unknown argument --bootstrap-server (did you mean --source-option or --target-
"""),
    "offsets": cases_of("""
| set exactly one of the options
--option x | --option: number 1 is not KEY=VALUE
ZOO --option fetchBtyes=1 | unknown option fetchBtyes
--options-file missing | --options-file: missing: No such file
ZOO --topic | --topic: expected one argument
--option broker.list=0:127.0.0.1:9 | --topic: brokers of 0.7 cannot list their topics
ZOO --export file | --export needs --group or --all-groups; add one
ZOO --check | --check needs --group or --all-groups; add one
ZOO --import wrong --check | --check cannot be combined with --import
ZOO --group g --all-groups | --all-groups: not allowed with
ZOO --import wrong --all-groups | --all-groups cannot be combined with --import
ZOO --import missing | --import: missing: No such file
ZOO --import latin | --import: latin is not a text in UTF-8
ZOO --import wrong --group g --export f | --export: not allowed with
ZOO --import wrong T | --topic cannot be combined with --import
ZOO --import wrong --topic-pattern '' | --topic-pattern cannot be combined with
ZOO T --topic-pattern t | --topic-pattern: not allowed with
ZOO --topic-pattern '(' | option subscribePattern: '(' is not a supported Java regular expression
ZOO --import wrong --html f | --html cannot be combined with --import
ZOO --dry-run | --dry-run needs --import; add that, or leave it out
ZOO --json=yes | --json: ignored explicit argument
ZOO --quiet=yes | --quiet: ignored explicit argument
ZOO --gruop g | unknown argument --gruop
"""),
    "checkpoints": cases_of("""
hdfs://host/checkpoint | argument CHECKPOINT: 'hdfs://host/checkpoint' is not on this machine
s3a://bucket/checkpoint | argument CHECKPOINT: 's3a://bucket/checkpoint' is not on this machine
file://elsewhere/checkpoint | …'file://elsewhere/checkpoint' is not on this machine
checkpoint --write | --write needs --to or --place
checkpoint --to kafka --place '{"t":{}}' | arguments --place and --to cannot be combined: run the command once
checkpoint --place '{}' | --place: '{}' is not JSON of the form
checkpoint --place '{"t":5}' | --place: '{"t":5}' is not JSON of the form
checkpoint --place '{"t":{"0":-1}}' | …is not JSON of the form
checkpoint --place 11 | …is not JSON of the form
checkpoint --to noida | --to: invalid choice
| the following arguments are required: CHECKPOINT
"""),
    "transactions": cases_of("""
CON --force | --force needs --finish; add that, or leave it out
CON --dry-run | --dry-run needs --finish; add that, or leave it out
CON --finish | --finish needs --transactional-id, the name of the write; add it
CON --option=delivery=x | --option: delivery is set by --transactional-id; leave it out
CON --transactional-id ' ' | option kafka.transactional.id: '' is not a name
--option=broker.list=0:h:1 | option delivery does not apply to Kafka 0.7
--options-file not-there | --options-file: not-there: No such file
"""),
    "doctor": cases_of("""
--option x | --option: number 1 is not KEY=VALUE
CON T --topic-pattern t | --topic-pattern: not allowed with argument --topic
--code not-there | --code: not-there: No such file
--code wrong | --code: there is no option of Kafka in the code; paste
--code latin | --code: latin is not a text in UTF-8
--form-spark | unknown argument --form-spark (did you mean --from-spark?)
"""),
    "show": cases_of("""
CON | one of the arguments --topic --topic-pattern is required; see --help
T | set exactly one of the options
CON T --max 0 | --max: '0' is not a whole number above zero
CON T --max-bytes x | --max-bytes: 'x' is not a whole number above zero
CON T --offset x | --offset: invalid int value: 'x'
CON T --offset 5 | --offset needs --partition; add that, or leave it out
CON T --partition x | option assign: '{"t": ["x"]}' is not of the form
CON T --partition 0 --offset -- | --offset: expected one argument
CON --topic-pattern t --partition 0 | --partition needs --topic; add that, or leave it out
CON T --since yesterday | --since: 'yesterday' is not earliest, latest, a time like
CON T --since earliest --offset 1 | --offset: not allowed with argument --since
CON T --format avro | --format: invalid choice: 'avro'
CON T --option subscribe=t | --option: subscribe is set by the job itself; use --topic
CON T --option startingOffsets=latest | --option: startingOffsets has no meaning here
CON T --option table=topics | --option: table has no meaning here
"""),
}
#: What Spark or the type of a column refuses. The input has the columns number (bigint), flag (boolean) and
#: tags (a map).
SPARK_CASES: Final = cases_of("""
CON --input /no/such | Path does not exist: file:/no/such.
CON --format parkay | --format: Spark has no format 'parkay'; give
CON --format orc | --input: cannot be read with --format orc,
CON --format csv --format-option header=maybe | --input: cannot be read with --format csv, and --format-option
CON --schema 'number lang' | --schema: 'number lang' is not columns with types, as 'id long, body string': [UN
CON --schema '' | --schema: '' is not columns with types, as 'id long,
CON --value-column body | --value-column: there is no column 'body'; there are number, flag, tags
CON --key-column numbr | --key-column: there is no column 'numbr'; did you mean 'number'?
CON --partition-column flag | --partition-column: 'flag' is boolean, and must be a whole number
CON07 --broker-column flag | --broker-column: 'flag' is boolean, and must be a whole number
CON --headers-column number | --headers-column: 'number' is bigint, and must be a map, or an array of structs
CON --timestamp-column flag | --timestamp-column: 'flag' is boolean, and must be a timestamp, its text, or a
CON --topic-column t | --topic-column: there is no column 't'
""")


def argv_of(text: str, job: str = "") -> list[str]:
    words = shlex.split(text.replace("ALL", NEEDED.get(job, "ALL")))
    return [item for word in words for item in WORDS.get(word, [word])]


def is_said(start: str, said: str, line: str) -> bool:
    if said[0] == "…":
        return line.startswith(start) and said[1:] in line
    return line.startswith(start + ("argument " if said.startswith("--") else "") + said)


@pytest.mark.parametrize("job", CASES)
def test_a_wrong_argument_is_refused_in_one_line_before_spark_starts(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command(job), "job_session", None, raising=False)
    (tmp_path / "wrong").write_text("\nthis is no offset\n")
    (tmp_path / "latin").write_bytes(b"/consumers/\xfc/offsets/t/0-0:1\n")
    lines = [complaint(command(job), argv_of(text, job), capsys) for text, _ in CASES[job]]
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
    assert arguments_of(command(job).JOB.parser()) - {"--available-now"} <= tried


@pytest.mark.parametrize("job", CASES)
def test_help_tells_every_argument(job: str) -> None:
    parser = command(job).JOB.parser()
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
