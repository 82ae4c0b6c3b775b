"""An embedded broker of Kafka 0.7, and before it a proxy that tells one lie about its responses."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from spark_kafkawire.broker.config import BrokerConfig
from spark_kafkawire.broker.server import BrokerServer
from spark_kafkawire.protocol import proposal, v07
from spark_kafkawire.protocol.primitives import INT16
from tests.support.log_server import HOST, LogServer, Sent, read_frame, tell
from tests.support.message_sets import gzipped, message

from .lying_broker import Honest, Liar

TOPIC: Final = "t"
PARTITION_COUNT: Final = 2
#: The segments of each partition's log: plain messages, and compressed ones.
_LOGS: Final = (
    (
        b"".join(message(b"plain %d" % number) for number in range(3)),
        b"".join(message(b"plain %d" % number) for number in range(3, 6)) + gzipped(b"a", b"b", b"c"),
    ),
    (b"".join(message(b"other %d" % number) for number in range(4)),),
)
#: What a request is of, by its id.
_DIALECTS: Final = {api.key: dialect for dialect in (v07.DIALECT, proposal.DIALECT) for api in dialect.apis}


class LyingProxy(LogServer):
    """Between a 0.7 broker, ``behind``, and its clients."""

    def __init__(self, behind: BrokerServer, liar: Liar) -> None:
        super().__init__({})
        self._behind = behind
        self._liar = liar
        self._upstreams: dict[socket.socket, socket.socket] = {}

    @property
    def discovery(self) -> dict[str, str]:
        """Options by which clients find the proxy."""
        return {"broker.list": f"0:{HOST}:{self.port}"}

    @property
    def honest_discovery(self) -> dict[str, str]:
        """Options by which clients find the broker itself."""
        return {"broker.list": f"0:{HOST}:{self._behind.port}"}

    def _serve(self, connection: socket.socket) -> None:
        with socket.create_connection((HOST, self._behind.port), 60.0) as upstream:
            self._upstreams[connection] = upstream
            super()._serve(connection)

    def _answer(self, connection: socket.socket, frame: memoryview) -> bool:
        upstream = self._upstreams[connection]
        dialect = _DIALECTS[INT16.read(frame, 0)[0]]
        api, header, pos = dialect.read_request_header(frame)
        request, _ = api.request_codec(header.api_version).read(frame, pos)
        upstream.sendall(len(frame).to_bytes(4, "big") + frame)
        if not api.awaits_response(request):
            return True
        body = read_frame(upstream)
        if body is None:
            return False
        correlation_id = header.correlation_id
        response = dialect.read_response(api, body, header.api_version, correlation_id)
        sent = self._liar(Honest(api, header.api_version, response, correlation_id, request))
        return tell(connection, sent or Sent(len(body).to_bytes(4, "big") + body))


@contextmanager
def lying_proxy(liar: Liar) -> Iterator[LyingProxy]:
    """A broker with two logs, and the proxy before it."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafkawire-lies-")))
        for partition, segments in enumerate(_LOGS):
            start_offset = 0
            (folder / f"{TOPIC}-{partition}").mkdir()
            for segment in segments:
                (folder / f"{TOPIC}-{partition}" / f"{start_offset:020}.kafka").write_bytes(segment)
                start_offset += len(segment)
        properties = {
            "brokerid": "0",
            "port": "0",
            "log.dir": str(folder),
            "num.partitions": f"{PARTITION_COUNT}",
            "log.flush.interval": "1",
            "wire.format": "0.7,proposal",
        }
        broker = stack.enter_context(BrokerServer(BrokerConfig.from_properties(properties)))
        yield stack.enter_context(LyingProxy(broker, liar))
