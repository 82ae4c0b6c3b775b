"""The codec for people without Spark: bytes of a Kafka 0.7 log to Arrow and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from spark_kafkawire.errors import LimitError, OptionError
from spark_kafkawire.protocol.primitives import Buffer

from ..limits import DEFAULT_LIMITS, VALUE_BYTES_MAX, DecodeLimits
from .decoding import decode
from .encoding import encode

_OFFSET_MAX: Final = 2**63 - 1
_LIMITS: Final = DecodeLimits(batch_bytes_max=VALUE_BYTES_MAX - DEFAULT_LIMITS.decompressed_bytes_max)


def decode_message_set(data: Buffer, base_offset: int = 0) -> pa.RecordBatch:
    """The messages of a Kafka 0.6 or 0.7 message set, such as a segment file or a FETCH response.

    Columns: ``offset`` int64, ``index`` int32, ``nextOffset`` int64, ``value`` binary. ``data``
    begins with a message at ``base_offset`` of its log. ``offset`` is the position of a message in the log.
    The messages inside a compressed one all have its offset, and ``index`` counts them. ``nextOffset`` is the
    position of the next outermost message. A message that the end of ``data`` cuts is left out, also when it
    is the first one: the batch is empty then.

    Raises ``CorruptDataError`` for damage, ``LimitError`` for a message nested too deep or one
    that decompresses to more than 256 MiB, or when all is about 1.7 GiB or more. All fatal.
    """
    if not 0 <= base_offset <= _OFFSET_MAX - len(data):
        raise OptionError(f"base_offset {base_offset} is not an offset of a log; give 0 or more")
    decoded = decode(data, base_offset, _LIMITS)
    if not decoded.cut:
        raise LimitError(
            f"the message set holds more than {_LIMITS.batch_bytes_max} bytes: decode it in parts,"
            f" the next one from offset {base_offset + decoded.size} on"
        )
    columns = decoded.columns
    return pa.RecordBatch.from_pydict(
        {
            "offset": columns.offset,
            "index": columns.index,
            "nextOffset": columns.next_offset,
            "value": columns.values,
        }
    )


def encode_message_set(
    values: Iterable[bytes | str] | pa.Array | pa.ChunkedArray, compression: str = "none"
) -> bytes:
    """Encode values as one Kafka 0.7 message set, as the JVM does; strings as UTF-8.

    ``compression`` is ``none``, ``gzip`` or ``snappy``; with one of the last two the set is a single
    compressed message. Raises ``RowError`` for a null, ``OptionError`` for a value that is neither
    bytes nor str and for an unknown compression. All fatal.
    """
    return bytes(encode(_make_array(values), compression))


def _make_array(values: Iterable[bytes | str] | pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    try:
        return pa.array(values, pa.large_binary())
    except (TypeError, ValueError) as error:
        # Arrow's message may hold a value.
        raise OptionError(
            "a value is neither bytes nor a str that UTF-8 can encode; convert it with str.encode or bytes"
        ) from error
