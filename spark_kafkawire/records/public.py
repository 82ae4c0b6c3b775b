"""The codec for people without Spark: bytes of logs of Kafka 0.6 to 4.x to Arrow and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from ..errors import LimitError, OptionError
from ..model import TopicPartition
from ..protocol.primitives import Buffer
from .arrow import BatchBuilder
from .columns import HEADERS
from .limits import DEFAULT_LIMITS, VALUE_BYTES_MAX, DecodeLimits
from .log_index import index_batches
from .message_set.decoding import decode
from .message_set.encoding import encode
from .record_log import OFFSET_MAX, decode_batches, encode_batches
from .rows import Records

_LIMITS: Final = DecodeLimits(batch_bytes_max=VALUE_BYTES_MAX - DEFAULT_LIMITS.decompressed_bytes_max)
_SCHEMA: Final = pa.schema(
    {
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": HEADERS,
    }
)
#: Brokers take batches of up to a megabyte and a little more: ``max.message.bytes``.
_BATCH_BYTES_MAX: Final = 1_000_000
_NO_TIMESTAMP_MS: Final = -1
_OFFSET_BYTES: Final = 8


def decode_record_batches(data: Buffer, start_offset: int = 0, stop_offset: int = OFFSET_MAX) -> pa.Table:
    """The records of a modern log's bytes, such as a segment file or the records of a Fetch response.

    Columns: ``offset`` int64, ``timestamp`` timestamp[us, UTC], ``timestampType`` int32, ``key`` and
    ``value`` binary, ``headers`` ``list<struct<key: string, value: binary>>``. Batches of magic 2 and
    messages of magic 0 and 1 may alternate. Only offsets in ``[start_offset, stop_offset)`` are returned.
    A batch that the end of ``data`` cuts and control batches are left out; aborted records are not.

    Raises ``CorruptDataError`` for damage, ``LimitError`` for a batch that decompresses to more than
    256 MiB. All fatal.
    """
    builder = BatchBuilder(TopicPartition("", 0), _SCHEMA)
    columns = decode_batches(index_batches(data), start_offset, stop_offset, wanted=_SCHEMA.names)
    return pa.Table.from_batches(map(builder.build, columns), _SCHEMA)


def encode_record_batches(
    values: pa.Array,
    keys: pa.Array | None = None,
    headers: pa.Array | None = None,
    timestamps_ms: pa.Array | None = None,
    *,
    compression: str = "none",
    base_offset: int = 0,
) -> bytes:
    """Batches of magic 2 as in a log from ``base_offset`` on, about a megabyte each.

    ``values`` and ``keys`` are string or binary arrays, ``headers`` a list array as
    ``decode_record_batches`` gives it, ``timestamps_ms`` is int64, none where it is null or not
    given. ``compression`` is ``none``, ``gzip``, ``snappy``, ``lz4`` or ``zstd``. Raises ``RowError`` for a
    row that Kafka cannot hold, ``OptionError`` for a wrong type or compression. All fatal.
    """
    _check_offset(base_offset, len(values))
    return b"".join(_batches(Records(values, keys, headers, timestamps_ms), compression, base_offset))


def _batches(records: Records, compression: str, offset: int) -> Iterator[Buffer]:
    for batch in encode_batches(
        records,
        compression=compression,
        batch_bytes_max=_BATCH_BYTES_MAX,
        request_bytes_max=2**31 - 1,
        now_ms=_NO_TIMESTAMP_MS,
    ):
        # Checksums do not cover the offset: the broker writes it.
        batch.data[:_OFFSET_BYTES] = offset.to_bytes(_OFFSET_BYTES, "big")
        yield batch.with_producer()
        offset += batch.count


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
    _check_offset(base_offset, len(data))
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


def _check_offset(base_offset: int, size: int) -> None:
    if not 0 <= base_offset <= OFFSET_MAX - size:
        raise OptionError(f"base_offset {base_offset} is not an offset of a log; give 0 or more")
