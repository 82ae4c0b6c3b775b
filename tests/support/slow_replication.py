"""A broker whose log of transactions is slow to replicate, as that of a cluster of several brokers is.

An InitProducerId with a shorter transaction timeout is answered COORDINATOR_NOT_AVAILABLE: Apache Kafka
takes that timeout as the time limit of the append. Unlike there, the id is taken over all the same.
Source: KAFKA-16047; answers of three brokers 3.9.1 and 4.1.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from tests.chaos.frames import KafkaView, Spoken, View
from tests.chaos.proxy import HOST, Proxy, Upstream

#: What stands before a request's and a response's body, bytes.
_LENGTH_BYTES: Final = 4
#: How the transactional id of a driver ends.
_DRIVER: Final = "-driver"


class SlowReplication(Proxy):
    """A proxy of one broker, for which the ids of attempts take ``replication_ms`` to replicate; those of
    drivers take no time. ``refused`` counts the requests of each id that were refused."""

    def __init__(self, port: int, replication_ms: float) -> None:
        super().__init__((Upstream("broker", port, "kafka"),))
        self.replication_ms = replication_ms
        self.refused: Counter[str] = Counter()

    @property
    def bootstrap_servers(self) -> str:
        """Address that clients connect to in place of the broker."""
        return f"{HOST}:{self.port('broker')}"

    def view(self, upstream: Upstream, client_port: int) -> View:
        """Its view."""
        del client_port
        return _SlowView({upstream.port: self.port(upstream.name)}, self.spoken, self)


class _SlowView(KafkaView):
    def __init__(self, ports: Mapping[int, int], spoken: Spoken, proxy: SlowReplication) -> None:
        super().__init__(ports, spoken)
        self._proxy = proxy
        self._begun: dict[int, tuple[int, Any]] = {}

    def request(self, frame: bytes) -> None:
        """As any; notes what begins an id."""
        super().request(frame)
        body = memoryview(frame)[_LENGTH_BYTES:]
        api, header, _ = modern.DIALECT.read_request_header(body)
        if api is modern.INIT_PRODUCER_ID:
            self._begun[header.correlation_id] = header.api_version, modern.DIALECT.read_request(body)[1]

    def response(self, frame: bytes) -> bytes:
        """As any, or that the log was not replicated in time."""
        correlation_id = int.from_bytes(frame[_LENGTH_BYTES : 2 * _LENGTH_BYTES], "big")
        version, request = self._begun.pop(correlation_id, (0, None))
        if request is None or not request.transactional_id or request.transactional_id.endswith(_DRIVER):
            return super().response(frame)
        if request.transaction_timeout_ms >= self._proxy.replication_ms:
            return super().response(frame)
        self._proxy.refused[request.transactional_id] += 1
        body = memoryview(frame)[_LENGTH_BYTES:]
        honest = modern.DIALECT.read_response(modern.INIT_PRODUCER_ID, body, version, correlation_id)
        refusal = replace(honest, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        parts = modern.DIALECT.write_response(modern.INIT_PRODUCER_ID, refusal, version, correlation_id)
        return b"".join(parts)
