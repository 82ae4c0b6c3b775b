"""A run of ingest in this process: what it starts from, what it writes, and what a crash leaves."""

from __future__ import annotations

import io
import itertools
import json
import re
import shutil
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.client import KazooClient
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.cluster.modern.cluster import ModernCluster
from spark_kafkawire.cluster.v07.groups import ConsumerGroups
from spark_kafkawire.cluster.v07.view import view
from spark_kafkawire.errors import BrokersMissingError, DataLossError, OptionError
from spark_kafkawire.jobs.arguments import parse_starting
from spark_kafkawire.jobs.files import FileError
from spark_kafkawire.jobs.ingest.output import Output, OutputOptions, parse_partition_by
from spark_kafkawire.jobs.ingest.run import Ingest, IngestOptions
from spark_kafkawire.jobs.ingest.state import IngestState, Plan
from spark_kafkawire.jobs.progress import progress_on
from spark_kafkawire.jobs.spark import Files, HadoopFiles
from spark_kafkawire.jobs.state import StateError
from spark_kafkawire.options import Discovery
from spark_kafkawire.records.message_set.encoding import encode
from tests.support import librdkafka, replay
from tests.support.foreign import Record
from tests.support.log_folders import KILLED, KILLED_END, START_OFFSET
from tests.support.noida import NoidaBroker
from tests.support.polling import poll
from tests.support.settings import net_07
from tests.support.short_and_long import short_and_long
from tests.support.writing import binary
from tests.support.zookeeper_tree import expired

from ..submitting import RunHere
from .ingesting import (
    QUIET,
    Crash,
    Crashing,
    LocalIngest,
    LocalOutput,
    crash,
    offsets_of,
    options_of,
    produce,
    values_of,
)


class Feed:
    """A topic of one partition, which begins with some messages, and runs on it without Spark."""

    def __init__(self, noida: NoidaBroker, topic: str, output: OutputOptions) -> None:
        self.noida, self.topic, self.output, self.partitions = noida, topic, output, 1
        self.servers = noida.bootstrap_servers
        noida.create_topic(1, topic)

    def produce(self, *values: int) -> None:
        """Append the numbers of ``range(*values)``."""
        produce(self.servers, self.topic, range(*values), self.partitions)

    def run(self, **given: Any) -> dict[str, Any]:
        return LocalIngest(options_of(self.noida, self.topic, self.output, **given)).run()

    def crash_at(self, owner: type[Any], name: str, **given: Any) -> None:
        """A run that crashes at a step."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(owner, name, crash)
            with pytest.raises(Crash):
                self.run(**given)

    @property
    def offsets(self) -> list[int]:
        return offsets_of(self.output)


@pytest.fixture
def feed(noida: NoidaBroker, topic: str, output: OutputOptions) -> Feed:
    return Feed(noida, topic, output)


def test_runs_go_on_where_the_last_one_ended_and_tell_what_happens(
    spark: SparkSession, noida: NoidaBroker, topic: str, output: OutputOptions
) -> None:
    noida.create_topic(2, topic)
    options = options_of(noida, topic, output)
    for count, more in enumerate((20, 30)):
        produce(noida.bootstrap_servers, topic, range(100 * count, 100 * count + more))
        stream = io.StringIO()
        with progress_on(stream, "ingest") as progress:
            summary = Ingest(spark, options, progress).run()
        assert (summary["messages"], summary["batches"][0]["batch"]) == (more, count)
        # A batch that takes long shows its progress, too.
        assert [line for line in stream.getvalue().splitlines() if "%" not in line] == [
            "ingest: asking the brokers where the partitions end ...",
            f"ingest: batch {count}: {more} records of 2 partitions ...",
        ]
    assert Ingest(spark, options, QUIET).run()["batches"] == []
    assert values_of(spark, output) == [*range(20), *range(100, 130)]


def test_progress_is_kept_in_the_group_and_a_limit_splits_what_there_is_into_runs(
    noida: NoidaBroker, topic: str, output: OutputOptions
) -> None:
    """Another group, as one that brokers have forgotten, goes on where the output ends."""
    noida.create_topic(2, topic)
    produce(noida.bootstrap_servers, topic, range(20))
    librdkafka.commit_offsets(noida.bootstrap_servers, f"g-{topic}", topic, {0: 4})
    options = options_of(noida, topic, output, group=f"g-{topic}", records_max=8)
    assert [LocalIngest(options).run()["messages"] for _ in range(3)] == [8, 8, 0]
    committed = [
        librdkafka.committed_offset(noida.bootstrap_servers, f"g-{topic}", topic, number) for number in (0, 1)
    ]
    assert committed == [10, 10]
    produce(noida.bootstrap_servers, topic, range(20, 30))
    options = options_of(noida, topic, output, group=f"forgotten-{topic}")
    assert LocalIngest(options).run()["messages"] == 10
    assert offsets_of(output) == sorted([*range(4, 15), *range(15)])


def test_latest_is_the_end_at_the_first_run_also_where_nothing_was_read(feed: Feed) -> None:
    latest = parse_starting("latest")
    feed.produce(5)
    assert feed.run(starting=latest)["messages"] == 0
    feed.produce(5, 9)
    assert feed.run(starting=latest)["messages"] == 4
    feed.partitions = 2
    feed.noida.add_partitions(feed.topic, 2)
    feed.produce(1, 2)
    assert feed.run(starting=latest)["messages"] == 1
    assert feed.offsets == [0, 5, 6, 7, 8]


def test_a_start_is_a_word_a_time_or_offsets() -> None:
    for text, options in {
        "earliest": {},
        " Latest ": None,
        "1700000000000": {"startingTimestamp": "1700000000000"},
        "2023-11-14T22:13:20Z": {"startingTimestamp": "1700000000000"},
        "2023-11-14T23:13:20+01:00": {"startingTimestamp": "1700000000000"},
        "2023-11-14": {"startingTimestamp": "1699920000000"},
        "-10 minutes": {"startingTimestamp": "-10 minutes"},
        '{"t":{"0":1}}': {"startingOffsets": '{"t":{"0":1}}'},
    }.items():
        assert parse_starting(text) == options


def test_given_offsets_are_where_the_first_run_starts(
    noida: NoidaBroker, topic: str, output: OutputOptions
) -> None:
    noida.create_topic(2, topic)
    produce(noida.bootstrap_servers, topic, range(20))
    given = parse_starting(f'{{"{topic}":{{"0":9,"1":-2}}}}')
    assert LocalIngest(options_of(noida, topic, output, starting=given)).run()["messages"] == 11
    other, wrong = OutputOptions(f"{output.path}-2"), parse_starting('{"t":{"0":9}}')
    with pytest.raises(OptionError, match=r"startingOffsets must name exactly the partitions that are read"):
        LocalIngest(options_of(noida, topic, other, starting=wrong)).run()


def test_json_is_decoded_and_text_is_partitioned_by_columns_and_by_sql(
    spark: SparkSession, noida: NoidaBroker, topic: str, tmp_path: Path
) -> None:
    noida.create_topic(2, topic)
    values = b'{"n": 1, "s": "a"}', b"no JSON", b'{"n": 2}', b'{"n": 3}'
    records = [Record(value, key=b"k", partition=number // 2) for number, value in enumerate(values)]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    output = OutputOptions(str(tmp_path / "json"), decode="json")
    Ingest(spark, options_of(noida, topic, output), QUIET).run()
    frame = spark.read.parquet(output.path)
    assert frame.selectExpr("value.*").columns == ["n", "s", "_corrupt_record"]
    rows = frame.orderBy("partition", "offset").select("key", "value").collect()
    assert [row.key for row in rows] == ["k"] * 4
    assert [row.value._corrupt_record for row in rows] == [None, "no JSON", None, None]

    columns = parse_partition_by(["partition", "even=offset % 2 = 0"])
    output = OutputOptions(str(tmp_path / "text"), format="json", decode="string", partition_by=columns)
    Ingest(spark, options_of(noida, topic, output), QUIET).run()
    folders = {str(file.parent.relative_to(output.path)) for file in Path(output.path).rglob("*.json")}
    shown = {folder for folder in folders if not folder.startswith("_")}
    assert shown == {f"batch=0/partition={n}/even={even}" for n in (0, 1) for even in ("true", "false")}
    rows = spark.read.json(output.path).select("value").collect()
    assert sorted(row.value for row in rows) == sorted(value.decode() for value in values)


def test_report_what_retention_deleted_once_as_an_error_or_a_loss(feed: Feed) -> None:
    """By the run that finishes the batch."""
    topic, group = feed.topic, f"g-{feed.topic}"
    bearing: dict[str, Any] = {"connection": {"failOnDataLoss": "false"}, "records_max": 2, "group": group}
    feed.produce(10)
    feed.run(group=group)
    feed.produce(10, 20)
    feed.noida.delete_records(topic, 0, 15)
    with pytest.raises(DataLossError, match=rf"^{topic} 0 \[10, 15\) was deleted"):
        feed.run(group=group)
    feed.crash_at(LocalOutput, "write", **bearing)
    finished = feed.run(**bearing)
    lost = f"{topic} 0 [10, 15) was deleted before it was read"
    assert (finished["messages"], finished["data_loss"]) == (4, [lost])
    # All that is left.
    feed.noida.delete_records(topic, 0, 20)
    losses = [feed.run(**bearing)["data_loss"] for _ in range(2)]
    assert losses == [[f"{topic} 0 [19, 20) was deleted before it was read"], []]
    assert librdkafka.committed_offset(feed.servers, group, topic) == 20
    assert feed.offsets == [*range(10), *range(15, 19)]


def plans_in(folder: Path) -> list[str]:
    """Names of the plans that are kept there. Hadoop keeps checksums in hidden files."""
    return sorted(path.name for path in folder.glob("[0-9]*.json"))


def test_progress_is_kept_in_a_folder_of_its_own(
    run_here: RunHere, spark: SparkSession, noida: NoidaBroker, topic: str, tmp_path: Path
) -> None:
    """As a user runs it."""
    noida.create_topic(1, topic)
    output, checkpoint = tmp_path / "out", tmp_path / "progress"
    argv = [f"--option=kafka.bootstrap.servers={noida.bootstrap_servers}", "--topic", topic]
    argv += ["--output", str(output), "--checkpoint", str(checkpoint), "--json", "--quiet"]
    for start, stop in ((0, 10), (10, 25)):
        produce(noida.bootstrap_servers, topic, range(start, stop), partitions=1)
        code, out, err = run_here("ingest", *argv)
        assert (code, err) == (0, "")
        [batch] = json.loads(out)["batches"]
        assert batch["ranges"] == [{"partition": f"{topic} 0", "start": start, "stop": stop}]
    assert values_of(spark, OutputOptions(str(output))) == [*range(25)]
    assert plans_in(checkpoint) == ["0.done.json", "1.done.json"]
    assert sorted(path.name for path in output.glob("batch=*")) == ["batch=0", "batch=1"]
    assert plans_in(output / "_kafkawire") == []


@pytest.mark.parametrize(
    ("step", "is_written"), [((LocalOutput, "write"), False), ((IngestState, "finish"), True)]
)
def test_a_run_that_was_killed_is_finished_by_the_next_one(
    step: tuple[type[Any], str], is_written: bool, feed: Feed, tmp_path: Path
) -> None:
    """Before its output is there, or between the output and the checkpoint."""
    progress = tmp_path / "progress"
    feed.produce(10)
    feed.crash_at(*step, checkpoint=str(progress))
    assert plans_in(progress) == ["0.planned.json"]
    assert Path(feed.output.path, "batch=0").exists() == is_written
    feed.produce(10, 25)
    finished, new = feed.run(checkpoint=str(progress))["batches"]
    assert (finished["messages"], new["messages"]) == (0 if is_written else 10, 15)
    assert finished.get("written_by") == ("an earlier run" if is_written else None)
    assert feed.offsets == [*range(25)]


def test_report_a_checkpoint_that_is_not_a_folder_or_has_other_content(feed: Feed, tmp_path: Path) -> None:
    file, damaged = tmp_path / "file", tmp_path / "damaged"
    file.write_text("something else")
    damaged.mkdir()
    (damaged / "0.done.json").write_text("{}")
    for folder, said in (
        (file, f"{file}: cannot "),
        (damaged, f"{damaged}/0.done.json is not a plan of ingest, or damaged: its format is"),
    ):
        with pytest.raises((FileError, StateError), match=f"^{re.escape(said)}"):
            feed.run(checkpoint=str(folder))
    assert not list(Path(feed.output.path).glob("batch=*"))


# A run that also finishes an earlier one has more steps than any that is tried here.
@short_and_long("steps", short=range(1, 13, 4), long=range(1, 13))
def test_a_crash_before_or_after_any_step_loses_and_doubles_nothing(
    steps: range,
    spark: SparkSession,
    corpus: EmbeddedCluster,
    corpus_zookeeper: KazooClient,
    topic: str,
    output: OutputOptions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = {"zookeeper.connect": corpus.zookeeper_connect}
    options = IngestOptions(connection=connection, output=output, selection={"subscribe": topic}, group=topic)
    numbers = itertools.count()

    def produce() -> None:
        append(corpus, topic, itertools.islice(numbers, 6), broker=0)

    produce()
    await_topic(corpus, topic, log_count=3)
    crashing = Crashing(monkeypatch, (ConsumerGroups, "commit"))

    def run() -> None:
        produce()
        Ingest(spark, options, QUIET).run()

    assert crashing.around_each(steps, run) >= 1.5 * len(steps)
    produce()
    summary = Ingest(spark, options, QUIET).run()

    assert values_of(spark, output) == [*range(next(numbers))]
    newest = summary["batches"][-1]
    for offset_range in newest["ranges"]:
        node = f"/consumers/{topic}/offsets/{topic}/{offset_range['partition'].split()[1]}"
        assert corpus_zookeeper.get(node)[0] == str(offset_range["stop"]).encode()


#: Bytes of a message of 0.7, which runs without Spark count.
SIZE: Final = len(b'{"n": 1}') + 10


@pytest.fixture
def old_topic(corpus: EmbeddedCluster, topic: str) -> str:
    """A topic with a message on each of the two brokers."""
    for broker in (0, 1):
        append(corpus, topic, [broker], broker)
    await_topic(corpus, topic, log_count=6)
    return topic


def append(corpus: EmbeddedCluster, topic: str, numbers: Iterable[int], broker: int) -> None:
    """Messages that hold a number each, to a partition of a broker."""
    message_set = encode(binary(b'{"n": %d}' % number for number in numbers))
    replay.produce(corpus.brokers[broker].port, (topic, 0), bytes(message_set))


def await_topic(corpus: EmbeddedCluster, topic: str, log_count: int) -> None:
    """A broker registers a topic once it has stored its first message."""
    discovery = Discovery(zookeeper_connect=corpus.zookeeper_connect)
    poll(
        lambda: len(view(discovery, net_07()).partitions_of(topic)) == log_count,
        "brokers to register the topic",
    )


def old_options(corpus: EmbeddedCluster, output: OutputOptions, **options: Any) -> IngestOptions:
    hasty = {"zookeeper.connect": corpus.zookeeper_connect, "retries": "1", **options.pop("connection", {})}
    return IngestOptions(connection=hasty, output=output, **options)


@pytest.mark.parametrize("by_pattern", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_report_missing_logs_that_earlier_runs_read(
    corpus: EmbeddedCluster, old_topic: str, output: OutputOptions, by_pattern: bool
) -> None:
    selection = {"subscribePattern": f"^{old_topic}$"} if by_pattern else {"subscribe": old_topic}
    options = old_options(corpus, output, selection=selection)
    assert LocalIngest(options).run()["messages"] == 2 * SIZE
    append(corpus, old_topic, [2], broker=0)
    append(corpus, old_topic, [3], broker=1)
    with expired(corpus.zookeeper_connect, 1):
        with pytest.raises(BrokersMissingError, match=r"broker 1 is not registered .*, give --gone-broker$"):
            LocalIngest(options).run()
        assert offsets_of(output) == sorted([*range(SIZE)] * 2)
        borne = old_options(corpus, output, selection=selection, connection={"failOnDataLoss": "false"})
        summary = LocalIngest(borne).run()
        assert summary["messages"] == SIZE
        assert summary["data_loss"] == [
            f"{old_topic} 1-0 is not there: it was read up to {SIZE}",
            f"{old_topic} 1-1 is not there: it was read up to 0",
            f"{old_topic} 1-2 is not there: it was read up to 0",
        ]
        # A broker that is given up for good is told of once.
        given_up = old_options(corpus, output, selection=selection, gone_brokers=frozenset((1,)))
        assert LocalIngest(given_up).run()["data_loss"] == summary["data_loss"]
        for later in (given_up, options):
            assert LocalIngest(later).run()["data_loss"] == []
    # And where it was not gone, all is read that was not read before.
    summary = LocalIngest(options).run()
    assert (summary["messages"], summary["data_loss"]) == (SIZE, [])
    assert offsets_of(output) == sorted([*range(2 * SIZE)] * 2)


def test_report_missing_logs_that_the_group_has_read(
    corpus: EmbeddedCluster, corpus_zookeeper: KazooClient, old_topic: str, output: OutputOptions
) -> None:
    corpus_zookeeper.create(f"/consumers/{old_topic}/offsets/{old_topic}/1-0", b"0", makepath=True)
    options = old_options(corpus, output, selection={"subscribe": old_topic}, group=old_topic)
    with expired(corpus.zookeeper_connect, 1):
        with pytest.raises(
            BrokersMissingError, match=rf"holds 1 of .*, {old_topic} 1-0 first; start it; earlier"
        ):
            LocalIngest(options).run()
        given_up = old_options(
            corpus, output, selection={"subscribe": old_topic}, group=old_topic, gone_brokers=frozenset((1,))
        )
        summary = LocalIngest(given_up).run()
        assert summary["data_loss"] == [f"{old_topic} 1-0 is not there: the group has read it"]
    assert LocalIngest(options).run()["messages"] == SIZE
    assert offsets_of(output) == sorted([*range(SIZE)] * 2)


def test_a_broker_that_has_not_announced_yet_what_was_read_of_it_is_asked(
    corpus: EmbeddedCluster, old_topic: str, output: OutputOptions
) -> None:
    options = old_options(corpus, output, selection={"subscribe": old_topic})
    assert LocalIngest(options).run()["messages"] == 2 * SIZE
    append(corpus, old_topic, [2], broker=1)
    with (
        expired(corpus.zookeeper_connect, 0, topics_only=True),
        expired(corpus.zookeeper_connect, 1, topics_only=True),
    ):
        assert LocalIngest(options).run()["messages"] == SIZE
    assert offsets_of(output) == sorted([*range(SIZE), *range(2 * SIZE)])


def test_report_a_deleted_topic_of_a_pattern_once(
    noida: NoidaBroker, topic: str, output: OutputOptions
) -> None:
    for name in (f"{topic}-a", f"{topic}-b"):
        noida.create_topic(1, name)
        produce(noida.bootstrap_servers, name, range(3), partitions=1)
    connection = {"kafka.bootstrap.servers": noida.bootstrap_servers}
    selection = {"subscribePattern": f"^{topic}-"}
    assert (
        LocalIngest(IngestOptions(connection=connection, output=output, selection=selection)).run()[
            "messages"
        ]
        == 6
    )
    librdkafka.delete_topic(noida.bootstrap_servers, f"{topic}-b")
    produce(noida.bootstrap_servers, f"{topic}-a", range(3, 5), partitions=1)
    with pytest.raises(DataLossError, match=f"^{topic}-b 0: earlier runs .* set failOnDataLoss=false$"):
        LocalIngest(IngestOptions(connection=connection, output=output, selection=selection)).run()
    bearing = IngestOptions(
        connection={**connection, "failOnDataLoss": "false"}, output=output, selection=selection
    )
    summary = LocalIngest(bearing).run()
    assert (summary["messages"], summary["data_loss"]) == (
        2,
        [f"{topic}-b 0 is not there: it was read up to 3"],
    )
    assert (
        LocalIngest(IngestOptions(connection=connection, output=output, selection=selection)).run()[
            "data_loss"
        ]
        == []
    )
    assert offsets_of(output) == [0, 0, 1, 1, 2, 2, 3, 4]


def test_a_directory_is_read_once(spark: SparkSession, tmp_path: Path) -> None:
    output = OutputOptions(path=f"{tmp_path}/out")
    options = IngestOptions(
        connection={"path": str(KILLED)}, output=output, selection={"subscribe": "events"}
    )
    # Two offsets are those of markers.
    count = KILLED_END - START_OFFSET - 2
    assert Ingest(spark, options, QUIET).run()["messages"] == count
    assert Ingest(spark, options, QUIET).run()["messages"] == 0
    assert spark.read.parquet(output.path).count() == count


def test_a_group_that_another_process_moved_doubles_and_loses_nothing(feed: Feed) -> None:
    topic, group = feed.topic, f"g-{feed.topic}"
    feed.produce(5)
    assert "group_moved" not in feed.run(group=group)
    for end, moved_to in ((5, 2), (10, 13)):
        feed.produce(end, end + 5)
        librdkafka.commit_offsets(feed.servers, group, topic, {0: moved_to})
        said = f"{topic} 0 was at {moved_to} and is reset to {end}, where the output ends"
        assert feed.run(group=group)["group_moved"] == [said]
        assert feed.offsets == [*range(end + 5)]
        assert librdkafka.committed_offset(feed.servers, group, topic) == end + 5


def test_a_batch_of_another_run_is_not_taken_for_the_planned_one(feed: Feed, tmp_path: Path) -> None:
    first, second = (str(tmp_path / name) for name in ("first", "second"))
    feed.produce(5)
    feed.crash_at(LocalOutput, "write", checkpoint=first)
    feed.run(checkpoint=second)
    with pytest.raises(FileError, match=r"out/batch=0 is of a run that is not recorded, or of one with"):
        feed.run(checkpoint=first)


def test_a_second_run_is_refused_while_the_first_one_works(
    feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.produce(5)
    write = LocalIngest._write

    def write_beside_others(first: LocalIngest, *arguments: Any) -> int:
        monkeypatch.setattr(LocalIngest, "_write", write)
        for checkpoint in (None, str(tmp_path / "other")):
            with pytest.raises(FileError, match=r"_kafkawire: another run is active here"):
                feed.run(checkpoint=checkpoint)
        return write(first, *arguments)

    monkeypatch.setattr(LocalIngest, "_write", write_beside_others)
    feed.run()
    assert feed.offsets == [*range(5)]


def test_an_attempt_that_another_run_removed_is_not_shown(
    spark: SparkSession, output: OutputOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removed(*_: object) -> None:
        shutil.rmtree(f"{output.path}/_kafkawire/unfinished")

    monkeypatch.setattr(Output, "_check_partition_columns", removed)
    with pytest.raises(FileError, match=r"was removed by another run"):
        Output(Files(spark), output).write(Plan(0, (), {}), spark.range(10), None)
    assert not Path(output.path, "batch=0").exists()


def test_a_folder_that_was_renamed_into_another_one_is_taken_out_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("attempt", "batch=0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    monkeypatch.setattr(
        HadoopFiles, "exists", lambda _, path: Path(path).exists() and not path.endswith("=0")
    )
    with pytest.raises(FileError, match=r"batch=0 was created meanwhile: does another run write here\?"):
        HadoopFiles(spark).rename(f"{tmp_path}/attempt", f"{tmp_path}/batch=0")
    assert [path.name for path in (tmp_path / "batch=0").iterdir()] == ["batch=0"]


def test_files_of_hadoop_are_made_once_and_whole(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"^/proc/ingest: cannot make the folder"):
        Files(spark).make_folder("/proc/ingest")
    files = HadoopFiles(spark)
    files.make_folder(f"{tmp_path}/state")
    files.create(f"{tmp_path}/state/7.planned.json", "plan\n")
    with pytest.raises(FileError, match=r"7\.planned\.json already exists: does another run write here\?"):
        files.create(f"{tmp_path}/state/7.planned.json", "other\n")
    files.rename(f"{tmp_path}/state/7.planned.json", f"{tmp_path}/state/7.done.json")
    files.sync(f"{tmp_path}/state")
    assert files.read(f"{tmp_path}/state/7.done.json") == "plan\n"
    assert [name for name in files.names(f"{tmp_path}/state") if name[0] != "."] == ["7.done.json"]
    assert files.names(f"{tmp_path}/none") == []
    files.remove(f"{tmp_path}/state")
    assert not files.exists(f"{tmp_path}/state")
    with pytest.raises(FileError, match=r"none: cannot open: FileNotFoundException"):
        files.read(f"{tmp_path}/none")


class Topics:
    """Topics of one partition that have ids as those of Kafka 2.8 and later; noida-db's have none."""

    def __init__(self, noida: NoidaBroker) -> None:
        self._noida = noida
        self.ids: dict[str, uuid.UUID] = {}

    def create(self, topic: str, numbers: range) -> None:
        self._noida.create_topic(1, topic)
        self.ids[topic] = uuid.uuid4()
        produce(self._noida.bootstrap_servers, topic, numbers, partitions=1)

    def delete(self, topic: str) -> None:
        librdkafka.delete_topic(self._noida.bootstrap_servers, topic)
        del self.ids[topic]


@pytest.fixture
def topics(noida: NoidaBroker, monkeypatch: pytest.MonkeyPatch) -> Topics:
    made = Topics(noida)
    monkeypatch.setattr(
        ModernCluster,
        "topic_ids",
        lambda _, names: {name: made.ids[name] for name in names if name in made.ids},
    )
    return made


def test_read_a_recreated_topic_from_its_beginning_however_long_it_is(
    noida: NoidaBroker, topic: str, output: OutputOptions, topics: Topics
) -> None:
    topics.create(topic, range(5))
    LocalIngest(options_of(noida, topic, output)).run()
    topics.delete(topic)
    topics.create(topic, range(5, 12))
    with pytest.raises(DataLossError, match=rf"^{topic} was created again .* set failOnDataLoss=false"):
        LocalIngest(options_of(noida, topic, output)).run()
    options = options_of(noida, topic, output, connection={"failOnDataLoss": "false"})
    losses = [LocalIngest(options).run()["data_loss"] for _ in range(2)]
    assert losses == [[f"{topic} was created again since it was read: its old messages are gone"], []]
    assert offsets_of(output) == sorted([*range(5), *range(7)])


@pytest.mark.parametrize("recreated", [True, False])
def test_a_planned_batch_of_a_deleted_topic_does_not_stop_the_runs_for_ever(
    noida: NoidaBroker,
    topic: str,
    output: OutputOptions,
    topics: Topics,
    monkeypatch: pytest.MonkeyPatch,
    recreated: bool,
) -> None:
    other = f"{topic}-other"
    topics.create(topic, range(5))
    topics.create(other, range(5, 10))
    both = replace(
        options_of(noida, topic, output, group=f"g-{topic}"), selection={"subscribe": f"{topic},{other}"}
    )
    with monkeypatch.context() as patched, suppress(Crash):
        patched.setattr(LocalOutput, "write", crash)
        LocalIngest(both).run()
    topics.delete(topic)
    if recreated:
        topics.create(topic, range(10, 18))
    options = both if recreated else replace(both, selection={"subscribe": other})
    with pytest.raises(DataLossError, match=rf"^{topic} 0 \[0, 5\) was deleted before it was"):
        LocalIngest(options).run()
    lenient = replace(options, connection={**options.connection, "failOnDataLoss": "false"})
    losses = LocalIngest(lenient).run()["data_loss"]
    assert losses[0] == f"{topic} 0 [0, 5) was deleted before it was read: the topic no longer exists"
    assert offsets_of(output) == sorted([*range(5), *range(8 if recreated else 0)])


def test_a_planned_batch_is_finished_with_the_decoding_that_is_asked_for_now(
    spark: SparkSession,
    noida: NoidaBroker,
    topic: str,
    output: OutputOptions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noida.create_topic(1, topic)
    produce(noida.bootstrap_servers, topic, range(5), partitions=1)
    with monkeypatch.context() as patched, suppress(Crash):
        patched.setattr(Ingest, "_write", crash)
        planned = replace(output, decode="json")
        Ingest(spark, options_of(noida, topic, planned), QUIET).run()
    wanted = replace(output, decode="json", schema="n string")
    Ingest(spark, options_of(noida, topic, wanted), QUIET).run()
    assert spark.read.parquet(output.path).selectExpr("value.n").dtypes == [("n", "string")]


def test_a_partition_column_of_bytes_is_refused_and_the_run_goes_on_without_it(
    spark: SparkSession, noida: NoidaBroker, topic: str, output: OutputOptions
) -> None:
    noida.create_topic(1, topic)
    records = [Record(b"1", key=key) for key in (None, b"", b"a/b", b"\xff")]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    by_key = replace(output, partition_by={"KEY": None})
    with pytest.raises(OptionError, match=r"--partition-by: key is bytes, .* key_hex='hex\(key\)'"):
        Ingest(spark, options_of(noida, topic, by_key), QUIET).run()
    by_hex = replace(output, partition_by={"key_hex": "hex(key)"})
    assert Ingest(spark, options_of(noida, topic, by_hex), QUIET).run()["messages"] == 4
    rows = spark.read.parquet(output.path).orderBy("offset").select("key").collect()
    assert [row.key and bytes(row.key) for row in rows] == [None, b"", b"a/b", b"\xff"]
