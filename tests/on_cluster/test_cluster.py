"""A standalone cluster (``make test-cluster``) that knows nothing but the zip: it loses one of two workers
in the middle of a job, unpacks an environment, or runs the rows of a slow task twice at the same time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.clients.writing.modern.transactional.write_state import attempt_ids
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.cluster.modern.transactions import Transactions
from spark_kafkawire.options import WriteOptions
from tests.jobs.migration.migrating import copied
from tests.jobs.submitting import (
    ROOT,
    environment,
    make_zip,
    submit_command,
    submit_words,
)
from tests.support import librdkafka
from tests.support.corpus import GZIP_TOPIC, partitions_of, recorded
from tests.support.exactly_once import committed
from tests.support.foreign import Record
from tests.support.golden import values_sha256
from tests.support.installing import build_wheel, install_wheel, run
from tests.support.noida import HOST, NoidaBroker
from tests.support.polling import poll
from tests.support.spark_cluster import SparkCluster
from tests.support.stream_once import TIMEOUT_S, trouble_and_check
from tests.support.write_process import SparkWrites

pytestmark = pytest.mark.timeout(600)
#: For a driver and its executors to start, and to get to the middle of the job, on a busy machine.
MIDDLE_TIMEOUT_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Losing:
    """Submits jobs from ``folder``, with the zip and the Python of ``workplace``."""

    cluster: SparkCluster
    workplace: Path
    folder: Path

    def run(self, job: str, *arguments: str, in_the_middle: Callable[[], bool]) -> dict[str, Any]:
        """The summary of a job. A worker is killed as soon as it is in the middle."""
        with self._started(job, *arguments) as process:
            try:
                poll(lambda: in_the_middle() or process.poll() is not None, "the middle", MIDDLE_TIMEOUT_S)
                assert process.poll() is None, self._describe_problem()
            except BaseException:
                process.kill()
                raise
            self.cluster.kill_worker()
        return self._summary(process)

    def run_undisturbed(self, job: str, *arguments: str) -> dict[str, Any]:
        """The summary of a job."""
        with self._started(job, *arguments) as process:
            pass
        return self._summary(process)

    def _started(self, job: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = submit_command(
            self.workplace / "spark_kafkawire.zip",
            ROOT / "jobs" / job,
            *(*arguments, "--json", "--quiet"),
            master=self.cluster.master,
            conf={"spark.executor.memory": "512m"},
        )
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment(self.workplace),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    def _summary(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        assert process.returncode == 0, self._describe_problem()
        summary: dict[str, Any] = json.loads((self.folder / "out").read_text())
        return summary

    def _describe_problem(self) -> str:
        return (self.folder / "err").read_text("utf-8", "replace")


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder from which jobs are submitted: the zip, and a Python that does not know the checkout."""
    folder = tmp_path_factory.mktemp("cluster")
    make_zip(folder)
    return folder


@pytest.fixture(scope="module")
def cluster(workplace: Path) -> Iterator[SparkCluster]:
    """The cluster that the tests share."""
    with SparkCluster(workplace, environment(workplace)) as started:
        yield started


@pytest.fixture
def losing(cluster: SparkCluster, workplace: Path, tmp_path: Path) -> Losing:
    """Runs jobs on the cluster, whose two workers are alive, and kills one in the middle."""
    cluster.replace_workers()
    return Losing(cluster, workplace, tmp_path)


FILE_COUNT: Final = 24
ROWS_PER_FILE: Final = 500
ROW_COUNT: Final = FILE_COUNT * ROWS_PER_FILE


def test_ingest_writes_each_message_once(
    spark: SparkSession, corpus: EmbeddedCluster, losing: Losing, tmp_path: Path
) -> None:
    output = tmp_path / "out-of-topic"

    def a_task_is_done() -> bool:
        return any(output.glob("_kafkawire/unfinished/*/_temporary/0/task_*"))

    summary = losing.run(
        "ingest.py",
        *("--option", f"zookeeper.connect={corpus.zookeeper_connect}", "--topic", GZIP_TOPIC),
        *("--output", str(output)),
        in_the_middle=a_task_is_done,
    )
    assert summary["messages"] == sum(partition["messages"] for partition in partitions_of())
    rows = spark.read.parquet(str(output)).collect()
    for partition in partitions_of():
        own = [
            row
            for row in rows
            if (row.broker, row.partition) == (partition["broker"], partition["partition"])
        ]
        own.sort(key=lambda row: (row["offset"], row["index"]))
        assert values_sha256(bytes(row.value) for row in own) == partition["values_sha256"]


def test_migrate_copies_each_message_once_and_in_order(
    corpus: EmbeddedCluster, noida: NoidaBroker, losing: Losing, tmp_path: Path
) -> None:
    target = noida.create_topic(partitions=len(partitions_of()))
    state = tmp_path / "state"

    def some_is_copied() -> bool:
        return any(end_of(noida, target, number) for number in range(len(partitions_of())))

    summary = losing.run(
        "migrate.py",
        f"--source-option=zookeeper.connect={corpus.zookeeper_connect}",
        f"--target-option=kafka.bootstrap.servers={noida.bootstrap_servers}",
        *("--topic", GZIP_TOPIC, "--map", f"{GZIP_TOPIC}={target}", "--state", str(state)),
        # Several pieces of each partition, each of several batches.
        *("--piece-bytes", "60000", "--target-option", "batchBytes=8KiB"),
        in_the_middle=some_is_copied,
    )
    assert (summary["logs"], summary["failed"]) == (len(partitions_of()), [])
    assert summary["messages"] + summary["messages_found"] == sum(
        partition["messages"] for partition in partitions_of()
    )
    reported = [(item["messages"], item["sha256"], item["equal"]) for item in summary["partitions"]]
    assert reported == [
        (item["target_messages"], item["target_sha256"], True) for item in summary["partitions"]
    ]
    assert copied(noida, target, len(partitions_of())) == recorded(GZIP_TOPIC)


def test_publish_writes_each_row_once_however_often_it_is_run(
    noida: NoidaBroker, losing: Losing, tmp_path: Path
) -> None:
    topic = noida.create_topic()
    rows = tmp_path / "rows"
    rows.mkdir()
    for number in range(FILE_COUNT):
        ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        (rows / f"{number}.json").write_text("".join(f'{{"id": {item}}}\n' for item in ids))
    arguments = (
        f"--option=kafka.bootstrap.servers={noida.bootstrap_servers}",
        *("--input", str(rows), "--format", "json", "--schema", "id long", "--topic", topic),
        *("--state", str(tmp_path / "state")),
    )
    losing.run("publish.py", *arguments, in_the_middle=lambda: end_of(noida, topic) > 0)
    assert published(noida, topic) == Counter(range(ROW_COUNT))
    assert losing.run_undisturbed("publish.py", *arguments)["messages"] == 0
    assert published(noida, topic) == Counter(range(ROW_COUNT))


def published(noida: NoidaBroker, topic: str) -> Counter[int]:
    """Count of each row in the topic."""
    records = librdkafka.consume(noida.bootstrap_servers, topic)
    return Counter(json.loads(record.value or b"")["id"] for record in records)


def end_of(noida: NoidaBroker, topic: str, partition: int = 0) -> int:
    return librdkafka.offsets(noida.bootstrap_servers, topic, partition)[1]


PROGRAM: Final = """
import json, sys
from pyspark.sql import SparkSession

def packages(_):
    import spark_kafkawire
    yield spark_kafkawire.__file__

spark = SparkSession.builder.getOrCreate()
options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2]}
rows = spark.read.format("kafkawire").options(**options).load().count()
found = spark.sparkContext.parallelize(range(2), 2).mapPartitions(packages).collect()
print(json.dumps({"rows": rows, "packages": found}))
"""


def test_executors_run_the_environment_that_was_packed_and_shipped(
    cluster: SparkCluster, workplace: Path, noida: NoidaBroker, tmp_path: Path
) -> None:
    topic = noida.create_topic(partitions=2)
    librdkafka.produce(
        noida.bootstrap_servers, topic, [Record(b"x", partition=item % 2) for item in range(10)]
    )
    (tmp_path / "wheel").mkdir()
    install_wheel(tmp_path / "env", build_wheel(tmp_path / "wheel"))
    pack = Path(sys.executable).with_name("venv-pack")
    packed = run(pack, "--quiet", "--prefix", "env", "-o", "env.tar.gz", cwd=tmp_path)
    assert packed.returncode == 0, packed.stdout
    (tmp_path / "program.py").write_text(PROGRAM)

    # What the package needs is not in this archive, to be quick.
    dependencies = sysconfig.get_path("purelib")
    settings = {"spark.executor.memory": "512m", "spark.executorEnv.PYTHONPATH": dependencies}
    words = [*submit_words(cluster.master, settings), "--archives", "env.tar.gz#env", "program.py"]
    done = subprocess.run(
        [*words, noida.bootstrap_servers, topic],
        cwd=tmp_path,
        env=environment(workplace)
        | {"PYTHONPATH": dependencies, "PYSPARK_DRIVER_PYTHON": "env/bin/python"}
        | {"PYSPARK_PYTHON": "./env/bin/python"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert reported["rows"] == 10
    for package in map(Path, reported["packages"]):
        assert package.is_relative_to(workplace), "a worker's folder"
        assert package.match("env/lib/python*/site-packages/spark_kafkawire/__init__.py")


#: Spark runs no second attempt of a task on the host of the first one.
HOSTS: Final = (HOST, "127.0.0.2")
PARTITIONS: Final = 2
#: As soon as another task is done, one that takes much longer gets its second attempt.
SPECULATION: Final = {
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.task.maxFailures": "4",
    "spark.executor.memory": "512m",
}


@pytest.mark.timeout(TIMEOUT_S)
def test_tasks_that_are_run_twice_at_the_same_time_and_fail_neither_lose_nor_double_a_record(
    noida: NoidaBroker, tmp_path: Path
) -> None:
    with SparkCluster(tmp_path, environment(tmp_path), hosts=HOSTS) as cluster:
        settings = {**SPECULATION, "spark.master": cluster.master}
        result = trouble_and_check(noida.bootstrap_servers, tmp_path, {"fails": 0.15, "lags": 0.25}, settings)
    assert result["failed"]
    assert result["beside"]


def test_two_attempts_of_a_task_that_write_at_the_same_time_leave_each_row_once(
    noida: NoidaBroker, tmp_path: Path
) -> None:
    servers, attempts = noida.bootstrap_servers, tmp_path / "attempts"
    topic = librdkafka.create_topic(servers, PARTITIONS)
    options = {"kafka.bootstrap.servers": servers, "topic": topic, "batchBytes": "1KiB"}
    options |= {"delivery": "exactly-once", "kafka.transactional.id": topic}
    write = {"write": options, "mark": "row", "tasks": 3, "rows": 20}
    with SparkCluster(tmp_path, environment(tmp_path), hosts=HOSTS) as cluster:
        for folder in (attempts, tmp_path / "spark"):
            folder.mkdir()
        settings = {**SPECULATION, "spark.master": cluster.master}
        with SparkWrites(tmp_path / "spark", settings) as process:
            first = process.ask({**write, "rivalled": str(attempts)})
            result = committed(servers, topic, PARTITIONS)
            # Another run of the same write finds all there.
            second = process.ask(write)
    assert (first, second) == ({"error": None}, {"error": None})
    assert len(list(attempts.iterdir())) == 2
    assert begun(servers, topic) >= 4, "two attempts of one task had transactions"
    assert sorted(result) == sorted(b"row %d" % number for number in range(60))
    assert committed(servers, topic, PARTITIONS) == result


def begun(servers: str, name: str) -> int:
    """Count of the attempts of a write that have begun a transaction."""
    options = WriteOptions.parse({"kafka.bootstrap.servers": servers})
    metadata = Metadata(options.discovery.bootstrap_servers, options.net)
    listed = Transactions(metadata, options.net).listed()
    pattern = attempt_ids(name)
    return sum(1 for item in listed if re.fullmatch(pattern, item.transactional_id))
