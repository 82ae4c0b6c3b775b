"""Detection of servers of another kind than an option expects, so that an error names the kind of server.

A server is probed only after the first contact with a cluster has failed. Each kind is recognized by its
response to a request that it answers to every client.
"""

from __future__ import annotations

import enum
import re
from contextlib import closing
from typing import Final

from ..errors import KafkaWireError
from ..model import Broker
from .transport import Deadline, Transport

#: Time for a server to accept a connection and to answer one request, seconds.
_ANSWER_S: Final = 0.5
#: Longest part of a response that is read, bytes.
_ANSWER_BYTES_MAX: Final = 64


class Kind(enum.Enum):
    """Kinds of servers that a response identifies. The value is a name for errors."""

    ZOOKEEPER = "a ZooKeeper"
    BROKER = "a broker of Kafka 0.10 or later"
    HTTP = "an HTTP server"


#: A request to each kind, and the beginning of its response. ZooKeeper answers some commands of four letters,
#: or says that its ``4lw.commands.whitelist`` lacks them. Brokers answer ApiVersions 0 before any login, with
#: the correlation id of the request.
_QUESTIONS: Final = {
    Kind.ZOOKEEPER: (b"srvr", rb"Zookeeper version: |srvr is not executed |This ZooKeeper instance "),
    Kind.BROKER: (b"\0\0\0\x0a\0\x12\0\0Wire\xff\xff", rb"\0[\s\S]{3}Wire\0\0"),
    Kind.HTTP: (b"GET / HTTP/1.0\r\n\r\n", rb"HTTP/[0-9]"),
}


def kind_at(server: Broker, *kinds: Kind) -> Kind | None:
    """The first of the kinds that the server matches; None if it matches none or cannot be reached."""
    return next((kind for kind in kinds if re.match(_QUESTIONS[kind][1], _answer(server, kind))), None)


def _answer(server: Broker, kind: Kind) -> bytes:
    """The beginning of the response to the request of a kind; empty if none comes."""
    deadline = Deadline.after(_ANSWER_S)
    answer, came = bytearray(_ANSWER_BYTES_MAX), 0
    try:
        with closing(Transport.connect(server, deadline)) as transport:
            transport.send([_QUESTIONS[kind][0]], deadline)
            while size := transport.receive_into(memoryview(answer)[came:], deadline):
                came += size
    except KafkaWireError:
        pass  # the bytes that came may be enough
    return bytes(answer[:came])
