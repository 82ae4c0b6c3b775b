"""A job's session and its tasks: the source comes with the zip, progress is shown, errors are one line; the
recorded logs on their whole way; and `make demo`, which leaves nothing behind."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Final

import psutil
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.errors import DeliveryError
from spark_kafkawire.jobs.ending import ExitCode, explain
from spark_kafkawire.jobs.progress import Progress
from spark_kafkawire.jobs.spark import run_tasks, watching
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.progress import showing_progress
from tests.support.golden import MANIFEST, values_sha256
from tests.support.noida import NoidaBroker

from .submitting import (
    ROOT,
    RunHere,
    environment,
    make_zip,
    submit,
    submit_command,
    submit_words,
)

JOB = """
import sys, spark_kafkawire
from dataclasses import dataclass
from spark_kafkawire.jobs.arguments import connection_args
from spark_kafkawire.jobs.command_line import Job
from spark_kafkawire.jobs.spark import job_session

@dataclass
class Options:
    connection: dict = connection_args()

def count(options, progress, as_json):
    with job_session("count") as spark:
        children = spark.sparkContext._jvm.java.lang.ProcessHandle.current().children().toArray()
        idle = sum("pyspark.daemon" in child.info().commandLine().orElse("") for child in children)
        frame = spark.read.format("kafkawire").options(**options.connection).load()
        return {"messages": frame.count(), "package": spark_kafkawire.__file__, "idle": idle}

job = Job("count", None, Options, count)
wrong = job.main(["--option", "broker.list=0:127.0.0.1:9", "--quiet"])
sys.exit(10 * wrong + job.main())
"""


SUBMIT_ARGS = shlex.join([*submit_words("local[1]")[1:], "pyspark-shell"])


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "count.py"
    path.write_text(JOB)
    return path


@pytest.mark.slow
def test_a_job_reads_with_only_the_zip_shipped_and_an_error_is_one_line(
    package: Path, script: Path, corpus: EmbeddedCluster, tmp_path: Path
) -> None:
    """On the stderr that spark-submit has."""
    options, log = tmp_path / "options", tmp_path / "log"
    options.write_text(f"zookeeper.connect {corpus.zookeeper_connect}\nsubscribe debian-gzip\n")
    log.write_text("what was there before\n")
    command = submit_command(package, script, "--options-file", str(options), "--json")
    with log.open("a") as stderr:
        ended = subprocess.run(command, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=stderr)
    first, *others = log.read_text().splitlines()
    assert (ended.returncode, first) == (10 * ExitCode.USAGE, "what was there before"), others
    assert [line for line in others if line.startswith("count: ") and not line.endswith(" ...")] == [
        "count: set exactly one of the options subscribe, subscribePattern and assign: none is set"
    ]
    summary = json.loads(ended.stdout)
    assert summary["messages"] == 15917
    assert "spark_kafkawire.zip" in summary["package"]
    assert summary["idle"] == 0, "Spark ends a process without work after a minute, with a traceback"


KILLED = """
import os, signal, sys
from dataclasses import make_dataclass
from spark_kafkawire.jobs.command_line import Job
from spark_kafkawire.jobs.spark import job_session

def count(options, progress, as_json):
    with job_session("count") as spark:
        os.kill(spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
        spark.sparkContext._gateway.proc.wait()
        return {"messages": spark.range(3).count()}

sys.exit(Job("count", None, make_dataclass("Options", ()), count).main())
"""


@pytest.mark.nightly
def test_report_a_jvm_that_was_killed_in_one_line_with_what_to_do(tmp_path: Path) -> None:
    variables = {**environment(tmp_path), "PYTHONPATH": str(ROOT), "PYSPARK_SUBMIT_ARGS": SUBMIT_ARGS}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, "--quiet"], env=variables, capture_output=True, text=True
    )
    [line] = [line for line in done.stderr.splitlines() if line.startswith("count: ")]
    assert (done.returncode, done.stdout) == (1, "")
    assert line.startswith("count: Spark's JVM on the driver has ended: it crashed, or was killed, for ")
    assert "raise spark.driver.memory, and run again (" in line


def test_the_zip_holds_every_module_and_nothing_else_whenever_it_is_made(
    package: Path, tmp_path: Path
) -> None:
    assert make_zip(tmp_path).read_bytes() == package.read_bytes()
    names = set(zipfile.ZipFile(package).namelist())
    package_files = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "spark_kafkawire").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == package_files | {"pyspark_kafkawire.py"}


@pytest.fixture
def frame(spark: SparkSession, corpus: EmbeddedCluster) -> DataFrame:
    """A topic of 15,917 messages."""
    options = {"zookeeper.connect": corpus.zookeeper_connect, "subscribe": "debian-gzip"}
    return spark.read.format("kafkawire").options(**options).load()


def test_spark_tells_how_many_messages_a_job_has_read_and_written(
    spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    with Progress().work("reading") as work, watching(spark, work):
        pass
    assert (work.messages, work.size, work.fraction) == (0, 0, None)
    with Progress().work("writing") as work, watching(spark, work):
        frame.write.parquet(str(tmp_path / "out"))
    written = sum(file.stat().st_size for file in (tmp_path / "out").glob("*.parquet"))
    assert (work.messages, work.size, work.fraction) == (15917, written, 1.0)


def test_progress_is_shown_until_the_end_and_leaves_the_jobs_group_to_the_user(
    spark: SparkSession, frame: DataFrame
) -> None:
    context, stream = spark.sparkContext, io.StringIO()
    context.setJobGroup("mine", "what the user runs")
    try:
        with showing_progress(spark, "counting", stream):
            frame.select("offset").write.format("noop").mode("overwrite").save()
            assert context.getLocalProperty("spark.jobGroup.id") == "mine"
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
        assert not context.getJobTags()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None ends the group
    begun, *_, done = stream.getvalue().splitlines()  # On a slow machine lines between them.
    assert begun == "kafkawire: counting ..."
    assert re.fullmatch(r"kafkawire: counting: 15,917 messages(, .*)? in \d+:\d\d", done)
    # What fails in the block is raised, and not said to be done.
    stream = io.StringIO()
    with pytest.raises(ZeroDivisionError), showing_progress(spark, "dividing", stream):
        1 / 0  # noqa: B018
    assert stream.getvalue() == "kafkawire: dividing ...\n"


def test_results_come_in_the_order_of_the_tasks(spark: SparkSession) -> None:
    assert run_tasks(spark, print, []) == []
    tasks = [TopicPartition("t", number) for number in range(5)]
    assert run_tasks(spark, lambda tp: (tp.partition * 10, tp), tasks) == [
        (number * 10, tp) for number, tp in enumerate(tasks)
    ]


def test_report_an_error_and_the_end_of_a_task_in_one_line(spark: SparkSession) -> None:
    def fail(_: int) -> None:
        raise DeliveryError("t 0: not there")

    def killed(_: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    lines = []
    for task in (fail, killed):
        with pytest.raises((PySparkException, Py4JJavaError)) as caught:
            run_tasks(spark, task, [1])
        line, code = explain(caught.value)
        assert code == ExitCode.FAILED
        lines.append(line)
    assert lines[0] == "t 0: not there"
    assert (
        "a Python worker or a JVM of Spark has ended in the middle of a task: it crashed, or was" in lines[1]
    )
    assert lines[1].endswith(", and run again")
    assert lines[1].isprintable()


#: Has Spark close the sockets of its Python processes that wait for work, as it does after a minute. Private
#: to Spark: the factories of the processes, and the function that they call then.
IDLE = """
from pathlib import Path
from spark_kafkawire.jobs.spark import run_tasks
from spark_kafkawire.source.datasource import KafkaWireDataSource
from tests.support.local_spark import plain_spark
from tests.support.polling import poll

spark = plain_spark("ended", {})
run_tasks(spark, lambda task: task, [1, 2])
spark.dataSource.register(KafkaWireDataSource)
context = spark.sparkContext
jvm, new_array = context._jvm, context._gateway.new_array
processes = jvm.java.lang.ProcessHandle.current().descendants().toArray()
commands = [(each.pid(), each.parent().get().info().commandLine().orElse("")) for each in processes]
workers = [pid for pid, command_of_parent in commands if "daemon" in command_of_parent]
assert workers
field = jvm.java.lang.Class.forName("org.apache.spark.SparkEnv").getDeclaredField("pythonWorkers")
field.setAccessible(True)
factories = field.get(context._jsc.sc().env())
for factory in jvm.scala.jdk.javaapi.CollectionConverters.asJava(factories).values():
    methods = factory.getClass().getDeclaredMethods()
    [close] = [each for each in methods if each.getName().endswith("cleanupIdleWorkers")]
    close.setAccessible(True)
    close.invoke(factory, new_array(jvm.java.lang.Object, 0))
poll(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "the processes to end")
spark.stop()
"""


@pytest.mark.nightly
def test_processes_that_spark_ends_for_lack_of_work_print_nothing() -> None:
    """Processes of tasks, and processes that look for data sources."""
    ended = subprocess.run([sys.executable, "-c", IDLE], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr


TOPICS: Final = ("debian-plain", "debian-gzip")


@pytest.mark.nightly
@pytest.mark.timeout(1100)  # a minute or two, on a machine with nothing else to do
def test_recorded_logs_are_the_same_after_their_way_through_files_and_a_modern_broker(
    spark: SparkSession, corpus: EmbeddedCluster, package: Path, tmp_path: Path, run_here: RunHere
) -> None:
    """The first two jobs as users run them: through spark-submit, with only the zip shipped."""
    new_files = str(tmp_path / "new")

    def run(job: str, *arguments: str) -> None:
        done = submit(package, tmp_path, ROOT / "jobs" / f"{job}.py", *arguments, "--quiet")
        assert done.returncode == 0, done.stderr

    with NoidaBroker() as noida:
        for topic in TOPICS:
            noida.create_topic(partitions=6, name=topic)
        modern = f"--option=kafka.bootstrap.servers={noida.bootstrap_servers}"
        old = f"--option=zookeeper.connect={corpus.zookeeper_connect}"
        # A partition's place among the six of its topic becomes its partition's number.
        location = ("--partition-by", "place=broker * 3 + partition")
        topics = [f"--topic={topic}" for topic in TOPICS]
        run("ingest", old, *topics, "--output", "old", *location)
        columns = ("--topic-column", "topic", "--partition-column", "place", "--value-column", "value")
        run("publish", modern, "--input", "old", *columns)
        code, _, err = run_here("ingest", modern, *topics, "--output", new_files, "--quiet")
        assert (code, err) == (0, "")

    partitions: dict[tuple[str, int], list[bytes]] = {}
    rows = spark.read.parquet(new_files).orderBy("topic", "partition", "offset")
    for row in rows.select("topic", "partition", "value").collect():
        partitions.setdefault((row.topic, row.partition), []).append(bytes(row.value))
    assert {name: (len(values), values_sha256(iter(values))) for name, values in partitions.items()} == {
        (partition["topic"], partition["broker"] * 3 + partition["partition"]): (
            partition["messages"],
            partition["values_sha256"],
        )
        for partition in MANIFEST
        if partition["topic"] in TOPICS
    }


DEMO = (sys.executable, "jobs/demo.py")


def test_help_needs_nothing_but_the_package(tmp_path: Path) -> None:
    script = shutil.copy(ROOT / "jobs" / "demo.py", tmp_path)
    reported = subprocess.run(
        (sys.executable, script, "--help"), cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "usage: demo.py [-h]" in reported.stdout


@pytest.mark.nightly
@pytest.mark.timeout(1100)  # a minute or two, on a machine with nothing else to do
def test_demo_reads_counts_writes_reads_back_and_copies_to_a_modern_broker() -> None:
    demo = subprocess.run(DEMO, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert demo.returncode == 0, demo.stderr
    reports = [json.loads(line) for line in demo.stdout.splitlines() if line.startswith("{")]
    assert [report.pop("seconds") > 0 for report in reports] == [True, True]
    assert reports == [
        {"read": 15917, "partitions": 6, "written": 58, "read_back": 58, "match": True},
        {"copied": 15917, "partitions": 6, "read_back": 15917, "match": True},
    ]


@pytest.mark.nightly
@pytest.mark.timeout(1100)  # a minute or two, on a machine with nothing else to do
def test_nothing_outlives_an_interrupted_demo() -> None:
    with subprocess.Popen(
        DEMO, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as demo:
        assert demo.stdout is not None
        try:
            assert any(line.startswith("quickstart: parsing") for line in demo.stdout)
            started = psutil.Process(demo.pid).children(recursive=True)
        finally:
            demo.send_signal(signal.SIGINT)
            demo.stdout.read()

    assert len(started) > 4, "ZooKeeper, two brokers, Spark and its job"
    _, left = psutil.wait_procs(started, timeout=90)
    assert left == []
    assert demo.returncode == 128 + signal.SIGINT
