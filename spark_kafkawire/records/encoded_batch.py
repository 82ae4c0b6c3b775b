"""Result of the encoders of all magics: the records of one partition in one request."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from ..errors import RowError
from ..protocol.primitives import Buffer
from .compression import Codec
from .log_index import BATCH_ATTRIBUTES_POS, BATCH_CRC_POS, PRODUCER_ID_POS

#: Producer id, epoch and sequence of a batch from no idempotent producer.
NO_PRODUCER: Final = (-1, -1, -1)
#: In the low byte of a batch's attributes: it is of a transaction. Source: KIP-98.
_TRANSACTIONAL: Final = 0x10
_CRC: Final = struct.Struct(">I")
_PRODUCER: Final = struct.Struct(">qhi")


@dataclass(frozen=True, slots=True)
class Packing:
    """Settings of encoding: magic, compression, and the size limits of a batch and of a request."""

    magic: int
    codec: Codec | None
    level: int | None
    batch_bytes_max: int
    request_bytes_max: int


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A batch of magic 2, or a message set, of ``count`` records. ``data`` owns its memory.

    A batch of magic 2 is whole once ``with_producer`` gave its bytes.
    """

    data: memoryview
    count: int
    magic: int = 2

    def with_producer(
        self,
        producer_id: int = -1,
        epoch: int = -1,
        base_sequence: int = -1,
        *,
        is_transactional: bool = False,
    ) -> Buffer:
        """The bytes to send. The producer, if any, and the checksum are written in place.

        Messages of magic 0 and 1 carry no producer.
        """
        if self.magic == 2:
            if is_transactional:
                self.data[BATCH_ATTRIBUTES_POS + 1] |= _TRANSACTIONAL
            _PRODUCER.pack_into(self.data, PRODUCER_ID_POS, producer_id, epoch, base_sequence)
            _CRC.pack_into(self.data, BATCH_CRC_POS, crc32c(self.data[BATCH_ATTRIBUTES_POS:]))
        return self.data


def record_too_large(row: int, size: int, request_bytes_max: int) -> RowError:
    """The error for a record that no request can carry."""
    return RowError(
        f"row {row}: a batch of this record alone has {size} bytes, more than"
        f" max.request.size {request_bytes_max}; shorten it, or raise that"
    )
