"""Coordinators of groups and transactions in the fake cluster: all requests succeed.

A transaction is ongoing until it is ended, and complete from then on. No group has an offset, so each write
of a name is its first. Source of the layouts: Apache Kafka's message definitions.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

#: No tagged fields.
NONE: Final = b"\0"
#: Identity of all transactions.
PRODUCER_ID: Final = 7
PRODUCER_EPOCH: Final = 0
#: By API key: the name, and the version, with compact lengths.
APIS: Final[Mapping[int, tuple[str, int]]] = {
    9: ("OffsetFetch", 8),
    10: ("FindCoordinator", 4),
    15: ("DescribeGroups", 5),
    22: ("InitProducerId", 4),
    25: ("AddOffsetsToTxn", 3),
    26: ("EndTxn", 3),
    28: ("TxnOffsetCommit", 3),
    65: ("DescribeTransactions", 0),
    66: ("ListTransactions", 0),
}
_NOT_ASKED: Final = -(1 << 31)
_TIMEOUT_MS: Final = 60_000


class Coordinators:
    """The coordinators of all brokers. Methods take the body of a request, and return that of its answer."""

    def __init__(self, topic: str) -> None:
        self.ports: Sequence[int] = ()
        self._ended: set[str] = set()
        partition = varint(2) + struct.pack(">ihB", 0, 0, 0) + NONE
        self._committed = bytes(4) + varint(2) + text(topic) + partition + NONE
        self.answers: Mapping[int, Callable[[bytes], bytes]] = {
            9: lambda body: bytes(4) + varint(2) + _without_offsets(body) + NONE,
            10: lambda body: bytes(4) + _each(body, 1, self._coordinator) + NONE,
            15: lambda body: bytes(4) + _each(body, 0, _group) + NONE,
            22: self._init_producer_id,
            25: lambda _: bytes(7),
            26: self._end,
            28: lambda _: self._committed,
            65: lambda body: bytes(4) + _each(body, 0, self._described) + NONE,
            66: lambda _: bytes(6) + varint(1) * 2 + NONE,
        }

    def _coordinator(self, key: str) -> bytes:
        number = zlib.crc32(key.encode()) % len(self.ports)
        place = struct.pack(">i", number) + text("127.0.0.1") + struct.pack(">i", self.ports[number])
        return text(key) + place + bytes(2) + varint(0) + NONE

    def _init_producer_id(self, body: bytes) -> bytes:
        size, pos = read_varint(body, 0)
        if size:  # ids may be used again
            self._ended.discard(body[pos : pos + size - 1].decode())
        return struct.pack(">ihqhB", 0, 0, PRODUCER_ID, PRODUCER_EPOCH, 0)

    def _end(self, body: bytes) -> bytes:
        size, pos = read_varint(body, 0)
        self._ended.add(body[pos : pos + size - 1].decode())
        return bytes(7)

    def _described(self, id_: str) -> bytes:
        state = text("CompleteCommit" if id_ in self._ended else "Ongoing")
        times = struct.pack(">iq", _TIMEOUT_MS, 0)
        return (
            bytes(2) + text(id_) + state + times + struct.pack(">qh", PRODUCER_ID, PRODUCER_EPOCH) + b"\1\0"
        )


def _without_offsets(body: bytes) -> bytes:
    """The answer for the one group of an OffsetFetch: no offset in each partition that it names."""
    group, pos = _name(body, 1)
    topic_count, pos = read_varint(body, pos)
    topics = []
    for _ in range(topic_count - 1):
        name, pos = _name(body, pos)
        count, pos = read_varint(body, pos)
        indexes = [body[at : at + 4] for at in range(pos, pos + 4 * (count - 1), 4)]
        pos += 4 * (count - 1) + 1
        partitions = b"".join(index + struct.pack(">qiBh", -1, -1, 1, 0) + NONE for index in indexes)
        topics.append(text(name) + varint(count) + partitions + NONE)
    return text(group) + varint(len(topics) + 1) + b"".join(topics) + bytes(2) + NONE


def _group(name: str) -> bytes:
    texts = text(name) + text("Dead") + text("") * 2
    return bytes(2) + texts + varint(1) + struct.pack(">iB", _NOT_ASKED, 0)


def _each(body: bytes, pos: int, answer: Callable[[str], bytes]) -> bytes:
    """The answers for the names of an array at a position, as an array."""
    answers = [answer(name) for name in _names(body, pos)]
    return varint(len(answers) + 1) + b"".join(answers)


def _names(body: bytes, pos: int) -> Iterator[str]:
    """The names of an array of texts."""
    count, pos = read_varint(body, pos)
    for _ in range(count - 1):
        name, pos = _name(body, pos)
        yield name


def _name(body: bytes, pos: int) -> tuple[str, int]:
    """A text, and the position after it."""
    size, pos = read_varint(body, pos)
    return body[pos : pos + size - 1].decode(), pos + size - 1


def varint(number: int) -> bytes:
    """A number in groups of seven bits."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """The number at a position, and the position after it."""
    number = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, pos
        shift += 7


def text(content: str) -> bytes:
    """A text after its length."""
    return varint(len(content) + 1) + content.encode()
