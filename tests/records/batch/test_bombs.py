"""Small batches that would become large: refused, or read piece by piece, in bounded memory."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.records.batches import batch, message, record, rising
from tests.support.codecs import BY_NAME, arrow_encode
from tests.support.failing_case import failing_case

MIB = 1 << 20
#: Both limits of decoding in the program below.
LIMIT_BYTES = 4 * MIB
#: What decoding may take beyond the file itself: a part of up to twice the limit is there decompressed,
#: as columns, and the part before it as the caller's columns; and for its index multiples of the file.
MEMORY_BYTES_MAX = 12 * LIMIT_BYTES
INDEX_RATIO_MAX = 3
#: And in seconds of its processor, of which it takes less than one.
CPU_S_MAX = 20
PROGRAM = """
import json, pathlib, re, sys, time
from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.records import compiler
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.log_index import index_batches
from spark_kafkawire.records.record_log import decode_batches

def status_bytes(name):
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.search(name + r":\\s+(\\d+) kB", status)[1])

assert compiler.load() and all(kernel.compile() for kernel in compiler._kernels)
limit_bytes = int(sys.argv[1])
limits = DecodeLimits(decompressed_bytes_max=limit_bytes, batch_bytes_max=limit_bytes)
for path in sys.argv[3:]:
    data = memoryview(open(path, "rb").read())
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before, count, error, began = status_bytes("VmRSS"), 0, "", time.process_time()
    try:
        for columns in decode_batches(index_batches(data), limits=limits):
            count += columns.count
    except KafkaWireError as refused:
        error = f"{type(refused).__name__}: {refused}"
    cpu_s = time.process_time() - began
    columns = None
    print(json.dumps([count, error, status_bytes("VmHWM") - before - int(sys.argv[2]) * len(data), cpu_s]))
"""
TOO_LARGE = "LimitError: batch at offset 7: .*maxDecompressedBytes"


def zeros(compression: str, size: int = 80 * MIB) -> bytes:
    return batch([record(0, bytes(size))], 7, compression=compression)


def below_the_limit(compression: str) -> bytes:
    return rising([batch([record(0, bytes(LIMIT_BYTES - 30))], compression=compression)], 20)


def zstd_blocks(count: int) -> bytes:
    """A frame of run-length blocks: 128 KiB of zeros in four bytes each, and no size of the content."""
    blocks = b"".join(struct.pack("<I", 128 * 1024 << 3 | 1 << 1)[:3] + b"\0" for _ in range(count - 1))
    return struct.pack("<IBB", 0xFD2FB528, 0, 0x38) + blocks + struct.pack("<I", 1)[:3]


#: What is in the file, how many rows it gives, and the error in place of others.
BOMBS: dict[str, tuple[Callable[[], bytes], int, str]] = {
    **{f"zeros in {compression}": (partial(zeros, compression), 0, TOO_LARGE) for compression in BY_NAME},
    **{
        f"many {compression} batches just below the limit": (
            partial(below_the_limit, compression),
            20,
            "",
        )
        for compression in BY_NAME
    },
    "zeros in gzip, magic 1": (
        lambda: message(7, arrow_encode("gzip", message(0, bytes(80 * MIB))), attributes=1),
        0,
        TOO_LARGE,
    ),
    "a lie about a snappy size": (
        lambda: batch([], 7, compression="snappy", last_delta=0, payload=b"\xff\xff\xff\xff\x0f" + bytes(50)),
        0,
        TOO_LARGE,
    ),
    "zstd blocks without a size": (
        lambda: batch([], 7, compression="zstd", last_delta=0, payload=zstd_blocks(30_000)),
        0,
        TOO_LARGE,
    ),
    "a lie about an lz4 block": (
        lambda: batch(
            [],
            7,
            compression="lz4",
            last_delta=0,
            payload=bytes.fromhex("04224d18604082") + b"\xff\xff\xff\x7f" + bytes(50),
        ),
        0,
        "CorruptDataError: batch at offset 7 .*lz4",
    ),
    "empty records in zstd": (
        lambda: batch([record(0, None)] * (LIMIT_BYTES // 8), 7, compression="zstd"),
        0,
        "LimitError: batch at offset 7: it holds 524288 records.*maxDecompressedBytes",
    ),
    "a count of 2**31 - 1": (
        lambda: batch([record(0, None)], 7, compression="zstd", count=2**31 - 1),
        0,
        "CorruptDataError: batch at offset 7 .*claims 2147483647 records",
    ),
    "empty messages in gzip": (
        lambda: message(7, arrow_encode("gzip", rising([message(0, None)], LIMIT_BYTES // 34)), attributes=1),
        0,
        "LimitError: batch at offset 7: it holds more than .* messages.*maxDecompressedBytes",
    ),
    "many empty messages": (lambda: rising([message(0, None)], 300_000), 300_000, ""),
    "plain and compressed messages in turn": (
        lambda: rising(
            [message(0, None), message(0, arrow_encode("gzip", message(0, None)), attributes=1)], 4_000
        ),
        8_000,
        "",
    ),
    "plain and compressed batches in turn": (
        lambda: rising(
            [
                batch([record(0, None)]),
                batch([record(0, None)], compression="lz4"),
                batch([], last_delta=0),
            ],
            4_000,
        ),
        8_000,
        "",
    ),
    "many empty batches": (lambda: rising([batch([], last_delta=0)], 100_000), 0, ""),
    "many batches of one record": (lambda: rising([batch([record(0, None)])], 100_000), 100_000, ""),
    "a batch of headers": (
        lambda: batch([record(0, None, headers=((b"", None),) * (LIMIT_BYTES // 4))], 7, compression="zstd"),
        0,
        "LimitError: batch at offset 7.*maxDecompressedBytes",
    ),
}


def results(folder: Path) -> dict[str, tuple[int, str, int, float]]:
    """For each bomb: the rows, the error, and memory and time of decoding in a process of its own."""
    paths = [folder / str(i) for i in range(len(BOMBS))]
    for path, (build, _, _) in zip(paths, BOMBS.values(), strict=True):
        path.write_bytes(build())
    command = [sys.executable, "-c", PROGRAM, str(LIMIT_BYTES), str(INDEX_RATIO_MAX), *map(str, paths)]
    repository = Path(__file__).parents[3]
    lines = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    return dict(zip(BOMBS, map(json.loads, lines.stdout.splitlines()), strict=True))


@pytest.mark.nightly
def test_bombs_are_refused_or_read_in_bounded_memory(tmp_path: Path) -> None:
    for name, (count, error, memory_bytes, cpu_s) in results(tmp_path).items():
        _, expected_count, expected_error = BOMBS[name]
        with failing_case(name):
            assert count == expected_count
            assert re.fullmatch(f"({expected_error}).*", error)
            assert memory_bytes < MEMORY_BYTES_MAX
            assert cpu_s < CPU_S_MAX
