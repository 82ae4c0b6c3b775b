"""What is wrong with a reply, seen beside its request: the words in which each API says it.

An API declares its ``faults``, a generator over a request, the reply and the version of both; the
``Connection`` runs it once for each reply that it has read, and refuses a reply with the first fault
that comes. So no reply reaches its reader that is about something else than was asked, twice about the
same, or silent about a part of it, or that holds a number which cannot be.

    def _faults(request, reply, version):
        yield from unlike(request.group_ids, (group.group_id for group in reply.groups))

What a fault says is one line, whatever the peer sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Final

from ..errors import shown

#: A topic, a group, or a topic and the number of a partition: what a part of a request or reply is about.
Key = str | int | tuple[object, ...]
#: What is wrong with a reply; nothing where it fits its request.
Faults = Iterator[str]

#: Ports that TCP has.
PORT_MAX: Final = 65_535
#: Characters of a host: names in DNS have 253 and addresses less.
HOST_SIZE_MAX: Final = 255
#: Characters of a topic's name: brokers take 249, and those of 0.8 took 255.
TOPIC_SIZE_MAX: Final = 255
#: Keys that a fault lists.
_LISTED_MAX: Final = 3


def unlike(asked: Iterable[Key], came: Iterable[Key], *, may_lack: bool = False) -> Faults:
    """What came of other things than were asked for, twice of the same, or not at all.

    With ``may_lack`` a reply may leave out what its broker does not know, or does not show.
    """
    asked, came = list(asked), list(came)
    if asked == came:
        return
    yield from repeated(came)
    expected, there = set(asked), set(came)
    for key in came:
        if key not in expected:
            yield f"it tells of {named(key)}, where {_listed(asked)} was asked for"
    if not may_lack:
        for key in asked:
            if key not in there:
                yield f"it does not tell of {named(key)}, which was asked for, but of {_listed(came)}"


def repeated(came: Iterable[Key]) -> Faults:
    """What came twice."""
    seen: set[Key] = set()
    for key in came:
        if key in seen:
            yield f"it tells of {named(key)} twice"
        seen.add(key)


def below(minimum: int, what: str, value: int, of: Key | None = None) -> Faults:
    """A number, of something that has many, that is less than any can be."""
    if value < minimum:
        whose = "" if of is None else f" of {named(of)}"
        yield f"it gives the {what} {value}{whose}, and none is below {minimum}"


def not_an_address(node_id: int, host: str, port: int) -> Faults:
    """What cannot be a broker: its id, or where it listens."""
    yield from below(0, "broker id", node_id)
    if not 0 < len(host) <= HOST_SIZE_MAX or not host.isprintable():
        yield f"it gives broker {node_id} the host '{shown(host)}', which is none"
    if not 1 <= port <= PORT_MAX:
        yield f"it gives broker {node_id} ({shown(host)}) the port {port}, and ports are 1 to {PORT_MAX}"


def not_topics(names: Iterable[str]) -> Faults:
    """What no topic is named. Brokers take letters, digits, dots, underscores and hyphens; others, who
    are less strict, names that print."""
    for name in names:
        if not 0 < len(name) <= TOPIC_SIZE_MAX or not name.isprintable():
            yield f"it gives a topic the name '{shown(name)}', which none has"


def nothing_to_compare(_request: object, _reply: object, _version: int) -> Faults:
    """``Api.faults`` where a reply repeats nothing of its request, and any value may be."""
    return iter(())


def named(key: Key) -> str:
    """A key as a fault shows it."""
    return " ".join(shown(part) for part in key) if isinstance(key, tuple) else shown(key)


def _listed(keys: Collection[Key]) -> str:
    more = len(keys) - _LISTED_MAX
    return ", ".join(map(named, islice(keys, _LISTED_MAX))) + (f" and {more} more" if more > 0 else "") or (
        "nothing"
    )
