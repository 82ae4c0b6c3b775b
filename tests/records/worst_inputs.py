"""Inputs of about a mebibyte that cost the most time or memory, each with what makes it so.

    python -m tests.records.worst_inputs compiled|interpreted MIB [NAME ...]

Decodes them one after the other, with so many MiB as ``maxDecompressedBytes``, and prints a line for each:
its name and size, processor seconds, how many bytes of memory it took at its peak, and what became of it.
"""

from __future__ import annotations

import json
import re
import resource
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import cramjam
import numpy as np
import snappy

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.records import compiler
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.log_index import index_batches
from spark_kafkawire.records.message_set import decoding as message_set
from spark_kafkawire.records.record_log import decode_batches
from tests.records.batches import (
    TRANSACTIONAL,
    Aborted,
    batch,
    marker,
    message,
    record,
    varint,
)
from tests.records.message_set.trees import message as message_07
from tests.records.mutations import damaged_log, damaged_set
from tests.support.codecs import (
    BY_NAME,
    CODEC_NUMBERS,
    CODECS,
    XERIAL_HEADER,
    compressed,
    gzipped,
)

SIZE: Final = 1 << 20
#: A little less than what one compressed message may become with 256 MiB, and with an eighth of that.
_BELOW: Final = (250 << 20, 31 << 20)
#: A gzip member, an lz4 frame's start and a zstd frame that hold nothing; a snappy block does.
_MEMBER: Final = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x03\0" + bytes(8)
_LZ4: Final = b"\x04\x22\x4d\x18\x60\x70\x73"
_FRAME: Final = struct.pack("<IBB", 0xFD2FB528, 0x20, 0) + b"\1\0\0"
_ZSTD_OPEN: Final = struct.pack("<IBB", 0xFD2FB528, 0, 0x58)


def _filled(piece: bytes, size: int = SIZE - 100) -> bytes:
    return piece * (size // len(piece))


def _log(*entries: bytes, count: int = 0) -> bytes:
    """Batches or messages of one offset each in turn, at a log's offsets; so many, or a mebibyte of them."""
    period = b"".join(entries)
    count = count or SIZE // len(period)
    data = np.tile(np.frombuffer(period, np.uint8), (count, 1))
    pos = 0
    for i, entry in enumerate(entries):
        offsets = np.arange(i, i + count * len(entries), len(entries), dtype=">i8")
        data[:, pos : pos + 8] = offsets.view(np.uint8).reshape(-1, 8)
        pos += len(entry)
    return data.tobytes()


def _packed(payload: bytes, codec: str, count: int = 0) -> bytes:
    """A batch whose compressed records are this payload."""
    return batch([], compression=codec, payload=payload, count=count, last_delta=max(count - 1, 0))


def _one_record(codec: str, size: int) -> bytes:
    """A batch with one record of zeros, which is ``size`` bytes with its numbers."""
    body = b"\0\0\0\1" + varint(size - 20)
    content = varint(len(body) + size - 20 + 1) + body + bytes(size - 19)
    return batch([content], compression=codec, count=1)


def _records(codec: str, count: int) -> bytes:
    """A batch of records of nothing, each at its offset, in as few bytes as they can have."""
    parts, first = list[bytes](), 0
    for size, stop in ((1, 1 << 6), (2, 1 << 13), (3, 1 << 20), (4, 1 << 27)):
        deltas = 2 * np.arange(first, min(count, stop), dtype=np.int64)
        rows = np.zeros((len(deltas), 6 + size), np.uint8)
        rows[:, 0] = 2 * (5 + size)
        for i in range(size):
            rows[:, 3 + i] = deltas >> 7 * i & 127 | (128 if i + 1 < size else 0)
        rows[:, 3 + size : 5 + size] = 1
        parts.append(rows.tobytes())
        first = min(count, stop)
    content = b"".join(parts)
    return batch([content], compression=codec, count=count)


def _headers(last_key: bytes, count: int) -> bytes:
    pairs = b"\0\1" * (count - 1) + varint(len(last_key)) + last_key + b"\1"
    body = b"\0\0\0\1\1" + varint(count) + pairs
    return batch([varint(len(body)) + body], compression="gzip")


def _nested(content: bytes, depth: int) -> bytes:
    for _ in range(depth):
        content = message_07(gzipped(content), 1)
    return content


def _tiny_blocks_of_deflate() -> bytes:
    """Blocks with codes of their own that hold nothing: each is a table to build."""
    deflater = zlib.compressobj(9, wbits=-15)
    text = bytes(range(256)) * 2 + b"some text that has another code " * 20
    block = deflater.compress(text) + deflater.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + _filled(block)


def _legacy(codec: str, magic: int, payload: bytes, offset: int = 0) -> bytes:
    return message(offset, payload, magic=magic, attributes=CODEC_NUMBERS[codec])


def _repeated(seed: int, is_log: bool) -> bytes:
    """A drawn input over and over; in a log with offsets that rise from each to the next."""
    period = (damaged_log if is_log else damaged_set)(seed) or b"\0"
    data, pos = bytearray(_filled(period)), 0
    while is_log and pos + 12 <= len(data):
        offset, size = struct.unpack_from(">qi", data, pos)
        if size < 14 or not 0 <= offset < 1 << 40:
            break
        struct.pack_into(">q", data, pos, offset + 64 * (pos // len(period)))
        pos += 12 + size
    return bytes(data)


#: Address space that libraries reserve and never touch.
_SLACK_BYTES: Final = 512 << 20
#: Seeds of inputs that are repeated.
GENERATED: Final = range(20)


def modern(below: int) -> Mapping[str, Callable[[], bytes]]:
    """Bytes of Kafka 0.8 and later; ``below`` is a little less than a message may become."""
    codecs = [codec.name for codec in CODECS if codec.zeros]
    empty_gz = batch([], compression="gzip", payload=_MEMBER, count=0, last_delta=0)
    dense = below // 128
    return {
        "lz4: blocks of nothing": lambda: _packed(_LZ4 + _filled(b"\1\0\0\0\0") + bytes(4), "lz4"),
        "lz4: plain blocks of nothing": lambda: _packed(_LZ4 + _filled(b"\0\0\0\x80") + bytes(4), "lz4"),
        "lz4: plain blocks of a byte": lambda: _packed(_LZ4 + _filled(b"\1\0\0\x80a") + bytes(4), "lz4"),
        "lz4: linked blocks of a byte": lambda: _packed(
            b"\x04\x22\x4d\x18\x40\x70\xdf" + _filled(b"\1\0\0\x80a") + bytes(4), "lz4"
        ),
        "lz4: linked blocks of zeros": lambda: _packed(compressed("lz4 linked blocks", bytes(below)), "lz4"),
        "snappy: blocks of nothing": lambda: _packed(XERIAL_HEADER + _filled(b"\0\0\0\1\0"), "snappy"),
        "snappy: blocks of a byte": lambda: _packed(XERIAL_HEADER + _filled(b"\0\0\0\3\1\0a"), "snappy"),
        "snappy: a block of copies": lambda: _packed(compressed("snappy block", bytes(20 << 20)), "snappy"),
        "snappy: a lie": lambda: _packed(b"\xff\xff\xff\x7f" + bytes(50), "snappy"),
        "gzip: members of nothing": lambda: _packed(_filled(_MEMBER), "gzip"),
        "gzip: plain blocks of nothing": lambda: _packed(
            _MEMBER[:10] + _filled(b"\0\0\0\xff\xff") + b"\3\0" + bytes(8), "gzip"
        ),
        "gzip: codes of their own": lambda: _packed(_tiny_blocks_of_deflate(), "gzip"),
        "zstd: frames of nothing": lambda: _packed(_filled(_FRAME), "zstd"),
        "zstd: frames to skip": lambda: _packed(_filled(struct.pack("<II", 0x184D2A50, 0)), "zstd"),
        "zstd: plain blocks of nothing": lambda: _packed(_ZSTD_OPEN + _filled(b"\0\0\0") + b"\1\0\0", "zstd"),
        "zstd: frames of a few bytes": lambda: _packed(
            _filled(bytes(cramjam.zstd.compress(b"abcdefgh" * 9, 19))), "zstd"
        ),
        "zstd: the largest window": lambda: _packed(
            _ZSTD_OPEN[:5] + b"\x88" + _zeros("zstd", below)[6:], "zstd"
        ),
        "zstd: a window above all": lambda: _packed(_ZSTD_OPEN[:5] + b"\xa8\1\0\0", "zstd"),
        **{f"{codec}: more than the limit": partial(_bomb, codec) for codec in codecs},
        **{f"{codec}: a value as large as can be": partial(_one_record, codec, below) for codec in codecs},
        **{f"{codec}: as many records as can be": partial(_records, codec, dense) for codec in codecs},
        "values as large as can be, one after the other": lambda: _log(_one_record("zstd", below), count=8),
        "more records than can be": partial(_records, "gzip", 4 * dense),
        "as many headers as can be": partial(_headers, b"", dense),
        "as many headers as can be, the last one bad": partial(_headers, b"\xff", dense),
        "more headers than can be": partial(_headers, b"", 4 * dense),
        "a count above all": lambda: batch([], count=2**31 - 1, last_delta=0),
        "batches without records": lambda: _log(batch([], last_delta=0)),
        "compressed batches without records": lambda: _log(empty_gz),
        "batches of one record": lambda: _log(batch([record(0, None)])),
        "plain and compressed batches in turn": lambda: _log(
            batch([record(0, None)]), batch([record(0, None)], compression="lz4")
        ),
        "formats in turn": lambda: _log(batch([record(0, None)]), message(0, None, magic=0)),
        "transactions": lambda: _log(
            batch([record(0, None)], attributes=TRANSACTIONAL, producer=(1, 0, 0)), marker(0, 1, 0)
        ),
        "plain messages": lambda: _log(message(0, None, magic=0)),
        "compressed messages of nothing": lambda: _log(_legacy("snappy", 1, b"\0")),
        "compressed messages of one": lambda: _log(
            _legacy("snappy", 1, bytes(snappy.compress(message(0, None))))
        ),
        "plain and compressed messages in turn": lambda: _log(
            message(0, None), _legacy("snappy", 1, bytes(snappy.compress(message(0, None))))
        ),
        **{
            f"magic {magic}: messages in {codec}": partial(_messages, codec, magic, below // 256)
            for magic in (0, 1)
            for codec in codecs
            if magic in BY_NAME[codec].magics
        },
        "magic 1: more messages than can be": partial(_messages, "gzip", 1, below // 64),
        "magic 1: a value as large as can be": lambda: _legacy("gzip", 1, gzipped(message(0, bytes(below)))),
        **{f"drawn log {seed}": partial(_repeated, seed, True) for seed in GENERATED},
    }


def _zeros(codec: str, size: int) -> bytes:
    """The fewest bytes that hold so many zeros."""
    zeros = BY_NAME[codec].zeros
    assert zeros is not None
    return zeros(size)


def _bomb(codec: str) -> bytes:
    return _packed(_zeros(codec, 260 << 20), codec)


def _messages(codec: str, magic: int, count: int) -> bytes:
    content = _log(message(0, None, magic=magic), count=count)
    return _legacy(codec, magic, compressed(codec, content), count - 1)


def kafka_07(below: int) -> Mapping[str, Callable[[], bytes]]:
    """The same for message sets of 0.7."""
    empty = message_07(_MEMBER, 1)
    return {
        "0.7: plain messages": lambda: _filled(message_07(b"")),
        "0.7: compressed messages of nothing": lambda: _filled(empty),
        "0.7: plain and compressed messages in turn": lambda: _filled(message_07(b"") + empty),
        "0.7: messages in gzip": lambda: _nested(message_07(b"") * (below // 128), 1),
        "0.7: more messages than can be": lambda: _nested(message_07(b"") * (below // 16), 1),
        "0.7: compressed messages in one": lambda: _nested(empty * (below // 4096 // 4), 1),
        "0.7: more compressed messages than can be": lambda: _nested(empty * 1_000_000, 1),
        "0.7: compressed messages, each in six": lambda: _nested(_nested(empty, 6) * (below // 400), 1),
        "0.7: zeros as deep as can be": lambda: _nested(message_07(bytes(below // 2)), 8),
        "0.7: a value as large as can be": lambda: _nested(message_07(bytes(below)), 1),
        "0.7: values as large as can be, one after the other": lambda: (
            2 * _nested(message_07(bytes(below)), 1)
        ),
        "0.7: more than the limit": lambda: message_07(_zeros("gzip", 300 << 20), 1),
        "0.7: snappy blocks of nothing": lambda: message_07(XERIAL_HEADER + _filled(b"\0\0\0\1\0"), 2),
        **{f"0.7: drawn set {seed}": partial(_repeated, seed, False) for seed in GENERATED},
    }


def _decode(is_log: bool, data: bytes, limits: DecodeLimits) -> str:
    """Result of an input: rows, or an error of ours."""
    count = pos = 0
    try:
        if is_log:
            aborted = [Aborted(1, offset) for offset in range(1000)]
            for columns in decode_batches(index_batches(data), aborted=aborted, limits=limits):
                count += columns.count
            return f"{count} rows"
        cut, view = False, memoryview(data)
        while not cut:
            decoded = message_set.decode(view[pos:], pos, limits)
            pos, cut, count = pos + decoded.size, decoded.cut, count + decoded.columns.count
    except KafkaWireError as error:
        return f"{type(error).__name__}: {error}"
    return f"{count} rows"


def _status_bytes(name: str) -> int:
    match = re.search(name + r":\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return 1024 * int(match[1])


def calibrated_s() -> float:
    """Processor seconds of a fixed piece of work: how slow the machine is now."""
    began, numbers = time.process_time(), list(range(1000))
    for _ in range(2000):
        sum(numbers)
    zlib.compress(bytes(8 << 20), 1)
    return time.process_time() - began


@contextmanager
def _limited(size: int) -> Iterator[None]:
    """Whoever takes more than so many bytes here gets a ``MemoryError``."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_status_bytes("VmSize") + size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def memory_bytes_max(limits: DecodeLimits) -> int:
    """Bound of memory that ``DecodeLimits`` states."""
    return 9 * (limits.decompressed_bytes_max + limits.batch_bytes_max) // 4


def main(kernels: str, limit_mib: str, *names: str) -> None:
    """Measure these inputs, or all."""
    if kernels == "compiled":
        assert compiler.load()
        assert all(kernel.compile() for kernel in compiler._kernels)
    else:
        compiler._loaded = False
    limits = DecodeLimits(decompressed_bytes_max=int(limit_mib) << 20)
    below = _BELOW[0] if limit_mib == "256" else _BELOW[1]
    for is_log, table in ((True, modern(below)), (False, kafka_07(below))):
        for name, build in table.items():
            if names and name not in names:
                continue
            data = build()
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
            before, slowness_s, began = _status_bytes("VmRSS"), calibrated_s(), time.process_time()
            with _limited(memory_bytes_max(limits) + _SLACK_BYTES):
                became = _decode(is_log, data, limits)
            cpu_s, peak = time.process_time() - began, _status_bytes("VmHWM") - before
            slowness_s = max(slowness_s, calibrated_s())
            print(json.dumps([name, len(data), cpu_s, slowness_s, peak, became[:200]]), flush=True)
            del data


if __name__ == "__main__":
    main(*sys.argv[1:])
