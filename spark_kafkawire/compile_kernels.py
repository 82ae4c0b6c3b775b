"""Compile all kernels into the cache now, so that no task has to: for images of containers.

    python -m spark_kafkawire.compile_kernels [--for-all-users]

It takes seconds. The machine code is kept in ``$XDG_CACHE_HOME/spark-kafkawire``
(``~/.cache/spark-kafkawire``, or ``NUMBA_CACHE_DIR``), where each process of the same user looks for it. With
``--for-all-users`` it is kept beside the package, where the processes of all users find it, also without a
home directory. On another type of processor kernels are compiled again.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from .errors import one_line
from .records import checksum, compiler, key_hashes, legacy, log_index, rows, spans
from .records.batch import decoding, encoding, headers
from .records.message_set import kernels as message_set_kernels
from .values.avro import encoding_kernels as avro_encoding_kernels
from .values.avro import kernels as avro_kernels
from .values.json import kernels as json_kernels
from .values.protobuf import encoding_kernels as protobuf_encoding_kernels
from .values.protobuf import kernels as protobuf_kernels

#: Every module that declares kernels.
MODULES: Final = (
    avro_encoding_kernels,
    avro_kernels,
    checksum,
    decoding,
    encoding,
    headers,
    json_kernels,
    key_hashes,
    legacy,
    log_index,
    message_set_kernels,
    protobuf_encoding_kernels,
    protobuf_kernels,
    rows,
    spans,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile all kernels; the exit code is 1 if kernels stay interpreted: slower, with the same results."""
    parser = argparse.ArgumentParser(prog="compile_kernels", description="Compile all kernels.")
    parser.add_argument(
        "--for-all-users", action="store_true", help="keep them beside the package, where all users find them"
    )
    asked = parser.parse_args(arguments)
    os.umask(0o022)  # files that others can write are not trusted
    try:
        count = compiler.compile_all(for_all_users=asked.for_all_users)
    except Exception as error:
        print(f"compile_kernels: the kernels stay interpreted: {one_line(str(error))}", file=sys.stderr)
        return 1
    print(f"compile_kernels: {count} kernels are compiled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
