"""The codec for people without Spark: bytes of a Kafka 0.8 to 4.x log to Arrow and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from ..errors import OptionError
from ..model import TopicPartition
from ..protocol.primitives import Buffer
from .arrow import BatchBuilder
from .columns import HEADERS
from .log_index import index_batches
from .record_log import OFFSET_MAX, decode_batches, encode_batches
from .rows import Records

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
    if not 0 <= base_offset <= OFFSET_MAX - len(values):
        raise OptionError(f"base_offset {base_offset} is not an offset of a log; give 0 or more")
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
