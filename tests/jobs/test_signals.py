"""Jobs that SIGINT or SIGTERM ends at a moment of their run: one line, the exit code, no open transaction."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_kafkawire.commands import COMMANDS
from tests.support import librdkafka
from tests.support.exactly_once import committed
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.polling import poll

from .submitting import RunHere

#: The promise is 5 s, on a machine without other work.
ENDS_WITHIN_S: Final = 60.0
STARTS_WITHIN_S: Final = 300.0
ROWS: Final = 20_000
SIGINT, SIGTERM = signal.SIGINT, signal.SIGTERM
#: Both of which end in one handler.
SIGNALS: Final = pytest.mark.parametrize(
    "number", [SIGTERM, pytest.param(SIGINT, marks=pytest.mark.nightly)], ids=lambda number: number.name
)


#: Arguments of each command with which it asks a broker, or reads its files.
ARGUMENTS: Final = {
    "offsets": ["--option", "kafka.bootstrap.servers={server}"],
    "transactions": ["--option", "kafka.bootstrap.servers={server}"],
    "checkpoints": ["{folder}/checkpoint"],
    "doctor": ["--option", "kafka.bootstrap.servers={server}"],
    "show": ["--option", "kafka.bootstrap.servers={server}", "--topic", "t"],
    "ingest": ["--option", "kafka.bootstrap.servers={server}", "--topic", "t", "--output", "{folder}/out"],
    "publish": [
        *("--option", "kafka.bootstrap.servers={server}", "--topic", "t", "--input", "{rows}"),
        *("--state", "{folder}/state"),
    ],
    "migrate": [
        *("--source-option", "zookeeper.connect={server}", "--topic", "t", "--state", "{folder}/state"),
        *("--target-option", "kafka.bootstrap.servers={server}"),
    ],
    "stream-copy": [
        *("--source-option", "kafka.bootstrap.servers={server}", "--topic", "t"),
        *("--target-option", "kafka.bootstrap.servers={server}", "--target-topic", "u"),
        *("--checkpoint", "{folder}/checkpoint"),
    ],
}


class Job:
    """A command in a process group of its own."""

    def __init__(self, folder: Path, *argv: str) -> None:
        self.errors, self.output = folder / "err", folder / "out"
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        environment["PYSPARK_SUBMIT_ARGS"] = "--master local[2] --conf spark.ui.enabled=false pyspark-shell"
        with self.errors.open("w") as err, self.output.open("w") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "spark_kafkawire", *argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                start_new_session=True,
            )

    def await_text(self, text: str) -> None:
        poll(lambda: text in self.errors.read_text() or self.has_ended, f"{text!r}", STARTS_WITHIN_S)

    @property
    def has_handlers(self) -> bool:
        """True while the process handles SIGTERM: Python alone does not."""
        with contextlib.suppress(FileNotFoundError):
            status = Path(f"/proc/{self._process.pid}/status").read_text()
            caught = int(re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)[1], 16)  # type: ignore[index]
            return bool(caught >> (signal.SIGTERM - 1) & 1)
        return False

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def ended_by(self, number: signal.Signals, *, times: int = 1) -> list[str]:
        """Send SIGINT to the group, as terminals do, and SIGTERM to the process; the lines after that."""
        before = len(self.errors.read_text().splitlines())
        tree = [psutil.Process(self._process.pid)]
        tree += tree[0].children(recursive=True)
        for _ in range(times):
            if number is signal.SIGINT:
                os.killpg(self._process.pid, number)
            else:
                self._process.send_signal(number)
        code = self._process.wait(ENDS_WITHIN_S)
        assert code == 128 + number, self.errors.read_text()
        assert psutil.wait_procs(tree[1:], ENDS_WITHIN_S)[1] == []
        return self.errors.read_text().splitlines()[before:]

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def running(folder: Path, *argv: str) -> Iterator[Job]:
    folder.mkdir(exist_ok=True)
    job = Job(folder, *argv)
    try:
        yield job
    finally:
        job.close()


#: Python 3.11 and older raise a RuntimeError for an error in this method.
FIELD: Final = """
import signal
from spark_kafkawire.jobs.ending import Interrupted, interruptible

class Field:
    def __set_name__(self, owner, name):
        signal.raise_signal(signal.SIGTERM)

try:
    with interruptible(lambda: None):
        type("Owner", (), {"field": Field()})
except Interrupted as error:
    print(error.code)
"""


def test_an_error_that_python_makes_of_the_signals_is_an_interruption() -> None:
    ended = subprocess.run([sys.executable, "-c", FIELD], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("143\n", "")


def argv_of(command: str, folder: Path, server: str, rows: Path) -> list[str]:
    if command == "checkpoints":
        (folder / "checkpoint" / "offsets").mkdir(parents=True)
    given = (item.format(server=server, folder=folder, rows=rows) for item in ARGUMENTS[command])
    return [command, "--quiet", *given]


@SIGNALS
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="/proc shows the handlers of a process")
def test_each_command_ends_in_one_line_when_it_has_just_begun(
    command: str, number: signal.Signals, rows: Path, tmp_path: Path
) -> None:
    # A server that accepts and never answers: no command ends by itself.
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        argv = argv_of(command, tmp_path, f"127.0.0.1:{silent.getsockname()[1]}", rows)
        job = stack.enter_context(running(tmp_path / "job", *argv))
        poll(lambda: job.has_handlers or job.has_ended, "handlers of signals", STARTS_WITHIN_S)
        assert not job.has_ended, job.errors.read_text()
        [line] = job.ended_by(number)
        assert re.match(rf"{command.replace('-', '[-_]')}: interrupted; ", line)
        assert job.output.read_text() == ""


WAITING: Final = {
    "offsets": (SIGINT, ["offsets"], "no offset was changed; run it again"),
    "offsets --json": (SIGTERM, ["offsets", "--json"], "no offset was changed; run it again"),
    "transactions": (SIGTERM, ["transactions"], "nothing was changed"),
    "transactions --finish": (
        *(SIGINT, ["transactions", "--transactional-id", "a", "--finish"]),
        "run it again, which finishes the rest",
    ),
}


# checkpoints asks no broker, and stream-copy ends after its running batch (tests/jobs/stream_copy).
@pytest.mark.parametrize(
    ("number", "argv", "left"),
    [
        *(pytest.param(*row, id=name) for name, row in WAITING.items()),
        *(
            pytest.param(number, [name], "", id=f"{name} {number.name}", marks=pytest.mark.nightly)
            for name in ("ingest", "publish", "migrate")
            for number in (SIGINT, SIGTERM)
        ),
    ],
)
@pytest.mark.timeout(900)
def test_a_command_that_waits_for_a_broker_ends_in_one_line(
    number: signal.Signals, argv: list[str], left: str, rows: Path, tmp_path: Path
) -> None:
    command, *more = argv
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = argv_of(command, tmp_path, f"127.0.0.1:{server.getsockname()[1]}", rows)
        with running(tmp_path / "job", *given, *more) as job:
            poll(lambda: select.select([server], [], [], 0)[0] or job.has_ended, "a request", STARTS_WITHIN_S)
            assert not job.has_ended, job.errors.read_text()
            connection, _ = server.accept()
            with connection:
                lines = job.ended_by(number, times=2 if left else 1)
            assert [line for line in lines if line.startswith(f"{command}: ")] == lines
            assert [line for line in lines if f"interrupted; {left}" in line] == lines[-1:]
            assert job.output.read_text() == ""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("input")
    for task in range(4):
        numbers = [str(number) for number in range(task, ROWS, 4)]
        pq.write_table(pa.table({"id": numbers, "body": numbers}), folder / f"{task}.parquet")
    return folder


def is_written(noida: NoidaBroker, topic: str) -> bool:
    return any(librdkafka.offsets(noida.bootstrap_servers, topic, partition)[1] for partition in (0, 1))


@SIGNALS
@pytest.mark.nightly
@pytest.mark.jvm
@pytest.mark.timeout(900)
def test_an_exactly_once_publication_that_is_interrupted_leaves_nothing_open(
    number: signal.Signals, run_here: RunHere, noida: NoidaBroker, rows: Path, tmp_path: Path
) -> None:
    topic = noida.create_topic(partitions=2)
    argv = ["--input", str(rows), "--topic", topic, "--value-column", "body", "--exactly-once"]
    argv += ["--transactional-id", topic, "--option", f"kafka.bootstrap.servers={noida.bootstrap_servers}"]
    slowly = ["--option", "kafka.batch.size=64", "--option", "kafka.max.in.flight.requests.per.connection=1"]
    with running(tmp_path / "first", "publish", *argv, *slowly) as job:
        poll(lambda: is_written(noida, topic) or job.has_ended, "rows", STARTS_WITHIN_S)
        lines = job.ended_by(number)
    # Where Python lost the error of the signal in a callback, Spark's own error comes first.
    *before, line = [item for item in lines if not item.startswith("publish: writing")]
    assert before in ([], ["publish: the write failed: nothing of this run is committed"])
    assert line.startswith("publish: interrupted; ")
    assert "run again with the same arguments" in line
    assert committed(noida.bootstrap_servers, topic, 2) == []
    option = f"kafka.bootstrap.servers={noida.bootstrap_servers}"
    code, out, _ = run_here("transactions", "--quiet", "--transactional-id", topic, "--option", option)
    assert (code, "Ongoing" in out) == (0, False)
    code, _, err = run_here("publish", *argv)
    assert code == 0, err
    assert committed(noida.bootstrap_servers, topic, 2) == sorted(b"%d" % row for row in range(ROWS))


@SIGNALS
@pytest.mark.slow
@pytest.mark.jvm
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "moment",
    [
        "starting Spark",
        *(pytest.param(item, marks=pytest.mark.nightly) for item in ("asking the", "batch 0")),
    ],
)
def test_ingest_ends_in_one_line_at_each_step(
    number: signal.Signals, moment: str, noida: NoidaBroker, tmp_path: Path
) -> None:
    topic = noida.create_topic(partitions=2)
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"1", partition=0)])
    argv = ["ingest", "--topic", topic, "--output", str(tmp_path / "out"), "--json"]
    argv += ["--option", f"kafka.bootstrap.servers={noida.bootstrap_servers}"]
    with running(tmp_path / "job", *argv) as job:
        job.await_text(f"ingest: {moment}")
        lines = job.ended_by(number)
        assert job.output.read_text() == ""
    assert "Traceback" not in "\n".join(lines)
    assert [line for line in lines if line.startswith("ingest: interrupted")] == [
        "ingest: interrupted; finished batches stay; run again with the same arguments, which continues "
        "after them"
    ]
