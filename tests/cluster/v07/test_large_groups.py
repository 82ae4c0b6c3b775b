"""Groups of 0.7 with hundreds of members in a real ZooKeeper: work grows with the group and no faster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import pytest
from kazoo.client import KazooClient

from spark_kafkawire.cluster.v07 import member as member_module
from spark_kafkawire.cluster.v07 import ownership
from spark_kafkawire.cluster.v07.balancing import THREADS_COUNT_MAX, GroupView, subscription
from spark_kafkawire.cluster.v07.kazoo_client import SESSION_TIMEOUT_MAX_S
from spark_kafkawire.cluster.v07.member import Member
from spark_kafkawire.cluster.v07.zookeeper_tree import NODE_BYTES_MAX
from spark_kafkawire.errors import MESSAGE_SIZE_MAX, DiscoveryError
from spark_kafkawire.net.retry import RetryPolicy
from spark_kafkawire.options import Discovery
from tests.support.polling import poll
from tests.support.tree_writer import TreeWriter

TIMEOUT_S: Final = 60.0
RETRY: Final = RetryPolicy(3, 0.1, TIMEOUT_S)
IDS: Final = "/consumers/g/ids"
#: The group: 300 members with 33 threads each, and two partitions for each thread.
MEMBERS: Final = 300
THREADS: Final = 33
BROKERS: Final = dict.fromkeys(range(10), 1_980)


@pytest.fixture(autouse=True)
def patient_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that a busy machine starves for some seconds is not taken for dead."""
    monkeypatch.setattr("spark_kafkawire.cluster.v07.member_session.SESSION_TIMEOUT_S", SESSION_TIMEOUT_MAX_S)


@pytest.fixture
def others(tree: TreeWriter) -> Iterator[KazooClient]:
    """A client whose session holds the nodes of the other members."""
    tree.put(IDS)
    client = KazooClient(tree.connect)
    client.start()
    yield client
    client.stop()
    client.close()


def register(others: KazooClient, names: list[str], data: bytes) -> None:
    for pending in [others.create_async(f"{IDS}/{name}", data, ephemeral=True) for name in names]:
        pending.get()


class CountedMember(Member):
    """A member that lists its requests to ZooKeeper, as operation and path."""

    def __init__(self, discovery: Discovery, thread_count: int) -> None:
        self.requests: list[tuple[str, str]] = []
        super().__init__(discovery, "g", ["t"], thread_count, RETRY, TIMEOUT_S)

    def count(self) -> None:
        """List requests from now on."""
        client = self._session._client
        for name in ("get", "get_children", "create", "set", "delete", "exists"):
            setattr(client, f"{name}_async", self._listed(name, getattr(client, f"{name}_async")))

    def _listed(self, name: str, send: Any) -> Any:
        def listed(path: str, *arguments: Any, **named: Any) -> Any:
            self.requests.append((name, path))
            return send(path, *arguments, **named)

        return listed

    def registrations_read(self) -> set[str]:
        """Names of the other members whose nodes were requested."""
        names = {
            path.removeprefix(f"{IDS}/") for name, path in self.requests if name == "get" and IDS in path
        }
        return names - {self.id}


@contextlib.contextmanager
def joined(tree: TreeWriter, thread_count: int = 1) -> Iterator[CountedMember]:
    member = CountedMember(tree.discovery, thread_count)
    member.count()
    try:
        yield member
    finally:
        member.close()


def test_a_member_of_a_large_group_reads_each_node_once_and_then_what_changes(
    tree: TreeWriter, others: KazooClient
) -> None:
    tree.put_topic("t", BROKERS)
    names = [f"g_{number:03}" for number in range(MEMBERS - 1)]
    register(others, names, subscription(["t"], THREADS))
    with joined(tree, THREADS) as member:
        owned = member.hold()
        counts = {name: {"t": THREADS} for name in (*names, member.id)}
        expected = GroupView(counts, {"t": BROKERS}).share_of(member.id)
        assert set(owned) == set(expected)
        assert len(owned) == 2 * THREADS
        # Twice for nodes whose parents are missing, and as much again for a second look.
        most = MEMBERS + len(BROKERS) + 2 * 5 * len(owned) + 50
        assert len(member.requests) <= most
        assert len(member.registrations_read()) == MEMBERS - 1
        member.let_go()
        before = len(member.requests)
        others.delete(f"{IDS}/{names[0]}")
        # Partitions move from the first members to the others, and so does one of this member's, or more.
        del counts[names[0]]
        expected = GroupView(counts, {"t": BROKERS}).share_of(member.id)
        poll(lambda: set(released(member)) == set(expected), "the share of a smaller group")
        member.requests = member.requests[before:]
        assert member.registrations_read() == set()


def released(member: Member) -> dict[Any, Any]:
    owned = member.hold()
    member.let_go()
    return owned


def test_members_that_come_together_are_seen_in_one_look(
    tree: TreeWriter, others: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_module, "LOOK_PAUSE_S", 10 * TIMEOUT_S)
    tree.put_topic("t", {0: 100})
    with joined(tree) as member:
        assert len(released(member)) == 100
        for number in range(99):
            register(others, [f"g_{number:03}"], subscription(["t"], 1))
        poll(member._stirred.is_set, "the event")
        poll(lambda: len(released(member)) == 1, "the share of one of a hundred")
        looks = [path for name, path in member.requests if name == "get_children" and path == IDS]
        assert len(looks) <= 10
        assert len(member.registrations_read()) == 99


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        (b'{"t": 1000000000}', "no consumer of 0.7 can read"),
        (b'{"t": ' + b"9" * 5_000 + b"}", "no consumer of 0.7 can read"),
        (b'{"t": 1, "u": %d}' % (THREADS_COUNT_MAX + 1), "no consumer of 0.7 can read"),
        (b"[" * 60_000, "no consumer of 0.7 can read"),
        (b'{"t": 1, "' + b"u" * NODE_BYTES_MAX + b'": 1}', f"than {NODE_BYTES_MAX}: is this another program"),
    ],
)
def test_a_registration_that_no_group_has_is_one_line(
    data: bytes, reported: str, tree: TreeWriter, others: KazooClient
) -> None:
    tree.put_topic("t", {0: 3})
    register(others, ["g_other"], data)
    assert f"{IDS}/g_other" in (message := fault(tree))
    assert reported in message


def test_more_consumers_or_bytes_than_a_group_has_are_one_line(
    tree: TreeWriter, others: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.put_topic("t", {0: 3})
    register(others, [f"g_{number}" for number in range(20)], subscription(["t"], 1))
    with monkeypatch.context() as patch:
        patch.setattr(ownership, "CONSUMERS_COUNT_MAX", 20)
        assert f"node {IDS} registers 21 consumers, and a group has at most 20" in fault(tree)
    monkeypatch.setattr(ownership, "REGISTRATIONS_BYTES_MAX", 100)
    assert f"the nodes in {IDS} hold more than 100 bytes" in fault(tree)


def fault(tree: TreeWriter) -> str:
    with joined(tree) as member, pytest.raises(DiscoveryError) as error:
        member.hold()
    message = str(error.value)
    assert message.isprintable()
    assert len(message) <= MESSAGE_SIZE_MAX
    return message
