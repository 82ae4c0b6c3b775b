"""A member of a group of 0.7 in its own process, which reads numbered logs batch by batch.

python -m tests.support.group_member ZOOKEEPER GROUP TOPIC END FILE SEED SESSION_S

A batch of a partition is what lies between where the group stands and a drawn offset. It is written to FILE,
one line ``LOG START STOP`` for each partition, when it is read; then it is committed, as a query does.
SIGTERM is an end after the batch. Where all partitions are read it stays, as a member that waits for more.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
from pathlib import Path
from typing import Final

from spark_kafkawire.cluster.v07 import member as member_module
from spark_kafkawire.cluster.v07.member import Member, OwnedPartition
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.retry import RetryPolicy
from spark_kafkawire.options import Discovery

#: How long ZooKeeper may be away, seconds, and a batch takes at most.
WAIT_MAX_S: Final = 120.0
BATCH_S: Final = 0.2
#: Most offsets of one batch.
BATCH_SIZE: Final = 200


class Reader:
    """Reads of one member: past and next ones."""

    def __init__(self, member: Member, end: int, out: Path, seed: int) -> None:
        self._member, self._end, self._out = member, end, out
        self._random = random.Random(seed)
        self._stands: dict[TopicPartition, tuple[int, OwnedPartition]] = {}

    def batch(self, stopped: threading.Event) -> None:
        """Read and commit a batch of all that is owned."""
        owned = self._member.hold()
        read = {tp: self._range(own) for tp, own in owned.items()}
        stopped.wait(self._random.uniform(0, BATCH_S))
        with self._out.open("a") as out:
            out.writelines(
                f"{tp.name} {start} {stop}\n" for tp, (start, stop) in read.items() if start < stop
            )
        self._stands = {tp: (stop, owned[tp]) for tp, (_, stop) in read.items()}
        self._member.commit(self._stands)
        self._member.let_go()

    def _range(self, own: OwnedPartition) -> tuple[int, int]:
        stands, known = self._stands.get(own.partition, (0, None))
        start = stands if known == own else own.offset or 0
        return start, min(start + self._random.randrange(BATCH_SIZE), self._end)


def main() -> None:
    """Be a member until SIGTERM."""
    connect, group, topic, end, out, seed, session_s = sys.argv[1:]
    setattr(member_module, "SESSION_TIMEOUT_S", float(session_s))  # noqa: B010  # it is no option
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    retry = RetryPolicy(3, 0.1, WAIT_MAX_S)
    member = Member(Discovery(zookeeper_connect=connect), group, [topic], 1, retry, WAIT_MAX_S)
    reader = Reader(member, int(end), Path(out), int(seed))
    while not stopped.is_set():
        reader.batch(stopped)
    member.close()


if __name__ == "__main__":
    main()
