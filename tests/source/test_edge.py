"""Errors at the edge to Spark and to users' programs: without frames of ours, which the log has."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_kafkawire import secrecy
from spark_kafkawire.errors import BrokerError, OptionError
from spark_kafkawire.source.edge import edge
from tests.support.pages import ROOT
from tests.support.sparks import READ_LIMITS, STREAM_SINKS

HIDE = "SPARK_HIDE_TRACEBACK"
SECRET = "s3cret-at\nthe-edge"


def fail(error: Exception) -> None:
    try:
        raise OSError(f"refused {SECRET}\nin two lines")
    except OSError as cause:
        raise error from cause


@edge
def call(error: Exception) -> None:
    fail(error)


@edge
def iterate(error: Exception) -> Iterator[int]:
    yield 1
    fail(error)


def frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("run", [call, lambda error: list(iterate(error))], ids=["call", "iterate"])
def test_an_error_of_ours_leaves_without_frames_and_without_a_cause(
    run: Callable[[Exception], object],
) -> None:
    error = BrokerError("broker 1: no", code=7)
    with pytest.raises(BrokerError) as caught:
        run(error)
    assert caught.value is error
    assert (error.__cause__, error.__context__) == (None, None)
    assert "fail" not in frames(error)
    # Python 3.10 has the frame of the edge itself.
    assert len({"call", "iterate"}.intersection(frames(error))) == (sys.version_info < (3, 11))
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.code) == (BrokerError, "broker 1: no", 7)


def test_any_other_error_keeps_its_frames() -> None:
    with pytest.raises(KeyError) as caught:
        call(KeyError("a defect"))
    assert frames(caught.value)[-1] == "fail"
    assert isinstance(caught.value.__cause__, OSError)


def test_the_whole_traceback_is_logged_in_lines_at_debug_and_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    secrecy.keep_secret(SECRET)
    with pytest.raises(OptionError):
        call(OptionError("option x: wrong"))
    assert caplog.messages == []
    caplog.set_level(logging.DEBUG, "spark_kafkawire")
    with pytest.raises(OptionError):
        call(OptionError("option x: wrong"))
    assert caplog.messages[0] == "Traceback (most recent call last):"
    assert caplog.messages[-1] == "spark_kafkawire.errors.OptionError: option x: wrong"
    assert any(message.endswith(", in fail") for message in caplog.messages)
    assert any(message.startswith("OSError: refused ") for message in caplog.messages)
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}
    assert all(message.isprintable() for message in caplog.messages)
    assert not any(part in caplog.text for part in SECRET.splitlines())


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process as one of Spark's."""
    monkeypatch.delenv(HIDE, raising=False)
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    yield
    os.environ.pop(HIDE, None)


@edge
def succeed() -> None:
    """Nothing."""


@pytest.mark.usefixtures("worker")
def test_spark_is_asked_to_leave_out_its_frames_until_the_process_goes_on() -> None:
    try:
        call(OptionError("option x: wrong"))
    except OptionError:
        assert os.environ[HIDE]
        succeed()  # as Spark stops a stream that has failed
        assert os.environ[HIDE]
    succeed()
    assert HIDE not in os.environ


@pytest.mark.usefixtures("worker")
def test_a_defect_and_the_setting_of_a_user_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError):
        call(KeyError("a defect"))
    assert HIDE not in os.environ
    monkeypatch.setenv(HIDE, "1")
    with pytest.raises(OptionError):
        call(OptionError("option x: wrong"))
    succeed()
    assert os.environ[HIDE] == "1"


def test_a_program_of_a_user_keeps_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HIDE, raising=False)
    with pytest.raises(OptionError):
        call(OptionError("option x: wrong"))
    assert HIDE not in os.environ


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("datasource", "KafkaWireDataSource"),
        ("batch_reader", "KafkaWireBatchReader"),
        ("writer", "KafkaWireBatchWriter"),
        ("exactly_once", "ExactlyOnceWriter"),
        ("stream_reader", "RefusedStream"),
        ("stream_reader", "UnlimitedStreamReader"),
        pytest.param("stream_limits", "LimitedStreamReader", marks=READ_LIMITS),
        pytest.param("stream_writer", "KafkaWireStreamWriter", marks=STREAM_SINKS),
    ],
)
def test_all_that_spark_calls_is_an_edge(module: str, name: str) -> None:
    """Spark calls what its own classes name."""
    kind = getattr(importlib.import_module(f"spark_kafkawire.source.{module}"), name)
    of_spark = [base for base in kind.__mro__ if base.__module__.startswith("pyspark.")]
    called = {each for base in of_spark for each in vars(base) if not each.startswith("_")} - {"name"}
    ours = {
        each: function
        for base in kind.__mro__
        if base.__module__.startswith("spark_kafkawire.")
        for each, function in vars(base).items()
        if each in called
    }
    assert ours
    assert [each for each, function in ours.items() if inspect.unwrap(function) is function] == []


@pytest.mark.parametrize("caught", [True, False])
@pytest.mark.parametrize(
    ("module", "error", "hidden"),
    [
        ("pyspark.daemon", BrokenPipeError, True),
        ("pyspark.daemon", ConnectionResetError, True),
        ("pyspark.daemon", OSError, False),
        ("users", BrokenPipeError, False),
        ("users.pyspark.daemon", BrokenPipeError, False),
    ],
)
def test_a_process_of_sparks_hides_only_sparks_own_broken_pipes(
    module: str, error: type[OSError], hidden: bool, caught: bool, tmp_path: Path
) -> None:
    """The JVM closes the socket of a process whose rows it needs no more. A process for tasks prints the
    error that it catches; one that runs a stream ends with it."""
    file = tmp_path.joinpath(*module.split(".")).with_suffix(".py")
    file.parent.mkdir(parents=True, exist_ok=True)
    for folder in file.relative_to(tmp_path).parents:
        (tmp_path / folder / "__init__.py").touch()
    file.write_text(f"""
import contextlib, io, os, socket, sys, traceback
os.environ["PYTHON_WORKER_FACTORY_SECRET"] = "x"
from spark_kafkawire.source.edge import edge
edge(lambda: None)()

class Closed(socket.socket):
    def send(self, *_):
        raise {error.__name__}("this one")

@contextlib.contextmanager
def socket_file():
    file = socket.SocketIO(Closed(), "w")
    yield file

def main():
    with socket_file() as file:
        file.write(b"x")

print("that one", file=sys.stderr)
try:
    main()
except OSError:
    if not {caught}:
        raise
    traceback.print_exc()
""")
    command = [sys.executable, "-m", module]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ("this one" not in ended.stderr) is hidden
    assert ended.stderr.startswith("that one\n")
    assert (ended.returncode == 0) is caught
