"""The one table of codecs of the tests: a new codec is a new row of ``CODECS``.

It shares no code with the package, whose own table is compared with it. Tests of 0.7 write their codecs out,
because that release gets no more of them. Recordings of brokers (``tests/golden/``) have what those wrote.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import cramjam
import pyarrow as pa
import snappy

Compress = Callable[[bytes], bytes]
Program = Literal["Apache Kafka", "librdkafka", "kafka-python"]

XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


@dataclass(frozen=True, slots=True)
class CodecRow:
    """A codec: what Kafka says of it, which programs judge it, and ways to write it."""

    #: Its name in options, and its number in attributes.
    name: str
    number: int
    #: The magics of partitions that may have it, and whether message sets of 0.7 may.
    magics: tuple[int, ...]
    #: The first release of brokers that has it, and the first version of Produce that may carry it.
    since: tuple[int, ...]
    #: Every way to write it that is read, by what tells it from the first one, which is named ``""``.
    forms: Mapping[str, Compress]
    is_in_v07: bool = False
    produce_version: int = 0
    #: The lowest and the highest level; None where there are none.
    levels: tuple[int, int] | None = None
    #: The clients that write and read it here, without further packages.
    clients: frozenset[Program] = frozenset()
    #: The magics of which kafka-python's own classes read it here. lz4 of magic 0, whose header has another
    #: checksum, needs another package.
    judged_magics: tuple[int, ...] = ()
    #: Sizes of a header that is a whole, empty stream when what follows is cut off.
    header_sizes: range = range(0)
    #: Damaged frames that are read all the same; random inputs have them, too.
    odd_forms: tuple[Compress, ...] = ()
    #: The fewest bytes that hold a number of zeros; None where a mebibyte holds no 256 MiB.
    zeros: Callable[[int], bytes] | None = None


def arrow_encode(name: str, data: bytes | memoryview | bytearray) -> bytes:
    """A stream that Arrow's library writes."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, name) as stream:
        stream.write(data)
    return bytes(sink.getvalue())


def arrow_decode(name: str, data: bytes | memoryview | bytearray) -> bytes:
    """The content of a stream as Arrow's library reads it."""
    with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
        return bytes(stream.read())


# --- gzip ---


def gzipped(data: bytes) -> bytes:
    """One gzip member, made in a hundredth of the time that the best compression takes."""
    deflater = zlib.compressobj(1, wbits=31)
    return deflater.compress(data) + deflater.flush()


def _gzip_members(data: bytes) -> bytes:
    """Two members, cut in the middle of a message."""
    return gzipped(data[: len(data) // 2]) + gzipped(data[len(data) // 2 :])


def _gzip_zeros(size: int) -> bytes:
    deflater, chunk = zlib.compressobj(9, wbits=31), bytes(1 << 20)
    return b"".join(deflater.compress(chunk) for _ in range(size >> 20)) + deflater.flush()


# --- snappy ---


def snappy_raw(data: bytes) -> bytes:
    """One block without a frame."""
    return bytes(snappy.compress(data))


def xerial(data: bytes, block_size: int) -> bytes:
    """Blocks of that size in the frame of Java's library."""
    blocks = [snappy_raw(data[pos : pos + block_size]) for pos in range(0, len(data), block_size)]
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


# --- lz4 ---


def _lz4_linked(data: bytes) -> bytes:
    return bytes(cramjam.lz4.compress(data))


def _lz4_small_blocks(data: bytes) -> bytes:
    """A frame of small blocks, every second one plain, with the wrong header checksum that is never looked at
    where each block is on its own."""
    out = bytearray(b"\x04\x22\x4d\x18\x60\x40\x82")
    for pos in range(0, len(data), 64):
        block = data[pos : pos + 64]
        if pos % 128:
            out += struct.pack("<I", len(block) | 1 << 31) + block
        else:
            packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
            out += struct.pack("<I", len(packed)) + packed
    return bytes(out + bytes(4))


def _lz4_zeros(size: int) -> bytes:
    block = bytes(cramjam.lz4.compress_block(bytes(4 << 20), store_size=False))
    return b"\x04\x22\x4d\x18\x60\x70\x73" + (struct.pack("<I", len(block)) + block) * (size >> 22) + bytes(4)


# --- zstd ---


def _zstd_with_size(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


def _zstd_frames(data: bytes) -> bytes:
    skipped = struct.pack("<II", 0x184D2A53, 3) + b"abc"
    return _zstd_with_size(data[: len(data) // 3]) + skipped + _zstd_with_size(data[len(data) // 3 :])


def _zstd_zeros(size: int) -> bytes:
    block = struct.pack("<I", 131072 << 3 | 2)[:3] + b"\0"
    return struct.pack("<IBB", 0xFD2FB528, 0, 0x58) + block * (size >> 17) + b"\1\0\0"


CODECS: Final = (
    CodecRow(
        "gzip",
        1,
        magics=(0, 1, 2),
        since=(0, 7),
        forms={"": gzipped, "members": _gzip_members, "junk": lambda data: gzipped(data) + b"junk!"},
        is_in_v07=True,
        levels=(1, 9),
        clients=frozenset(("Apache Kafka", "librdkafka", "kafka-python")),
        judged_magics=(0, 1, 2),
        zeros=_gzip_zeros,
    ),
    CodecRow(
        "snappy",
        2,
        magics=(0, 1, 2),
        since=(0, 7),
        forms={
            "": lambda data: xerial(data, 32768),
            "small blocks": lambda data: xerial(data, 7),
            "block": snappy_raw,
            "junk": lambda data: xerial(data, 32768) + b"\0\0\1",
        },
        is_in_v07=True,
        clients=frozenset(("Apache Kafka", "librdkafka", "kafka-python")),
        judged_magics=(0, 1, 2),
        header_sizes=range(16, 20),
    ),
    CodecRow(
        "lz4",
        3,
        magics=(0, 1, 2),
        since=(0, 8, 2),
        forms={"": lambda data: arrow_encode("lz4", data), "linked blocks": _lz4_linked},
        levels=(1, 17),
        clients=frozenset(("Apache Kafka", "librdkafka")),
        judged_magics=(1, 2),
        odd_forms=(_lz4_small_blocks,),
        zeros=_lz4_zeros,
    ),
    CodecRow(
        "zstd",
        4,
        magics=(2,),
        since=(2, 1),
        forms={"": lambda data: arrow_encode("zstd", data), "size": _zstd_with_size, "frames": _zstd_frames},
        produce_version=7,
        levels=(-131_072, 22),
        clients=frozenset(("Apache Kafka", "librdkafka")),
        judged_magics=(2,),
        zeros=_zstd_zeros,
    ),
)
BY_NAME: Final = {codec.name: codec for codec in CODECS}
#: The number of each compression in attributes.
CODEC_NUMBERS: Final = {"none": 0, **{codec.name: codec.number for codec in CODECS}}
#: Every way to write a compression, by the names of both.
FORMS: Final[dict[str, Compress]] = {
    f"{codec.name} {form}".rstrip(): compress for codec in CODECS for form, compress in codec.forms.items()
}


def compressed(form: str, data: bytes) -> bytes:
    """The data in one of ``FORMS``, or as they are for ``none``."""
    return data if form == "none" else FORMS[form](data)


def known_to(program: Program) -> tuple[str, ...]:
    """The compressions that a program writes and reads here."""
    return "none", *(codec.name for codec in CODECS if program in codec.clients)


def judged_by_kafka_python(magic: int) -> tuple[str, ...]:
    """The compressions of a magic that kafka-python's own classes read and write here."""
    return "none", *(codec.name for codec in CODECS if magic in codec.judged_magics)


def of_magic(magic: int) -> tuple[str, ...]:
    """The compressions that logs of a magic may have."""
    return "none", *(codec.name for codec in CODECS if magic in codec.magics)
