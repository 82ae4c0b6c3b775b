"""Bytes that pass a proxy, as it sees them: frames, versions of requests, addresses.

Brokers tell clients where they listen. In their responses, and in ZooKeeper's, the proxy's port takes the
place of the broker's: both numbers take as many bytes, so that no other byte of a response changes.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from typing import Final

from spark_kafkawire.protocol.modern import DIALECT, FETCH, FIND_COORDINATOR, METADATA

_HOST: Final = b"127.0.0.1"
#: A longer frame is none of Kafka's.
_FRAME_BYTES_MAX: Final = 128 << 20
_LENGTH: Final = struct.Struct(">i")
#: API key, version and correlation id of a request; a response begins with the last of them.
_REQUEST: Final = struct.Struct(">hhi")
#: Their responses name brokers.
_NAMING: Final = frozenset((METADATA.key, FIND_COORDINATOR.key))
#: Up to this version all that a Fetch asks for stands in it. Source: KIP-227.
_FETCH_WITHOUT_SESSION: Final = 6

#: API key and version, and how many requests had them.
Spoken = Counter[tuple[int, int]]


class Framer:
    """Cuts a stream into frames, each with its length; ``rest`` is what is not a whole one yet."""

    def __init__(self) -> None:
        self.rest = b""

    def frames(self, data: bytes) -> list[bytes]:
        """The frames that are whole now. A length that cannot be makes a frame of all there is."""
        self.rest += data
        whole, pos = [], 0
        while len(self.rest) - pos >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self.rest, pos)
            end = pos + _LENGTH.size + size if 0 <= size <= _FRAME_BYTES_MAX else len(self.rest)
            if end > len(self.rest):
                break
            whole.append(self.rest[pos:end])
            pos = end
        self.rest = self.rest[pos:]
        return whole


class View:
    """Handler of the whole frames of one connection of the proxy: of Kafka 0.7, in which nothing names
    an address, or a version."""

    def request(self, frame: bytes) -> None:
        """Take note of a request."""

    def response(self, frame: bytes) -> bytes:
        """Return the bytes that the client gets instead of a response, of the same length."""
        return frame


class ZooKeeperView(View):
    """ZooKeeper's responses hold brokers' registrations: ``creator:host:port``."""

    def __init__(self, ports: Mapping[int, int]) -> None:
        self._addresses = {
            b":%s:%d" % (_HOST, port): b":%s:%d" % (_HOST, ours) for port, ours in ports.items()
        }
        assert all(len(old) == len(new) for old, new in self._addresses.items()), ports

    def response(self, frame: bytes) -> bytes:
        """With the proxies' ports."""
        return _replaced(frame, self._addresses)


class KafkaView(View):
    """A connection of Kafka 0.8 or later: which versions are spoken on it goes to ``spoken``."""

    def __init__(self, ports: Mapping[int, int], spoken: Spoken) -> None:
        self._addresses = {
            _HOST + _LENGTH.pack(port): _HOST + _LENGTH.pack(ours) for port, ours in ports.items()
        }
        self._spoken = spoken
        self._asked: dict[int, int] = {}

    def request(self, frame: bytes) -> None:
        """Note its version, and which response will answer it."""
        if len(frame) < _LENGTH.size + _REQUEST.size:
            return
        key, version, correlation_id = _REQUEST.unpack_from(frame, _LENGTH.size)
        self._asked[correlation_id] = key
        if not (key == FETCH.key and version <= _FETCH_WITHOUT_SESSION and _asks_for_nothing(frame)):
            self._spoken[key, version] += 1

    def response(self, frame: bytes) -> bytes:
        """With the proxy's port where it names brokers."""
        (correlation_id,) = _LENGTH.unpack_from(frame.ljust(8, b"\0"), _LENGTH.size)
        named = self._asked.pop(correlation_id, None) in _NAMING
        return _replaced(frame, self._addresses) if named else frame


def _asks_for_nothing(frame: bytes) -> bool:
    """True if a Fetch names no topic: it asks whether an old broker is there, and reads nothing."""
    _, request = DIALECT.read_request(memoryview(frame)[_LENGTH.size :])
    return not request.topics


def _replaced(frame: bytes, addresses: Mapping[bytes, bytes]) -> bytes:
    for old, new in addresses.items():
        frame = frame.replace(old, new)
    return frame
