"""Errors at the edge to Spark and to users' programs: without frames of ours, which the log has. A warning of
a Spark that runs a Python without the package."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import pickle
import shutil
import subprocess
import sys
import traceback
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_kafkawire import secrecy
from spark_kafkawire.errors import BrokerError, OptionError
from spark_kafkawire.source.edge import edge
from spark_kafkawire.source.other_python import warn_of_other_python
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
def test_our_error_has_no_frames_and_no_cause(run: Callable[[Exception], object]) -> None:
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


def test_debug_log_has_the_traceback_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
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
    monkeypatch.delenv(HIDE)
    monkeypatch.delenv("PYTHON_WORKER_FACTORY_PORT")  # a program of a user's
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
        ("stream_reader", "PositionStreamReader"),
        pytest.param("stream_limits", "LimitedStreamReader", marks=READ_LIMITS),
        pytest.param("stream_writer", "KafkaWireStreamWriter", marks=STREAM_SINKS),
    ],
)
def test_all_that_spark_calls_is_an_edge(module: str, name: str) -> None:
    """Spark calls what its own classes name."""
    kind = getattr(importlib.import_module(f"spark_kafkawire.source.{module}"), name)
    of_spark = [base for base in kind.__mro__ if base.__module__.startswith("pyspark.")]
    called = {item for base in of_spark for item in vars(base) if not item.startswith("_")} - {"name"}
    ours = {
        item: function
        for base in kind.__mro__
        if base.__module__.startswith("spark_kafkawire.")
        for item, function in vars(base).items()
        if item in called
    }
    assert ours
    assert [item for item, function in ours.items() if inspect.unwrap(function) is function] == []


@pytest.mark.parametrize(
    ("module", "error", "hidden", "caught"),
    [
        ("pyspark.daemon", BrokenPipeError, True, True),
        ("pyspark.daemon", ConnectionResetError, True, False),
        ("pyspark.daemon", OSError, False, True),
        ("users.pyspark.daemon", BrokenPipeError, False, False),
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


# A Python without the package


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """The Python of an empty environment."""
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    return tmp_path / "bare" / "bin" / "python"


def warning(python: Path, why: str) -> str:
    return (
        f"A Spark that this program starts runs '{python}' ({why}), where spark-kafkawire is not installed, "
        "and fails with DATA_SOURCE_NOT_FOUND: set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to "
        f"'{sys.executable}' before it starts"
    )


def said(code: str, cwd: Path, **variables: str) -> tuple[str, int]:
    """The standard error of a program that was not started by ``make``, and its exit code."""
    left = {name: value for name, value in os.environ.items() if not name.startswith("PY")}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=cwd, env=left | variables, capture_output=True, text=True, timeout=240)
    return done.stderr, done.returncode


def test_a_program_is_warned_when_it_imports_the_package_after_pyspark(bare: Path, tmp_path: Path) -> None:
    variables = {"PYSPARK_DRIVER_PYTHON": str(bare), "PYSPARK_PYTHON": sys.executable}
    reported = said("import pyspark; import spark_kafkawire", tmp_path, **variables)
    assert reported == (f"{warning(bare, 'PYSPARK_DRIVER_PYTHON')}\n", 0)
    looked = "import sys, spark_kafkawire; assert 'spark_kafkawire.source' not in sys.modules"
    assert said(looked, tmp_path, PYSPARK_PYTHON=str(bare)) == ("", 0)


@pytest.fixture
def warned(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> Callable[..., list[str]]:
    """Warnings in this process, with these variables."""
    for name in [name for name in os.environ if name.startswith("PY")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def warned(**variables: str) -> list[str]:
        caplog.clear()
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            warn_of_other_python()
        return caplog.messages

    return warned


def test_without_a_variable_the_path_decides(bare: Path, warned: Callable[..., list[str]]) -> None:
    path = f"{bare.parent}{os.pathsep}{os.environ['PATH']}"
    why = "the first python3 in PATH, as PYSPARK_PYTHON is not set"
    assert warned(PATH=path) == [warning(bare.with_name("python3"), why)]


def test_a_python_that_may_have_the_package_is_not_warned_of(
    bare: Path, tmp_path: Path, warned: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {"PYSPARK_PYTHON": str(bare)}
    assert warned(**ours) == [warning(bare, "PYSPARK_PYTHON")]
    for variables in (
        {"PYSPARK_PYTHON": sys.executable},
        {"PYTHONPATH": str(ROOT)},
        {"PYSPARK_GATEWAY_PORT": "1"},
        {"SPARK_REMOTE": "sc://127.0.0.1"},
    ):
        assert warned(**{**ours, **variables}) == []
    with monkeypatch.context() as patch:
        patch.chdir(ROOT)  # in which Python looks
        assert warned(**ours) == []
    script = tmp_path / "shims" / "python3"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    assert warned(PYSPARK_PYTHON=str(script)) == []
    venv.create(tmp_path / "wide", with_pip=False, symlinks=True, system_site_packages=True)
    assert warned(PYSPARK_PYTHON=str(tmp_path / "wide" / "bin" / "python")) == []
    [packages] = (tmp_path / "bare").glob("lib/python*/site-packages")
    shutil.copy(ROOT / "pyspark_kafkawire.py", packages)
    assert warned(**ours) == []


def test_a_check_that_cannot_look_is_no_error(
    bare: Path, tmp_path: Path, warned: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        (tmp_path / "gone").mkdir()
        patch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        assert warned(PYSPARK_PYTHON=str(bare)) == []
    settings = bare.parents[1] / "pyvenv.cfg"
    settings.unlink()
    settings.symlink_to("pyvenv.cfg")
    warned(PYSPARK_PYTHON=str(bare))
