"""Several members of a group of 0.7 in processes of their own, which come, go and are killed while ZooKeeper
restarts: at every quiet moment each partition has one owner, and together they read the log."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from spark_kafkawire.broker import ZooKeeperServer
from spark_kafkawire.cluster.v07.member import GroupView
from spark_kafkawire.cluster.v07.zookeeper_client import SESSION_TIMEOUT_MAX_S
from tests.support.polling import poll
from tests.support.short_and_long import short_and_long
from tests.support.tree_writer import TreeWriter

TOPIC: Final = "t"
COUNTS: Final = {0: 4, 1: 3}
NAMES: Final = [f"{broker}-{number}" for broker, count in COUNTS.items() for number in range(count)]
#: A log ends there, unless a test says otherwise.
END: Final = 4000
MEMBERS_MAX: Final = 5
#: When members that were killed are missed, seconds; those that a busy machine starves for so long are, too.
KILLED_SESSION_S: Final = 2.0


class Members:
    """The group ``g`` of a test: its processes, and what ZooKeeper shows of them."""

    def __init__(
        self, zookeeper: ZooKeeperServer, chroot: str, folder: Path, seed: int, end: int, session_s: float
    ) -> None:
        self._connect, self._folder, self._end = f"{zookeeper.connect}{chroot}", folder, end
        self._session_s = session_s
        self.random = random.Random(seed)
        self.running: list[subprocess.Popen[bytes]] = []
        self._started = 0
        self.client = KazooClient(self._connect)
        self.client.start()

    def start(self) -> None:
        out = self._folder / f"read-{self._started}"
        arguments = [self._connect, "g", TOPIC, str(self._end), str(out), str(self.random.random())[2:]]
        command = [sys.executable, "-m", "tests.support.group_member", *arguments, str(self._session_s)]
        with (self._folder / f"told-{self._started}").open("wb") as reported:
            self.running.append(subprocess.Popen(command, stderr=reported))
        self._started += 1

    def end_one(self, number: signal.Signals) -> None:
        """End one, in order or by kill -9."""
        process = self.running.pop(self.random.randrange(len(self.running)))
        process.send_signal(number)
        assert process.wait(120) == (0 if number is signal.SIGTERM else -number)

    def read(self) -> Counter[tuple[str, int]]:
        """Count of reads of each offset of each partition."""
        result: Counter[tuple[str, int]] = Counter()
        for path in self._folder.glob("read-*"):
            for line in path.read_text().splitlines(keepends=True):
                name, start, stop = line.split()
                result.update((name, offset) for offset in range(int(start), int(stop)))
        return result

    def offsets(self) -> dict[str, int]:
        return {name: int(data) for name, data in self._data("offsets").items()}

    def check_quiet(self) -> None:
        """Wait until nothing moves: then the owners are what the rule says, one for each partition."""
        poll(self._is_quiet, "each partition has the owner that the rule gives it")

    def _is_quiet(self) -> bool:
        with contextlib.suppress(KazooException):
            ids = self.client.get_children("/consumers/g/ids")
            view = GroupView({id_: {TOPIC: 1} for id_ in ids}, {TOPIC: COUNTS})
            due = {tp.name: thread for id_ in ids for tp, thread in view.share_of(id_).items()}
            return len(ids) == len(self.running) and self._data("owners") == due and len(due) == len(NAMES)
        return False

    def _data(self, kind: str) -> dict[str, str]:
        root = f"/consumers/g/{kind}/{TOPIC}"
        names = self.client.get_children(root) if self.client.exists(root) else []
        return {name: self.client.get(f"{root}/{name}")[0].decode() for name in names}

    def await_end(self) -> None:
        """Wait until the group has read all."""
        poll(self._is_at_end, "the ends of all partitions", 240.0)

    def _is_at_end(self) -> bool:
        with contextlib.suppress(KazooException):
            return self.offsets() == dict.fromkeys(NAMES, self._end)
        return False

    def close(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()
        self.client.stop()
        self.client.close()


@contextlib.contextmanager
def group_of(
    zookeeper: ZooKeeperServer, folder: Path, seed: int, end: int, session_s: float
) -> Iterator[Members]:
    chroot = f"/{folder.name}"
    with TreeWriter(zookeeper.connect, chroot) as tree:
        tree.put_topic(TOPIC, COUNTS)
    members = Members(zookeeper, chroot, folder, seed, end, session_s)
    try:
        yield members
    finally:
        members.close()


def partitions_read(members: Members, end: int) -> Counter[int]:
    """Counts of offsets by how often they were read; asserts that all of them were."""
    result = members.read()
    assert result.keys() == {(name, offset) for name in NAMES for offset in range(end)}
    return Counter(result.values())


@short_and_long("steps, end", short=(2, END), long=(40, 15 * END))
def test_members_that_come_and_go_read_each_offset_once(
    steps: int, end: int, own_zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    with group_of(own_zookeeper, tmp_path, 7, end, SESSION_TIMEOUT_MAX_S) as members:
        members.start()
        members.start()
        for _ in range(steps):
            members.check_quiet()
            if len(members.running) < 2 or (
                len(members.running) < MEMBERS_MAX and members.random.random() < 0.6
            ):
                members.start()
            else:
                members.end_one(signal.SIGTERM)
        members.check_quiet()
        members.await_end()
        assert partitions_read(members, end) == {1: len(NAMES) * end}


@short_and_long("kills, restarts, end", short=(2, 1, END), long=(30, 6, 25 * END))
def test_members_that_are_killed_while_zookeeper_restarts_lose_nothing(
    kills: int, restarts: int, end: int, own_zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    with group_of(own_zookeeper, tmp_path, 11, end, KILLED_SESSION_S) as members:
        for _ in range(3):
            members.start()
        for step in range(kills):
            members.check_quiet()
            members.end_one(signal.SIGKILL)
            members.start()
            if step < restarts:
                own_zookeeper.kill() if step % 2 else own_zookeeper.stop()
                own_zookeeper.start()
        members.check_quiet()
        members.await_end()
        times = partitions_read(members, end)
    # What a killed member has read and not committed is read again, and that is not much.
    assert times[1] > len(NAMES) * end / 2
