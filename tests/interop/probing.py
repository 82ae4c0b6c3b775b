"""Answers of brokers to the two requests that prove the age of old ones, byte by byte."""

from __future__ import annotations

import socket
from typing import Final

from tests.support.foreign import CLIENT_TIMEOUT_S
from tests.support.noida import HOST

#: Fetch of no topics, in two versions; ApiVersions 4 (correlation id 0) and DescribeGroups 0 of none (1).
#: The client's name is "x": a broker 0.9 fails with a client that has none, in layouts of its own.
_FETCHES: Final = [
    bytes.fromhex(f"0000001b 0001 {version:04x} 00000000 0001 78 ffffffff 00000000 00000000 00000000")
    for version in (1, 32767)
]
_VERSIONS: Final = bytes.fromhex("00000011 0012 0004 00000000 0001 78 00 02 61 02 62 00")
_GROUPS: Final = bytes.fromhex("0000000f 000f 0000 00000001 0001 78 00000000")


def probe(port: int) -> tuple[list[int | None], list[int] | None]:
    """Lengths of the answers to Fetch 1 and Fetch 32767, and the ids of the other two requests that are
    answered, in order; None if the broker closes instead."""
    sizes: list[int | None] = []
    for fetch in _FETCHES:
        with connected(port) as fetching:
            fetching.sendall(fetch)
            answer = _frame(fetching)
            sizes.append(None if answer is None else len(answer))
    with connected(port) as asking:
        asking.sendall(_VERSIONS + _GROUPS)
        ids = []
        while (response := _frame(asking)) is not None:
            ids.append(int.from_bytes(response[:4], "big"))
            if ids[-1] == 1:
                break
    return sizes, ids or None


def connected(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), CLIENT_TIMEOUT_S)


def _frame(connection: socket.socket) -> bytes | None:
    try:
        size = _exactly(connection, 4)
        return None if size is None else _exactly(connection, int.from_bytes(size, "big"))
    except ConnectionError:
        return None


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        came = connection.recv(size - len(data))
        if not came:
            return None
        data += came
    return data
