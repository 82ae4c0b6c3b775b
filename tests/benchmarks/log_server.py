"""A process that serves logs to modern clients as fast as a socket takes them, and swallows what is written.

    python -m tests.benchmarks.log_server FOLDER

Topics are the logs in the folder, and ``sink`` with two partitions. It prints its port, and ends with
the process that started it. noida-db would be the bottleneck: it spends 480 ns of CPU on each record of
100 bytes that it sends, this server 20 ns, and it answers a Fetch with the whole log. As brokers do, it
sends records from the file, without a copy of its own.
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from spark_kafkawire.broker.processes import ChildProcess
from spark_kafkawire.protocol.primitives import Buffer
from tests.support.log_server import HOST, LogServer
from tests.support.memory_log import Log

from .logs import FileLog, Sink

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


def topics(folder: Path) -> dict[str, list[Log]]:
    """The logs that were written to a folder, by topic, and the sink."""
    found: dict[str, list[Log]] = {SINK: [Sink() for _ in range(_SINK_PARTITIONS)]}
    for path in sorted(folder.iterdir()):
        name = re.fullmatch(r"(.+)-\d+", path.name)
        if path.is_dir() and name:
            found.setdefault(name[1], []).append(FileLog(path))
    return found


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
