"""The whole batches of a chunk of a segment file, up to damage. Pure.

A file may end in a part of a batch, or in zeros where a machine lost its power. So what is before them
counts, and the reader decides if the rest is damage.
"""

from __future__ import annotations

import sys
from typing import Final

from ..errors import CorruptDataError
from ..protocol.primitives import Buffer
from ..records.arrays import byte_array
from ..records.limits import VALUE_BYTES_MAX
from ..records.log_index import BatchIndex, index_batches, index_table
from ..records.log_kernels import CUT, END

_SOUND: Final = frozenset((CUT, END))


def whole_batches(chunk: Buffer) -> tuple[BatchIndex, CorruptDataError | None]:
    """The whole batches at the start of a chunk, and the damage after them; None where the chunk ends there,
    or cuts a batch."""
    array = byte_array(chunk)[:VALUE_BYTES_MAX]
    code, pos, table = index_table(array, sys.maxsize)
    found = BatchIndex(array, table, pos)
    if code in _SOUND:
        return found, None
    # The offset of a batch that alone would be one repeats what is before it.
    offset = int.from_bytes(array[pos : pos + 8].tobytes(), "big", signed=True)
    reason = "it has offsets that the batch before it has, or has passed"
    try:
        index_batches(array[pos:].data)
    except CorruptDataError as error:
        reason = error.reason
    return found, CorruptDataError(
        f"batch at offset {offset} is damaged: {reason}; the records before it are whole, read up to that "
        "offset",
        offset,
        reason=reason,
        pos=pos,
    )
