"""The values that all measures use: pieces of real messages, half to one and a half times a mean size."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa

from spark_kafkawire import decode_message_set
from tests.support.golden import CORPUS

#: Mean value sizes, bytes.
VALUE_SIZES: Final = (10, 100, 1024)


def values(size: int, count: int) -> pa.BinaryArray:
    """``count`` values of ``size`` bytes in the mean; the same at every call."""
    sizes = np.random.default_rng(size).integers(size - size // 2, size + size // 2, count, endpoint=True)
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = text() * -(-int(offsets[-1]) // len(text()))
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


@cache
def text() -> bytes:
    """5 MB of JSON, the messages of the recorded corpus: gzip makes a sixth of it, snappy a quarter."""
    batches = [
        decode_message_set(path.read_bytes()) for path in sorted(CORPUS.glob("*/debian-plain-*/*.kafka"))
    ]
    return b"\n".join(value for batch in batches for value in batch["value"].to_pylist())
