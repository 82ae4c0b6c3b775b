"""Checks of a response against its request, for the APIs of all Kafka versions.

An API declares its ``faults``, a generator over a request, the response and the version of both. The
``Connection`` runs it once for each response that it has read, and refuses the response with the first
fault: a part that was not requested, a part that came twice, a missing part, or an impossible number.

    def _faults(request, response, version):
        yield from unlike(request.group_ids, (group.group_id for group in response.groups))

A fault is always one line of text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from ..errors import list_some, printable

#: Subject of a part of a request or response: a topic, a group, or a topic and the number of a partition.
Key = str | int | tuple[object, ...]
#: Faults of a response; empty if it matches its request.
Faults = Iterator[str]

#: Ports that TCP has.
PORT_MAX: Final = 65_535
#: Characters of a host: names in DNS have at most 253, addresses fewer.
HOST_SIZE_MAX: Final = 255
#: Characters of a topic's name: brokers take 249, and those of 0.8 took 255.
TOPIC_SIZE_MAX: Final = 255
#: Keys that a fault lists.
_LISTED_MAX: Final = 3


def unlike(asked: Iterable[Key], came: Iterable[Key], *, may_lack: bool = False) -> Faults:
    """Parts of a response that were not requested, that came twice, or that are missing.

    With ``may_lack`` a response may leave out parts that its broker does not know or hides.
    """
    asked, came = list(asked), list(came)
    if asked == came:
        return
    yield from find_repeated(came)
    expected, there = set(asked), set(came)
    for key in came:
        if key not in expected:
            yield f"it contains {show_key(key)}, but {_list_keys(asked)} was requested"
    if not may_lack:
        for key in asked:
            if key not in there:
                yield f"it lacks {show_key(key)}, which was requested, and contains {_list_keys(came)}"


def partitions_of(topics: Iterable[Any]) -> list[Key]:
    """Topic and index of each partition."""
    return [(topic.name, partition.partition_index) for topic in topics for partition in topic.partitions]


def find_repeated(came: Iterable[Key]) -> Faults:
    """Keys that came twice."""
    seen: set[Key] = set()
    for key in came:
        if key in seen:
            yield f"it contains {show_key(key)} twice"
        seen.add(key)


def below(minimum: int, what: str, value: int, of: Key | None = None) -> Faults:
    """Fault of a number that is below its minimum; ``of`` names the part it belongs to."""
    if value < minimum:
        whose = "" if of is None else f" of {show_key(of)}"
        yield f"it gives the {what} {value}{whose}, but the minimum is {minimum}"


def not_an_address(node_id: int, host: str, port: int) -> Faults:
    """Faults in the id or the address of a broker."""
    yield from below(0, "broker id", node_id)
    if not 0 < len(host) <= HOST_SIZE_MAX or not host.isprintable():
        yield f"it gives broker {node_id} the host '{printable(host)}', which is not a host name"
    if not 1 <= port <= PORT_MAX:
        yield f"it gives broker {node_id} ({printable(host)}) the port {port}, and ports are 1 to {PORT_MAX}"


def not_topics(names: Iterable[str]) -> Faults:
    """Names that no topic can have. Brokers take letters, digits, dots, underscores and hyphens; other
    implementations, which are less strict, take any printable name."""
    for name in names:
        if not 0 < len(name) <= TOPIC_SIZE_MAX or not name.isprintable():
            yield f"it gives a topic the name '{printable(name)}', which is not a topic name"


def nothing_to_compare(_request: object, _response: object, _version: int) -> Faults:
    """``Api.faults`` of a response that repeats nothing of its request and may hold any value."""
    return iter(())


def show_key(key: Key) -> str:
    """A key as a fault shows it."""
    return " ".join(printable(part) for part in key) if isinstance(key, tuple) else printable(key)


def _list_keys(keys: Collection[Key]) -> str:
    return list_some(keys, _LISTED_MAX, show_key) or "nothing"
