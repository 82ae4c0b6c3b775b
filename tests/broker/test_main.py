"""``python -m spark_kafkawire.broker`` as a user runs it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark_kafkawire.broker.__main__ import main
from tests.support import replay
from tests.support.message_sets import message

COMMAND = [sys.executable, "-m", "spark_kafkawire.broker"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_and_ends_in_order_when_told_to(tmp_path: Path, how: signal.Signals) -> None:
    argv = [*COMMAND, "--set", "brokerid=3", "--set", "port=0", "--set", f"log.dir={tmp_path}"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready.startswith("broker 3 listens on 127.0.0.1:")
        replay.produce(int(ready.rpartition(":")[2]), ("t", 0), message(b"not yet flushed"))
        process.send_signal(how)
        try:
            stdout, stderr = process.communicate(timeout=90)
        finally:
            process.kill()
    assert (process.returncode, stdout, stderr) == (0, "", "")
    assert (tmp_path / "t-0" / "00000000000000000000.kafka").read_bytes() == message(b"not yet flushed")
    assert (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        (["brokerid=0", "log.dir=/x", "broker.id=1"], "property 'broker.id' is unknown to a 0.7.2 broker"),
        (["brokerid=0", "log.dir=/x", "port=many"], "property port='many' is malformed"),
        (["brokerid=0"], "property 'log.dir' is missing"),
        (["brokerid"], "--set 'brokerid' must be NAME=VALUE"),
        (["brokerid=0", "brokerid=1"], "--set 'brokerid=1' must be NAME=VALUE, once for each name"),
    ],
)
def test_a_wrong_property_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], properties: list[str], error: str
) -> None:
    argv = [word for text in properties for word in ("--set", text)]
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {error}")
    assert captured.err.count("\n") == 1


def test_a_port_in_use_is_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with replay.listening() as port:
        assert main(["--set", "brokerid=0", "--set", f"port={port}", "--set", f"log.dir={tmp_path}"]) == 1
    assert capsys.readouterr().err == f"error: cannot listen on 127.0.0.1:{port}: Address already in use\n"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("notatopic", "is not named topic-partition: remove it from log.dir"),
        ("t-0/first.kafka", "a segment file is named by its start offset: remove it"),
        ("t-0/00000000000000000005.kafka", "a segment is missing or cut"),
    ],
)
def test_a_folder_that_is_no_log_keeps_the_broker_from_starting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, error: str
) -> None:
    if "/" in name:
        (tmp_path / "t-0").mkdir()
        (tmp_path / "t-0" / "00000000000000000000.kafka").touch()
        (tmp_path / name).touch()
    else:
        (tmp_path / name).mkdir()
    assert main(["--set", "brokerid=0", "--set", "port=0", "--set", f"log.dir={tmp_path}"]) == 1
    assert error in capsys.readouterr().err


def test_a_log_dir_that_is_a_file_is_an_error_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "file"
    path.touch()
    assert main(["--set", "brokerid=0", "--set", "port=0", "--set", f"log.dir={path}"]) == 2
    assert capsys.readouterr().err == f"error: log.dir {path} cannot be used: File exists\n"
