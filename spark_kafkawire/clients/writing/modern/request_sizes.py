"""Sizes of the Produce requests of a write task to modern Kafka (0.8 to 4.x).

The options bound them. Requests become smaller if brokers close connections because of their size.

Azure Event Hubs closes the connection, without a response, on a request above 1,046,528 bytes. A broker that
restarts closes connections, too. The size is the reason if a broker accepts new connections, and closes each
of them on a request that is larger than all requests with a response.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spark_kafkawire.errors import LOG, ConnectionLost, KafkaWireError, counted
from spark_kafkawire.model import Broker
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.protocol.modern.limits import ACKS_NONE

from .batches import ProducerBatch

#: Bytes of a request besides its batches and names, at most: its own length, the header, acks, timeout, the
#: lengths of names, the count of topics. Source: ProduceRequest.json, RequestHeader.json.
_REQUEST_OVERHEAD: Final = 64
#: Closes in a row before requests are made smaller.
_CLOSES_MIN: Final = 3
#: Smaller requests are not suspected, bytes: all services that are known take 256 KiB.
_SUSPECT_BYTES_MIN: Final = 64 << 10


class RequestSizes:
    """Sizes of requests. ``size_max`` bounds a request with all its parts, in bytes; a single batch may be
    larger."""

    def __init__(self, options: WriteOptions) -> None:
        self.size_max = options.delivery.request_bytes_max
        self._option_size = self.size_max
        self._batch_bytes = options.batch_bytes
        self._has_answers = options.delivery.acks != ACKS_NONE
        self._client_id_size = len((options.net.connection.client_id or "").encode())
        #: Largest request with a response, and largest request that a connection was closed on since, bytes.
        self._answered = 0
        self._suspect = 0
        self._closes = 0

    def of(self, batches: Sequence[ProducerBatch]) -> int:
        """Bytes of a request with these batches, at most."""
        return self.of_none(batches[0]) + sum(batch.request_size for batch in batches)

    def of_none(self, first: ProducerBatch) -> int:
        """Bytes of a request without its batches, at most; ``first`` names the transaction."""
        transactional_id = first.producer.transactional_id or ""
        return _REQUEST_OVERHEAD + self._client_id_size + len(transactional_id.encode())

    @property
    def _is_lowered(self) -> bool:
        """True while requests are smaller than the options say."""
        return self.size_max < self._option_size

    @property
    def batch_bytes_max(self) -> int:
        """Bytes of a new batch, at most."""
        return min(self._batch_bytes, self.size_max)

    def cut(self, batch: ProducerBatch) -> Sequence[ProducerBatch]:
        """Split a batch into parts that are not larger than requests may be now, if that is needed.

        Parts keep the sequences of the batch. A broker that has the whole batch in its log refuses the first
        part, and acknowledges the whole, which is sent again then, as a duplicate.
        """
        is_small = batch.size <= self.size_max or batch.count == 1
        if is_small or batch.stays_whole or not self._is_lowered:
            return [batch]
        return [part for half in batch.halves() for part in self.cut(half)]

    def answered(self, batches: Sequence[ProducerBatch]) -> None:
        """Record a response: a request of this size, or a smaller one, is no reason to close a connection."""
        self._answered = max(self._answered, self.of(batches))
        if self._answered >= self._suspect:
            self._suspect = self._closes = 0

    def closed(
        self, broker: Broker, requests: Sequence[Sequence[ProducerBatch]], error: KafkaWireError
    ) -> KafkaWireError:
        """Record that a connection was closed on these requests, and return the error, with the size if the
        size may be the reason.

        After several closes in a row, ``size_max`` becomes half of the size.
        """
        size = max(map(self.of, requests), default=0)
        is_suspect = self._has_answers and size > max(self._answered, _SUSPECT_BYTES_MIN)
        if not is_suspect or not isinstance(error, ConnectionLost):
            return error
        self._suspect = max(self._suspect, size)
        self._closes += 1
        if self._closes >= _CLOSES_MIN:
            self._lower(broker, size)
        largest = f"none above {self._answered} bytes" if self._answered else "none"
        return ConnectionLost(
            f"{broker} closed the connection on a Produce request of {size} bytes, and {largest} was "
            f"answered; where it closes on all so large, set kafka.max.request.size ({self._option_size}) "
            "and batchBytes below what it takes (Azure Event Hubs: 1046528)"
        )

    def _lower(self, broker: Broker, size: int) -> None:
        if not self._is_lowered:
            LOG.warning(
                "%s closed the connection %s on Produce requests of up to %d bytes, and has answered "
                "none so large: sending half of that at most, and less where it closes again; set "
                "kafka.max.request.size (%d) and batchBytes below what it takes",
                *(broker, counted(self._closes, "time"), size, self._option_size),
            )
        self.size_max = min(self.size_max, max(size // 2, _SUSPECT_BYTES_MIN))
