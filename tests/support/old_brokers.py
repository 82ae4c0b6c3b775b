"""Brokers of 0.8 and 0.9, with their reactions to requests and versions that they do not know.

Measured with Apache Kafka 0.8.2.2 and 0.9.0.1 (``tests/interop/test_old_brokers.py`` measures again):

======================  ====================================  =======================================
a request               0.8                                   0.9
======================  ====================================  =======================================
of an unknown API       the connection ends                   is passed over; the connection goes on
in an unknown version   is read and answered as version 0     Fetch and Produce: as version 1
======================  ====================================  =======================================
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Final

from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.primitives import Buffer

from .log_broker import LogBroker
from .log_server import LogServer, send_all
from .memory_log import Log

#: The last API of each release: Heartbeat and ListGroups.
LAST_KEYS: Final = {"0.8": 12, "0.9": 16}
#: Those that read the version of a request have these as their last ones.
_LAST_VERSIONS: Final[dict[str, dict[int, int]]] = {
    "0.8": {},
    "0.9": {modern.FETCH.key: 1, modern.PRODUCE.key: 1},
}
_API_AND_VERSION: Final = struct.Struct(">hh")


class Closes(Exception):
    """The broker ends the connection."""


def answered(release: str, broker: LogBroker, frame: memoryview) -> list[Buffer]:
    """Bytes that such a broker sends for a request, none if it ignores it. Raises ``Closes``."""
    key, version = _API_AND_VERSION.unpack_from(frame)
    if key > LAST_KEYS[release]:
        if release == "0.8":
            raise Closes
        return []
    # The requests that are asked here are laid out alike in all versions that these brokers read.
    plain = memoryview(bytearray(frame))
    _API_AND_VERSION.pack_into(plain, 0, key, 0)
    api, header, pos = modern.DIALECT.read_request_header(plain)
    request = api.request_codec(0).read(plain, pos)[0]
    result = broker.answer(api, min(version, _LAST_VERSIONS[release].get(key, 0)), request)
    if result is None:
        if api.awaits_response(request):
            raise Closes
        return []
    return modern.DIALECT.write_response(api, *result, header.correlation_id)


class OldLogServer(LogServer):
    """A ``LogServer`` of such a release. ``asked`` has the keys and versions of all requests."""

    def __init__(self, release: str, logs: Mapping[str, Sequence[Log]]) -> None:
        super().__init__(logs)
        self.release = release
        self.asked: list[tuple[int, int]] = []

    def _answer(self, connection: socket.socket, frame: memoryview) -> bool:
        self.asked.append(_API_AND_VERSION.unpack_from(frame))
        try:
            send_all(connection, answered(self.release, self.broker, frame))
        except Closes:
            return False
        return True
