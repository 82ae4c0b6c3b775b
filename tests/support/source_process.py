"""The process that plans a streaming query, started and called as Spark's JVM does it, without the JVM.

It is pyspark's own ``python_streaming_source_runner``: what its memory does is what that of a query does.
"""

from __future__ import annotations

import os
import pickle
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil
from pyspark.sql.streaming import python_streaming_source_runner as runner

from spark_kafkawire import KafkaWireDataSource
from tests.support.sparks import READ_LIMITS, needs

#: How long it may take to start, and to answer, on a machine with other work, seconds.
WAIT_MAX_S: Final = 300.0
#: In place of the length of an answer: a traceback follows. Source: pyspark's SpecialLengths.
_RAISED: Final = -2
_INT: Final = struct.Struct(">i")


class SourceRaised(Exception):
    """Error that the process raised: the traceback that Spark would show."""


class SourceProcess:
    """One query's planning process, from ``with`` on."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._source = KafkaWireDataSource(dict(options))
        self._limit = ""

    def __enter__(self) -> SourceProcess:
        needs(READ_LIMITS)
        self._folder = tempfile.TemporaryDirectory(prefix="kafkawire-source-")
        path = str(Path(self._folder.name) / "socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(path)
            listener.listen(1)
            listener.settimeout(WAIT_MAX_S)
            environ = {**os.environ, "PYTHON_WORKER_FACTORY_SOCK_PATH": path}
            self._process = subprocess.Popen([sys.executable, "-m", runner.__name__], env=environ)
            self._socket, _ = listener.accept()
        self._socket.settimeout(WAIT_MAX_S)
        self._file = self._socket.makefile("rwb")
        self._begin()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._file.close()
        self._socket.close()
        self.kill()
        self._folder.cleanup()

    def kill(self) -> None:
        """End it as ``kill -9`` does."""
        self._process.kill()
        self._process.wait()

    def _begin(self) -> None:
        assert self._int() == self._process.pid
        self._put(f"{sys.version_info.major}.{sys.version_info.minor}".encode())
        self._put(self._folder.name.encode())
        self._put_int(0)  # no files besides
        self._put(pickle.dumps(self._source))
        self._put(self._source.schema().json().encode())
        self._put_int(10_000)  # records of an Arrow batch that the process would read itself
        self._file.flush()
        assert self._answer_int() == 0
        self._ask(runner.GET_DEFAULT_READ_LIMIT_FUNC_ID)
        self._limit = self._answer().decode()

    @property
    def statistics(self) -> psutil.Process:
        """The process as the operating system knows it."""
        return psutil.Process(self._process.pid)

    def initial_offset(self) -> str:
        """Offset at which a new query starts."""
        self._ask(runner.INITIAL_OFFSET_FUNC_ID)
        return self._answer().decode()

    def latest_offset(self, start: str) -> str:
        """End of the next batch; and the end of the partitions, as Spark asks for it then."""
        self._ask(runner.LATEST_OFFSET_ADMISSION_CONTROL_FUNC_ID, start, self._limit)
        end = self._answer().decode()
        self._ask(runner.REPORT_LATEST_OFFSET_FUNC_ID)
        self._answer()
        return end

    def partitions(self, start: str, end: str) -> list[bytes]:
        """Partitions that the tasks of a batch get."""
        self._ask(runner.PARTITIONS_FUNC_ID, start, end)
        tasks = [self._answer() for _ in range(self._answer_int())]
        assert self._answer_int() == runner.PREFETCHED_RECORDS_NOT_FOUND
        return tasks

    def commit(self, end: str) -> None:
        """The batch that ends there is done."""
        self._ask(runner.COMMIT_FUNC_ID, end)
        assert self._answer_int() == 0

    def _ask(self, function: int, *arguments: str) -> None:
        self._put_int(function)
        for argument in arguments:
            self._put(argument.encode())
        self._file.flush()

    def _put_int(self, value: int) -> None:
        self._file.write(_INT.pack(value))

    def _put(self, data: bytes) -> None:
        self._put_int(len(data))
        self._file.write(data)

    def _int(self) -> int:
        value: int = _INT.unpack(self._read(_INT.size))[0]
        return value

    def _answer_int(self) -> int:
        value = self._int()
        if value == _RAISED:
            raise SourceRaised(self._read(self._int()).decode())
        return value

    def _answer(self) -> bytes:
        return self._read(self._answer_int())

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        assert len(data) == size, "the process has ended"
        return data
