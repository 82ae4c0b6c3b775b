"""Three embedded brokers with the configuration, state and clock of the recorded ones.

``python -m tests.support.recorded_brokers`` runs them and prints their ports, as the replay
script takes them, until Ctrl-C. Their clock begins at the recorded moment: two exchanges ask for
a time that was an hour ahead then, and no broker answers them so once that hour has passed.

Source: ``tests/golden/kafka-0.7.2/README.md``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spark_kafkawire.broker import BrokerConfig, BrokerServer
from tests.support import golden

#: The groups of exchanges that need nothing but these brokers.
GROUPS: Final = ("produce", "multiproduce", "protocol", "fetch", "multifetch", "offsets")
#: When the exchanges about time were recorded, ms.
RECORDED_AT_MS: Final = 1795251708000
#: Modification times of the three files of lab-segs-0, s.
MODIFIED_S: Final = (1795240908, 1795244508, 1795248108)

_LIKE_THE_FIRST: Final = {
    "num.partitions": "3",
    "log.file.size": "65536",
    "log.flush.interval": "1",
    "log.retention.size": "400000",
    "topic.partition.count.map": "lab-five:5",
}
_LIMITED: Final = {
    "num.partitions": "3",
    "log.flush.interval": "1000",
    "log.default.flush.interval.ms": "1500",
    "log.default.flush.scheduler.interval.ms": "500",
    "max.message.size": "1000",
    "max.socket.request.bytes": "5000",
    "max.topic.name.length": "20",
}


@contextlib.contextmanager
def running(folder: Path, wire_format: str = "0.7") -> Iterator[list[BrokerServer]]:
    """Brokers 0, 1 and 2, with their logs in ``folder``; ``wire_format`` is what else they speak."""
    started_ns = time.monotonic_ns()

    def clock_ms() -> int:
        return RECORDED_AT_MS + (time.monotonic_ns() - started_ns) // 1_000_000

    with contextlib.ExitStack() as stack:
        brokers = []
        for broker_id, properties in enumerate((_LIKE_THE_FIRST, _LIKE_THE_FIRST, _LIMITED)):
            log_dir = folder / f"broker{broker_id}"
            if broker_id == 0:
                golden.copy_segments(log_dir, "runB-broker0/lab-fetch-0", "runB-broker0/lab-segs-0")
            config = BrokerConfig.from_properties(
                {
                    "brokerid": str(broker_id),
                    "port": "0",
                    "log.dir": str(log_dir),
                    "wire.format": wire_format,
                    **properties,
                }
            )
            brokers.append(stack.enter_context(BrokerServer(config, clock_ms=clock_ms)))
        segments = sorted((folder / "broker0" / "lab-segs-0").iterdir())
        for path, modified_s in zip(segments, MODIFIED_S, strict=True):
            os.utime(path, (modified_s, modified_s))
        yield brokers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary, running(Path(temporary)) as servers:
        ports = " ".join(f"--port {server.config.broker_id}={server.port}" for server in servers)
        print(f"{ports} --only '^({'|'.join(GROUPS)})/'", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
