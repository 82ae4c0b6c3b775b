"""The loops over spans of a buffer; the rules are those of ``compiler.Kernel``.

A span column is the arrays ``starts`` and ``sizes`` over its data; a null has the size -1, and where all rows
are null the arrays may have no length.
"""

from __future__ import annotations

from typing import Any

from .compiler import BYTES, inlined, kernel
from .native import copy


@inlined
def size_at(sizes: Any, row: int) -> int:
    """The size of a span, -1 where the column has none."""
    return sizes[row] if len(sizes) else -1


@kernel(f"void({BYTES}, int32[::1], int32[::1], uint8[::1], int32[::1])")
def gather_spans(buf: Any, starts: Any, sizes: Any, data: Any, offsets: Any) -> None:
    """Copy the spans of ``buf`` one after the other into ``data``; fill their ``offsets``.

    A negative size copies nothing. The caller has checked that spans lie in ``buf`` and that their
    sum fits ``data`` and int32.
    """
    pos = 0
    offsets[0] = 0
    for row in range(len(starts)):
        size = sizes[row]
        if size > 0:
            copy(data, pos, buf, starts[row], size)
            pos += size
        offsets[row + 1] = pos
