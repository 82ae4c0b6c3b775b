"""Compile all kernels into the cache now, so that no task has to: for images of containers.

    python -m spark_kafkawire.compile_kernels

It takes seconds. The machine code is kept where each process of the same user looks for it, in
``$XDG_CACHE_HOME/spark-kafkawire`` (``~/.cache/spark-kafkawire``; ``NUMBA_CACHE_DIR`` is another place). On
another kind of processor kernels are compiled anew.
"""

from __future__ import annotations

import sys
from typing import Final

from .errors import one_line
from .records import checksum_kernels, compiler, log_kernels, murmur2, span_kernels
from .records.batch import header_kernels, read_kernels, write_kernels
from .records.legacy import kernels as legacy_kernels
from .records.message_set import kernels as message_set_kernels

#: Every module that declares kernels.
MODULES: Final = (
    checksum_kernels,
    header_kernels,
    legacy_kernels,
    log_kernels,
    message_set_kernels,
    murmur2,
    read_kernels,
    span_kernels,
    write_kernels,
)


def main() -> int:
    """The exit code: 1 where kernels stay interpreted, which is slower, with the same results."""
    try:
        count = compiler.compile_all()
    except Exception as error:
        print(f"compile_kernels: the kernels stay interpreted: {one_line(str(error))}", file=sys.stderr)
        return 1
    print(f"compile_kernels: {count} kernels are compiled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
