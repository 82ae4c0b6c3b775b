"""Compile all kernels into the cache now, so that no task has to: for images of containers.

    python -m spark_kafkawire.compile_kernels [--for-all-users]

It takes seconds. The machine code is kept where each process of the same user looks for it, in
``$XDG_CACHE_HOME/spark-kafkawire`` (``~/.cache/spark-kafkawire``; ``NUMBA_CACHE_DIR`` is another place); with
``--for-all-users`` beside the package, where those of every user find it, who need no home. On another
kind of processor kernels are compiled anew.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
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


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 1 where kernels stay interpreted, which is slower, with the same results."""
    parser = argparse.ArgumentParser(prog="compile_kernels", description="Compile all kernels.")
    parser.add_argument(
        "--for-all-users", action="store_true", help="keep them beside the package, where all users find them"
    )
    asked = parser.parse_args(arguments)
    os.umask(0o022)  # what others can write is trusted by nobody
    try:
        count = compiler.compile_all(for_all_users=asked.for_all_users)
    except Exception as error:
        print(f"compile_kernels: the kernels stay interpreted: {one_line(str(error))}", file=sys.stderr)
        return 1
    print(f"compile_kernels: {count} kernels are compiled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
