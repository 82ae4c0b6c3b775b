"""Processes that write and that a test may kill meanwhile: a Spark, or forks."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psutil

from .forked_writes import DRIVER
from .local_spark import home_with_byte_code
from .write_driver import ANSWER

_ROOT: Final = Path(__file__).parents[2]
#: How long it may take to start, to write, and to end, on a machine with other work, seconds.
WAIT_MAX_S: Final = 900.0


class WriteProcess:
    """A module that answers questions, started when it is asked first, and again after it was killed."""

    def __init__(self, folder: Path, *argv: str) -> None:
        self._folder = folder
        self._argv = (sys.executable, "-m", *argv)
        self._process: subprocess.Popen[bytes] | None = None
        self._reported = b""

    @property
    def is_running(self) -> bool:
        """True if it was started and not killed since."""
        return self._process is not None

    def start(self) -> None:
        """Start it where it does not run, and wait until it takes questions."""
        if self._process is not None:
            return
        pipe = subprocess.PIPE
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._argv, cwd=_ROOT, stdin=pipe, stdout=pipe, stderr=log, start_new_session=True
            )
        assert self._answer() is not None, (self._folder / "log").read_text()[-4000:]

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        """Its answer; None where it was killed before it gave one."""
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        answer = self._answer()
        if answer is None:
            self._bury()
        return answer

    def kill_driver(self) -> None:
        """End the driver as ``kill -9`` does; its workers find out by themselves."""
        raise NotImplementedError

    def kill_worker(self, client_port: int, draw: random.Random) -> bool:
        """End the Python process that has this port, or any that works for Spark; whether there was one."""
        for process in self._workers(client_port, draw):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
                return True
        return False

    def __enter__(self) -> WriteProcess:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(WAIT_MAX_S)
            self._bury()

    def _bury(self) -> None:
        assert self._process is not None
        self._kill_group()
        self._process.wait(WAIT_MAX_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._process, self._reported = None, b""

    def _answer(self) -> dict[str, Any] | None:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        deadline_s = time.monotonic() + WAIT_MAX_S
        while True:
            line, found, rest = self._reported.partition(b"\n")
            if found:
                self._reported = rest
                if (answer := self._heard(line.decode())) is not None:
                    return answer
                continue
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"no answer in {WAIT_MAX_S:g} s: {(self._folder / 'log').read_text()[-4000:]}"
            if select.select([process.stdout], [], [], left_s)[0]:
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    return None
                self._reported += data

    def _heard(self, line: str) -> dict[str, Any] | None:
        """The answer that a line is."""
        answer: dict[str, Any] | None = json.loads(line[len(ANSWER) :]) if line.startswith(ANSWER) else None
        return answer

    def _kill_group(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _workers(self, client_port: int, draw: random.Random) -> list[psutil.Process]:
        assert self._process is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            children = psutil.Process(self._process.pid).children(recursive=True)
            found = [process for process in children if self._is_worker(process)]
            if not client_port:
                return draw.sample(found, min(1, len(found)))
            return [process for process in found if client_port in _ports_of(process)]
        return []

    def _is_worker(self, process: psutil.Process) -> bool:
        raise NotImplementedError


class SparkWrites(WriteProcess):
    """``tests.support.write_driver``: a driver, Python and JVM, that does one write after the other."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        settings = {"spark.local.dir": str(folder), **settings}
        super().__init__(folder, "tests.support.write_driver", home_with_byte_code(), json.dumps(settings))

    def kill_driver(self) -> None:
        """End Python and JVM."""
        self._kill_group()

    def _is_worker(self, process: psutil.Process) -> bool:
        """True if a daemon of Spark's has forked the process."""
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = process.parent()
            return parent is not None and all(
                "pyspark.daemon" in each.cmdline() for each in (process, parent)
            )
        return False


class ForkedWrites(WriteProcess):
    """``tests.support.forked_writes``: a driver for each write."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "tests.support.forked_writes")
        self._driver = 0

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        """As any; the process goes on where the driver was killed."""
        answer = super().ask(question)
        self._driver = 0
        return None if answer and "killed" in answer else answer

    def kill_driver(self) -> None:
        """End the process of the write, and what it does itself: a driver's commit dies with it."""
        if self._driver:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._driver, signal.SIGKILL)

    def _heard(self, line: str) -> dict[str, Any] | None:
        if line.startswith(DRIVER):
            self._driver = int(line[len(DRIVER) :])
        return super()._heard(line)

    def _is_worker(self, process: psutil.Process) -> bool:
        """True if the driver has forked the process."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return bool(process.ppid() == self._driver)
        return False


def _ports_of(process: psutil.Process) -> set[int]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return {each.laddr.port for each in process.net_connections("tcp") if each.laddr}
    return set()
