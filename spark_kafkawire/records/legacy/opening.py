"""Opens compressed messages of magic 0 and 1 (Kafka 0.8 to 0.10): their content with its final offsets and
times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_kafkawire.errors import CorruptDataError
from spark_kafkawire.protocol.primitives import Buffer, read_int32

from .. import log_kernels
from ..arrays import Int64s, Uint8s, joined
from ..checksum import crc32
from ..compression.codec import Format, TooLarge
from ..compression.table import decompress
from ..limits import LEGACY_MESSAGE_BYTES_MIN, MESSAGE_BYTES_MIN, DecodeLimits
from ..log_index import BatchIndex, index_table
from ..log_layout import (
    CODEC_MASK,
    LENGTH_BYTES,
    MAGIC_POS,
    TIMESTAMP_BYTES,
    TIMESTAMP_POS,
    TIMESTAMP_TYPE_BIT,
)


@dataclass(frozen=True, slots=True)
class Opened:
    """Content of the compressed message at ``row`` of the index, and the position of each message in it."""

    row: int
    content: Uint8s
    table: Int64s

    @property
    def cost(self) -> int:
        """The bytes that its messages count as."""
        return cost_of(self.table)


def open_message(index: BatchIndex, row: int, limits: DecodeLimits) -> Opened:
    """Open the compressed message at that row.

    Raises ``CorruptDataError`` for damage at any place of it, ``LimitError`` for too much. Both are fatal.
    """
    content = joined(_content(index, row, limits))
    return Opened(row, content, _inner_table(index, row, content, limits))


def _content(index: BatchIndex, row: int, limits: DecodeLimits) -> list[Buffer]:
    """Content of a compressed message, in parts."""
    message, table = index.batch(row), index.table[row]
    if crc32(message[MAGIC_POS:]) != table[log_kernels.CRC]:
        raise index.damage(row, "its CRC-32 is wrong")
    magic, number = int(table[log_kernels.MAGIC]), int(table[log_kernels.ATTRIBUTES]) & CODEC_MASK
    value = _value(index, row, message)
    try:
        return decompress(number, Format(magic), value, limits.decompressed_bytes_max)
    except CorruptDataError as error:
        raise index.damage(row, error.reason) from error
    except TooLarge as error:
        raise index.too_large(row, error.reason, limits) from error


def _value(index: BatchIndex, row: int, message: memoryview) -> memoryview:
    pos = TIMESTAMP_POS + TIMESTAMP_BYTES * int(index.table[row, log_kernels.MAGIC])
    key_size = read_int32(message, pos)
    pos += LENGTH_BYTES + max(key_size, 0)
    if key_size >= -1 and len(message) - pos >= LENGTH_BYTES:
        size = read_int32(message, pos)
        if size == len(message) - pos - LENGTH_BYTES:
            return message[pos + LENGTH_BYTES :]
    raise index.damage(row, "the sizes of a message in it do not add up")


def _inner_table(index: BatchIndex, row: int, content: Uint8s, limits: DecodeLimits) -> Int64s:
    """The index of a compressed message's content, with the offsets and timestamps that count."""
    table = _checked_table(index, row, content, limits)
    outer = index.table[row]
    offsets = table[:, log_kernels.BASE_OFFSET]
    if outer[log_kernels.MAGIC]:
        offsets += outer[log_kernels.BASE_OFFSET] - offsets[-1]
    # Offsets ascend, so only these two can be outside.
    first_offset = index.table[row - 1, log_kernels.NEXT_OFFSET] if row > 0 else 0
    if offsets[0] < first_offset or offsets[-1] != outer[log_kernels.BASE_OFFSET]:
        raise index.damage(row, "the offset of a message is not one of those it holds")
    table[:, log_kernels.ATTRIBUTES] = outer[log_kernels.ATTRIBUTES]
    if outer[log_kernels.ATTRIBUTES] & TIMESTAMP_TYPE_BIT:
        table[:, log_kernels.BASE_TIMESTAMP] = outer[log_kernels.BASE_TIMESTAMP]
    return table


def _checked_table(index: BatchIndex, row: int, content: Uint8s, limits: DecodeLimits) -> Int64s:
    """The index of a compressed message's content: whole, plain messages of the same magic, in order."""
    rows_max = limits.decompressed_bytes_max // LEGACY_MESSAGE_BYTES_MIN + 1
    code, pos, table = index_table(content, rows_max)
    if code == log_kernels.ROWS_FULL:
        raise index.too_large(
            row,
            f"it holds more than {len(table)} messages, and each counts as {LEGACY_MESSAGE_BYTES_MIN} bytes",
            limits,
        )
    if code == log_kernels.BAD_ORDER:
        raise index.damage(row, "the offset of a message is not above that of the one before it")
    if code != log_kernels.END or not len(table):
        raise index.damage(
            row, f"it does not hold whole messages: no message begins at {pos} of {len(content)} bytes"
        )
    if (table[:, log_kernels.MAGIC] != index.table[row, log_kernels.MAGIC]).any():
        raise index.damage(row, "it holds messages of another magic")
    if (table[:, log_kernels.ATTRIBUTES] & CODEC_MASK).any():
        raise index.damage(row, "it holds compressed messages")
    return table


def cost_of(table: Int64s) -> int:
    """The bytes that these messages count as."""
    return int(np.maximum(table[:, log_kernels.SIZE], MESSAGE_BYTES_MIN).sum())
