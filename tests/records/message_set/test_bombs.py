"""Small messages that would become large: refused, or read piece by piece, in bounded memory."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.records.message_set.trees import message
from tests.support.codecs import xerial
from tests.support.failing_case import failing_case

MIB = 1 << 20
#: Both limits of decoding in the program below.
LIMIT_BYTES = 4 * MIB
#: What decoding may take beyond the file itself: a small multiple of the limits.
MEMORY_BYTES_MAX = 6 * LIMIT_BYTES
PROGRAM = """
import json, pathlib, re, sys
from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.records import compiler
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.message_set.decoding import decode

def status_bytes(name):
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.search(name + r":\\s+(\\d+) kB", status)[1])

assert compiler.load() and all(kernel.compile() for kernel in compiler._kernels)
limit_bytes = int(sys.argv[1])
limits = DecodeLimits(decompressed_bytes_max=limit_bytes, batch_bytes_max=limit_bytes)
for path in sys.argv[2:]:
    data = memoryview(open(path, "rb").read())
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before, pos, cut, count, error = status_bytes("VmRSS"), 0, False, 0, ""
    try:
        while not cut:
            decoded = decode(data[pos:], pos, limits)
            pos, cut, count = pos + decoded.size, decoded.cut, count + decoded.columns.count
    except KafkaWireError as refused:
        error = f"{type(refused).__name__}: {refused}"
    print(json.dumps([count, error, status_bytes("VmHWM") - before]))
"""


def gzipped(data: bytes) -> bytes:
    return message(gzip.compress(data, 1, mtime=0), attributes=1)


def nested(depth: int, data: bytes) -> bytes:
    for _ in range(depth):
        data = gzipped(data)
    return data


#: What is in the file, how many rows it gives, and the error in place of others.
BOMBS: dict[str, tuple[Callable[[], bytes], int, str]] = {
    "zeros in gzip": (lambda: gzipped(message(bytes(80 * MIB))), 0, "LimitError: .*maxDecompressedBytes"),
    "zeros in gzip, four deep": (
        lambda: nested(4, message(bytes(80 * MIB))),
        0,
        "LimitError: .*maxDecompressedBytes",
    ),
    "zeros in snappy": (
        lambda: message(xerial(bytes(64 * MIB), MIB), attributes=2),
        0,
        "LimitError: .*maxDecompressedBytes",
    ),
    "a lie about a snappy size": (
        lambda: message(b"\xff\xff\xff\xff\x0f" + bytes(50), attributes=2),
        0,
        "LimitError: .*4294967295 bytes.*maxDecompressedBytes",
    ),
    "a smaller lie": (
        lambda: message(b"\xff\xff\xff\x01" + bytes(50), attributes=2),
        0,
        "CorruptDataError: .*snappy",
    ),
    "empty messages in gzip": (
        lambda: gzipped(message(b"") * (LIMIT_BYTES // 10)),
        0,
        "LimitError: .*messages",
    ),
    "many gzip messages just below the limit": (
        lambda: gzipped(message(bytes(LIMIT_BYTES - 10))) * 20,
        20,
        "",
    ),
    "many gzip messages in one": (
        lambda: gzipped(gzipped(message(bytes(MIB))) * 50),
        0,
        "LimitError: .*maxDecompressedBytes",
    ),
    "many gzip messages of gzip messages": (
        lambda: gzipped(gzipped(message(bytes(LIMIT_BYTES - 30_000)))) * 20,
        20,
        "",
    ),
    "many empty messages": (lambda: message(b"") * 1_000_000, 1_000_000, ""),
    "many gzip members": (
        lambda: message(gzip.compress(b"", mtime=0) * 50_000 + gzip.compress(message(b"x")), 1),
        1,
        "",
    ),
}


def results(folder: Path) -> dict[str, tuple[int, str, int]]:
    """For each bomb: the rows, the error, and the memory that decoding took in a process of its own."""
    paths = [folder / str(i) for i in range(len(BOMBS))]
    for path, (build, _, _) in zip(paths, BOMBS.values(), strict=True):
        path.write_bytes(build())
    command = [sys.executable, "-c", PROGRAM, str(LIMIT_BYTES), *map(str, paths)]
    repository = Path(__file__).parents[3]
    lines = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    return dict(zip(BOMBS, map(json.loads, lines.stdout.splitlines()), strict=True))


@pytest.mark.nightly
def test_bombs_are_refused_or_read_in_bounded_memory(tmp_path: Path) -> None:
    for name, (count, error, memory_bytes) in results(tmp_path).items():
        _, expected_count, expected_error = BOMBS[name]
        with failing_case(name):
            assert count == expected_count
            assert re.fullmatch(f"({expected_error}).*", error)
            assert memory_bytes < MEMORY_BYTES_MAX
