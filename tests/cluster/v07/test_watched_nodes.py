"""Answers of ZooKeeper that are kept: never longer than until the event of their node."""

from __future__ import annotations

from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from spark_kafkawire.cluster.v07.watched_nodes import WatchedNodes


def event(path: str | None) -> WatchedEvent:
    kind = EventType.NONE if path is None else EventType.CHANGED
    return WatchedEvent(kind, KeeperState.CONNECTED, path)


def kept(*paths: str) -> tuple[WatchedNodes, list[None]]:
    """Nodes with answers, and a list with an item for each report of a change."""
    reports: list[None] = []
    watched = WatchedNodes(lambda: reports.append(None))
    for path in paths:
        watched.request("node", path)
        watched.keep("node", path, f"answer of {path}")
    return watched, reports


def test_an_answer_is_kept_until_the_event_of_its_node() -> None:
    watched, reports = kept("/a", "/b")
    assert watched.answer("node", "/a") == "answer of /a"
    assert watched.answer("children", "/a") is None
    watched.seen(event("/a"))
    assert watched.answer("node", "/a") is None
    assert watched.answer("node", "/b") == "answer of /b"
    assert len(reports) == 1


def test_an_answer_whose_event_comes_first_is_not_kept() -> None:
    """kazoo delivers events and answers in two threads."""
    watched, _ = kept()
    watched.request("node", "/a")
    watched.seen(event("/a"))
    watched.keep("node", "/a", "before the change")
    assert watched.answer("node", "/a") is None
    watched.request("node", "/a")
    watched.keep("node", "/a", "after it")
    assert watched.answer("node", "/a") == "after it"


def test_a_broken_connection_ends_all_watches() -> None:
    watched, reports = kept("/a", "/b")
    watched.request("node", "/c")
    watched.seen(event(None))
    watched.keep("node", "/c", "of the connection before")
    assert [watched.answer("node", path) for path in ("/a", "/b", "/c")] == [None] * 3
    assert len(reports) == 1
