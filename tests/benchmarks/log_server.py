"""A process that serves logs to modern clients as fast as a socket takes them, and swallows what is written.

    python -m tests.benchmarks.log_server FOLDER

Topics are the logs in the folder, and ``sink`` with two partitions. It prints its port, and ends with
the process that started it. noida-db would be the bottleneck: it spends 480 ns of CPU on each record of
100 bytes that it sends, this server 20 ns, and it answers a Fetch with the whole log. As brokers do, it
sends records from the file, without a copy of its own.
"""

from __future__ import annotations

import mmap
import re
import socket
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from spark_kafkawire.broker.cluster import ChildProcess
from spark_kafkawire.protocol.primitives import Buffer
from tests.support.log_server import HOST, LogServer
from tests.support.memory_log import Log, offset_count, split

from .logs import DATA, INDEX

SINK: Final = "sink"
#: The process is ready when Python and numpy are loaded.
START_TIMEOUT_S: Final = 60.0
_SINK_PARTITIONS: Final = 2


@contextmanager
def log_server(folder: Path) -> Iterator[str]:
    """Serve the logs of a folder from a process of their own; its ``host:port``."""
    output, log = folder / "server.port", folder / "server.log"
    argv = [sys.executable, "-m", __name__, str(folder)]
    server = ChildProcess("the log server", argv, output=output, log=log)
    try:
        port = server.wait_until(lambda: output.read_text().strip() or None, "serving", START_TIMEOUT_S)
        yield f"{HOST}:{port}"
    finally:
        server.kill()
        output.unlink()


class FileLog:
    """A log of a folder, served from the page cache as brokers do."""

    _by_map: ClassVar[dict[int, FileLog]] = {}

    def __init__(self, folder: Path) -> None:
        offsets, positions = np.load(folder / INDEX).T
        self._offsets: list[int] = offsets.tolist()
        self._positions: list[int] = positions.tolist()
        self.stop_offset = self._offsets[-1]
        self.file = open(folder / DATA, "rb")  # noqa: SIM115  # as long as the process serves it
        self._map = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)
        self._by_map[id(self._map)] = self

    @classmethod
    def of(cls, part: Buffer) -> FileLog | None:
        """The log that a part of a response is a view of."""
        return cls._by_map.get(id(part.obj)) if isinstance(part, memoryview) else None

    def position_of(self, batches: Buffer) -> int:
        """Position in the file at which the batches begin."""
        return self._positions[bisect_right(self._offsets, int.from_bytes(batches[:8], "big")) - 1]

    def read(self, offset: int, size_max: int) -> Buffer:
        """From the batch of the offset on, cut at ``size_max``, but the first batch whole."""
        if offset >= self.stop_offset:
            return b""
        index = bisect_right(self._offsets, offset) - 1
        start = self._positions[index]
        return memoryview(self._map)[start : max(self._positions[index + 1], start + size_max)]

    def append(self, _batches: Buffer, /) -> int:
        """Nothing is written here."""
        raise AssertionError("a benchmark's log is read only")


class Sink:
    """A log that takes everything and keeps nothing: a write without any writing."""

    def __init__(self) -> None:
        self.stop_offset = 0

    def read(self, _offset: int, _size_max: int, /) -> Buffer:
        """There is nothing."""
        return b""

    def append(self, batches: Buffer, /) -> int:
        """Count the records."""
        first = self.stop_offset
        self.stop_offset += sum(map(offset_count, split(batches)))
        return first


def topics(folder: Path) -> dict[str, list[Log]]:
    """The logs that were written to a folder, by topic, and the sink."""
    result: dict[str, list[Log]] = {SINK: [Sink() for _ in range(_SINK_PARTITIONS)]}
    for path in sorted(folder.iterdir()):
        name = re.fullmatch(r"(.+)-\d+", path.name)
        if path.is_dir() and name:
            result.setdefault(name[1], []).append(FileLog(path))
    return result


class _FileServer(LogServer):
    def _send(self, connection: socket.socket, parts: Sequence[Buffer]) -> None:
        for part in parts:
            log = FileLog.of(part)
            if log is None:
                connection.sendall(part)
            else:
                connection.sendfile(log.file, log.position_of(part), len(part))


if __name__ == "__main__":
    server = _FileServer(topics(Path(sys.argv[1])))
    print(server.port, flush=True)
    server.serve_forever()
