"""Compression of records: the checks that all codecs share, each codec, and the one table of them,
``CODECS``.

Sizes are checked before memory is taken. Empty blocks cost time, so they count as bytes, too: see
``PART_BYTES_MIN``. Damage raises ``CorruptDataError``, too large a result ``TooLarge``, a ``LimitError``;
both are fatal. The caller adds the place to the message.

A codec is added in a section of its own, and in the table at the end.

gzip, as Java reads and writes it (RFC 1952): several members in a row, junk after the last one ignored. A
member with a reserved flag is damaged, as RFC 1952 requires, and as in gzip, zlib (librdkafka) and Arrow: the
flag may mean that other fields follow the header. Java and the library ignore these flags.

lz4 frames, as Kafka 0.8.2 and later writes and reads them::

    04 22 4D 18 | flags | block size code | [content size int64] | checksum of these
    (block size uint32 | block | [checksum]) ... | 0 uint32 | [checksum]

Blocks are independent, because Java's reader supports no others. An empty block ends the frame, whether it is
compressed or not. Bytes after the frame are ignored.

A frame is damaged if Java's reader refuses it: reserved bits or another version, a wrong checksum of the
header or of a block, or a missing checksum of the content. As in Java, the value of the content's checksum is
not checked in a frame of independent blocks, because Kafka's checksum covers all bytes. With magic 0 the
header's checksum covers the four magic bytes too, a mistake that Kafka kept (KAFKA-3160): it is written like
that and not checked.

Source: the LZ4 frame format 1.6; Apache Kafka's Lz4BlockInputStream.java.

snappy, as Java writes it: the framing of xerial's SnappyOutputStream; a bare block is read, too::

    82 'SNAPPY' 00 | version int32 | compatible int32 | (size int32 | raw snappy block) ...

zstd frames, one or several in a row, with the size of their content or without::

    28 B5 2F FD | descriptor | [window] | [dictionary id] | [content size] |
    (last : 1, type : 2, size : 21 bits | block) ... | [checksum]

Java's producer leaves the content size out, so that the room for a result is found by going over
its blocks.

Sources: recordings of a 0.7.2 broker, and snappy-java 1.0.4.1 that it carries; RFC 8878.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

import cramjam
import snappy
from isal import igzip_lib, isal_zlib

from ..errors import CorruptDataError, LimitError, OptionError, quote
from ..protocol.primitives import Buffer

if TYPE_CHECKING:
    from .arrays import Uint8s


#: Least size that a block, member or frame of a payload counts as, in bytes of content: each takes about a
#: microsecond, even an empty one. Writers make blocks of 32 KiB and more.
PART_BYTES_MIN: Final = 64
#: Parts that a payload may have whatever the limit.
_PARTS_ALWAYS: Final = 4096
#: Text of cramjam's error for a result that is larger than its buffer.
_NO_ROOM: Final = "failed to write whole buffer"


class Format(enum.Enum):
    """The formats that hold compressed messages: message sets of Kafka 0.7, and logs by their magic."""

    MESSAGE_SET = "0.7"
    MAGIC_0 = 0
    MAGIC_1 = 1
    MAGIC_2 = 2


@dataclass(frozen=True, slots=True)
class Codec:
    """A compression of some record formats.

    ``name`` is that in options and ``number`` that in attributes. ``since`` is the first release of Kafka
    that has it, ``produce_version`` the first version of Produce that may carry it. ``levels`` are the
    lowest and the highest one, None for a codec without levels. ``decompress(payload, size_max)`` yields the
    parts of the result, ``encode(data, level)`` returns the complete one.
    """

    name: str
    number: int
    formats: frozenset[Format]
    since: str
    decompress: Callable[[memoryview, int], list[Buffer]]
    encode: Callable[[Buffer, int | None], Buffer]
    levels: tuple[int, int] | None = None
    produce_version: int = 0

    def compress(self, data: Buffer, level: int | None = None) -> Buffer:
        """The payload of these bytes. Raises ``OptionError`` (fatal) for an unsupported level."""
        if level is not None:
            if self.levels is None:
                raise OptionError(
                    f"{self.name} has no compression levels: remove the option compressionLevel"
                )
            low, high = self.levels
            if not low <= level <= high:
                raise OptionError(
                    f"{self.name} has the compression levels {low} to {high}, not {level}: set one of these"
                )
        return self.encode(data, level)


class TooLarge(LimitError):
    """A payload's content has, or counts as, ``size`` bytes or more: above the limit. Its caller adds
    the place to ``reason``."""

    def __init__(self, size: int, reason: str = "") -> None:
        self.size, self.reason = size, reason or f"it decompresses to {size} bytes or more"
        super().__init__(f"compressed records: {self.reason}; raise maxDecompressedBytes")


def damaged(reason: str) -> CorruptDataError:
    """The error for a payload that cannot be decompressed. Its caller adds the place to ``reason``."""
    return CorruptDataError(
        f"compressed records are damaged: {reason}; to read the others, set badRecords=drop", reason=reason
    )


def check_parts(count: int, size_max: int) -> None:
    """Raise ``TooLarge`` for too many blocks, members or frames."""
    if count > max(size_max // PART_BYTES_MIN, _PARTS_ALWAYS):
        raise TooLarge(
            count * PART_BYTES_MIN,
            f"it has {count} compressed blocks or more, and each counts as {PART_BYTES_MIN} bytes",
        )


def room(size: int) -> Uint8s:
    """A buffer of that many bytes. The import of arrays waits for the first payload, because processes that
    decompress nothing read the table of codecs for their options."""
    from . import arrays

    return arrays.room(size, "uint8")


def decompress_into(library: Any, name: str, data: Buffer, size: int, size_max: int) -> list[Buffer]:
    """Decompress data that becomes at most ``size`` bytes; more than ``size_max`` is refused."""
    target = room(min(size, size_max))
    try:
        written: int = library.decompress_into(data, target)
    except cramjam.DecompressionError as error:
        if str(error) == _NO_ROOM and size > size_max:
            raise TooLarge(size_max + 1) from error
        raise damaged(f"its {name} data are damaged ({error})") from error
    return [fit(target, written)]


def fit(target: Uint8s, written: int) -> Buffer:
    """The bytes that were written to the target: a copy if most of the target is unused, because that memory
    would be kept with it."""
    content = target.data[:written]
    return content if 2 * written >= len(target) else bytes(content)


_IsalError: Final = cast(type[Exception], igzip_lib.IsalError)
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
#: The byte of the flags in a member's header, and the flags that are reserved.
_FLAGS_POS: Final = 3
_GZIP_RESERVED_FLAGS: Final = 0xE0
#: No time, no extra flags, unknown system: as the JVM (16 and later) writes it.
_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
#: Header and trailer of a member. The JVM looks for another one only in more bytes than this.
_MEMBER_BYTES_MIN: Final = 18
#: First input of a member after the first. zlib copies the input that a member leaves over, so with all of
#: the rest as input many tiny members would take quadratic time.
_FEED_BYTES: Final = 4096
#: Levels of igzip; the higher ones are zlib's.
_IGZIP_LEVEL_MAX: Final = 3
_IGZIP_LEVEL_DEFAULT: Final = 2


def _gzip_decompress(payload: memoryview, size_max: int) -> list[Buffer]:
    parts: list[Buffer] = []
    left, pos, feed, count = size_max, 0, len(payload), 0
    while True:
        check_parts(count := count + 1, size_max)
        member, pos = _decompress_member(payload, pos, feed, left)
        parts += member
        left -= sum(map(len, member))
        if left < 0:
            raise TooLarge(size_max + 1)
        more = len(payload) - pos >= _MEMBER_BYTES_MIN and bytes(payload[pos : pos + 3]) == _GZIP_MAGIC
        if not more:
            return parts
        feed = _FEED_BYTES


def _decompress_member(payload: memoryview, pos: int, feed: int, left: int) -> tuple[list[Buffer], int]:
    """The parts of one member and the position after it; up to one byte more than ``left``."""
    header = bytes(payload[pos : pos + _FLAGS_POS + 1])
    if header.startswith(_GZIP_MAGIC) and header[-1] & _GZIP_RESERVED_FLAGS and len(header) > _FLAGS_POS:
        raise damaged(f"its gzip header has reserved flags ({header[-1]:#04x}, allowed are 0x1f)")
    inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    parts: list[Buffer] = []
    while not inflater.eof and left >= 0:
        chunk = payload[pos : pos + feed] if inflater.needs_input else b""
        if inflater.needs_input and not chunk:
            raise damaged("its gzip data end too early")
        try:
            parts.append(inflater.decompress(chunk, max_length=left + 1))
        except _IsalError as error:
            raise damaged(f"its gzip data are damaged ({error})") from error
        pos += len(chunk)
        feed *= 2
        left -= len(parts[-1])
    return parts, pos - len(inflater.unused_data)


def _gzip_encode(data: Buffer, level: int | None) -> Buffer:
    if level is None or level <= _IGZIP_LEVEL_MAX:
        deflater: Any = isal_zlib.compressobj(level or _IGZIP_LEVEL_DEFAULT, wbits=-15)
    else:
        deflater = zlib.compressobj(level, wbits=-15)
    trailer = struct.pack("<II", isal_zlib.crc32(data), len(data) & 0xFFFFFFFF)
    return b"".join((_HEADER, deflater.compress(data), deflater.flush(), trailer))


GZIP: Final = Codec("gzip", 1, frozenset(Format), "0.7", _gzip_decompress, _gzip_encode, levels=(1, 9))


_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_UINT32: Final = struct.Struct("<I")
#: Bits of the flags.
_DICTIONARY_ID: Final = 1
_CONTENT_CHECKSUM: Final = 4
_CONTENT_SIZE: Final = 8
_BLOCK_CHECKSUM: Final = 16
_INDEPENDENT_BLOCKS: Final = 32
#: Bits that are zero, of the flags and of the block size code. The version is in the upper two of the flags.
_LZ4_RESERVED_FLAGS: Final = 2
_RESERVED_CODE: Final = 0x8F
_VERSION: Final = 1
#: Frame header for blocks of at most 64 KiB: independent ones, without checksums.
_FRAME_HEADER: Final = _LZ4_MAGIC + b"\x60\x40\x82"
_BLOCK_SIZE: Final = 64 * 1024
#: A block's size with this bit is that of a plain block.
_PLAIN_BLOCK: Final = 1 << 31
#: Most that one byte of a block becomes.
_LZ4_RATIO_MAX: Final = 255
#: Of XXH32.
_PRIME_1, _PRIME_2, _PRIME_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME_4, _PRIME_5 = 0x27D4EB2F, 0x165667B1


def _lz4_decompress(payload: memoryview, size_max: int) -> list[Buffer]:
    header_size, block_size_max = _header(payload)
    header = payload[:header_size]
    found, expected = header[-1:], header_checksum(bytes(header[4:-1]))
    if found != expected:
        raise damaged(
            f"its lz4 frame has a damaged header: the checksum is {found.hex()}, computed is {expected.hex()}"
        )
    frame_size, size, block_room = _measure(payload, header_size, block_size_max, size_max)
    if not payload[4] & _INDEPENDENT_BLOCKS or payload[4] & _BLOCK_CHECKSUM:
        # The library resolves references between blocks, and checks their checksums.
        return decompress_into(cramjam.lz4, "lz4", payload[:frame_size], size, size_max)
    target, written = room(min(size, size_max + block_room)), 0
    view = target.data
    for pos, block_size, is_plain in _blocks(payload, header_size):
        block, block_room = payload[pos : pos + block_size], _room(block_size, is_plain, block_size_max)
        written += _put(block, view[written : written + block_room], block_room, is_plain=is_plain)
        if written > size_max:
            raise TooLarge(written)
    return [fit(target, written)]


def _put(block: memoryview, left: memoryview, block_room: int, *, is_plain: bool) -> int:
    """Write the content of a block to the rest of the target. Returns its size. Blocks on their own, without
    a library's context for the frame, are twice as fast."""
    try:
        if is_plain or not block:
            left[:] = block
            return len(block)
        # The library wants to know the room from four bytes before the block: it guesses whether they are
        # there, and would take a block's first bytes for them.
        return int(cramjam.lz4.decompress_block_into(_UINT32.pack(block_room) + block, left))
    except (cramjam.DecompressionError, ValueError) as error:
        raise damaged("its lz4 data are damaged") from error


def _room(size: int, is_plain: bool, block_size_max: int) -> int:
    """The largest content of a block of that many bytes."""
    return min(block_size_max, size if is_plain else size * _LZ4_RATIO_MAX)


def _measure(payload: memoryview, start: int, block_size_max: int, size_max: int) -> tuple[int, int, int]:
    """Size of the frame, the most that it becomes, and the most that a block of it becomes."""
    count = content_size = largest = 0
    for pos, size, is_plain in _blocks(payload, start):
        if not size:
            stop = pos + (4 if payload[4] & _CONTENT_CHECKSUM else 0)
            if stop > len(payload):
                break
            return stop, content_size, largest
        check_parts(count := count + 1, size_max)
        block_room = _room(size, is_plain, block_size_max)
        content_size += block_room
        largest = max(largest, block_room)
    raise damaged("its lz4 frame ends too early")


def _blocks(payload: memoryview, pos: int) -> Iterator[tuple[int, int, bool]]:
    """Position and size of each block, and true if it is plain, up to an empty block.

    They are found again at each call, because a table of them might take more memory than their content.
    """
    between = 4 if payload[4] & _BLOCK_CHECKSUM else 0
    while len(payload) - pos >= _UINT32.size:
        (word,) = _UINT32.unpack_from(payload, pos)
        pos += _UINT32.size
        size = word & ~_PLAIN_BLOCK
        yield pos, size, word >= _PLAIN_BLOCK
        if not size:
            return
        pos += size + between


def _header(payload: memoryview) -> tuple[int, int]:
    """Size of the frame's header, and of its largest block."""
    if len(payload) < 7 or bytes(payload[:4]) != _LZ4_MAGIC:
        raise damaged("its lz4 data do not begin with a frame")
    flags, code = payload[4], payload[5] >> 4 & 7
    size = 7 + (8 if flags & _CONTENT_SIZE else 0)
    is_known = flags >> 6 == _VERSION and not flags & (_DICTIONARY_ID | _LZ4_RESERVED_FLAGS)
    if not is_known or code < 4 or payload[5] & _RESERVED_CODE or len(payload) < size:
        raise damaged("its lz4 frame has a damaged header")
    return size, 1 << (8 + 2 * code)


def _lz4_encode(data: Buffer, level: int | None) -> Buffer:
    if level is not None:
        # The library has levels for frames only, and takes only bytes.
        compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        compressor.compress(bytes(data))
        return memoryview(compressor.finish())
    view, parts = memoryview(data), list[Buffer]([_FRAME_HEADER])
    for pos in range(0, len(view), _BLOCK_SIZE):
        block = view[pos : pos + _BLOCK_SIZE]
        packed = memoryview(cramjam.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            parts += (_UINT32.pack(len(packed)), packed)
        else:
            parts += (_UINT32.pack(len(block) | _PLAIN_BLOCK), block)
    return b"".join((*parts, _UINT32.pack(0)))


def _decompress_magic_0(payload: memoryview, size_max: int) -> list[Buffer]:
    size, _ = _header(payload)
    checksum = header_checksum(bytes(payload[4 : size - 1]))
    return _lz4_decompress(memoryview(b"".join((payload[: size - 1], checksum, payload[size:]))), size_max)


def _encode_magic_0(data: Buffer, level: int | None) -> Buffer:
    frame = memoryview(_lz4_encode(data, level))
    size, _ = _header(frame)
    return b"".join((frame[: size - 1], header_checksum(bytes(frame[: size - 1])), frame[size:]))


@lru_cache(maxsize=256)
def header_checksum(data: bytes) -> bytes:
    """The second lowest byte of the XXH32 of fewer than 16 bytes. Nearly all headers are the same few."""
    hashed, pos = _PRIME_5 + len(data), 0
    while len(data) - pos >= _UINT32.size:
        hashed = _rotate(hashed + _UINT32.unpack_from(data, pos)[0] * _PRIME_3, 17) * _PRIME_4
        pos += _UINT32.size
    for byte in data[pos:]:
        hashed = _rotate(hashed + byte * _PRIME_5, 11) * _PRIME_1
    for shift, prime in ((15, _PRIME_2), (13, _PRIME_3), (16, 1)):
        hashed &= 0xFFFFFFFF
        hashed = (hashed ^ hashed >> shift) * prime
    return bytes((hashed >> 8 & 0xFF,))


def _rotate(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return (value << bits | value >> (32 - bits)) & 0xFFFFFFFF


LZ4: Final = Codec(
    "lz4",
    3,
    frozenset((Format.MAGIC_1, Format.MAGIC_2)),
    "0.8.2",
    _lz4_decompress,
    _lz4_encode,
    levels=(1, 17),
)
#: The same with the checksum of magic 0.
LZ4_MAGIC_0: Final = replace(
    LZ4, formats=frozenset((Format.MAGIC_0,)), decompress=_decompress_magic_0, encode=_encode_magic_0
)


#: Uncompressed bytes in one block of SnappyOutputStream.
_BLOCK_BYTES: Final = 32_768
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = struct.Struct(">8sii")
_INT32: Final = struct.Struct(">i")
#: Most that one byte of a raw block becomes: a copy of 64 bytes takes three.
_SNAPPY_RATIO_MAX: Final = 22


def _snappy_decompress(payload: memoryview, size_max: int) -> list[Buffer]:
    if len(payload) < _XERIAL_HEADER.size or bytes(payload[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return [_decompress_block(payload, 0, size_max)]
    _, version, _ = _XERIAL_HEADER.unpack_from(payload)
    if version < 1:
        raise damaged(f"its snappy stream has the unknown version {version}")
    parts: list[Buffer] = []
    taken, pos = 0, _XERIAL_HEADER.size
    while len(payload) - pos >= _INT32.size:
        check_parts(len(parts) + 1, size_max)
        (size,) = _INT32.unpack_from(payload, pos)
        pos += _INT32.size
        if not 0 <= size <= len(payload) - pos:
            raise damaged(f"its snappy block of {size} bytes has {len(payload) - pos} bytes left")
        parts.append(_decompress_block(payload[pos : pos + size], taken, size_max))
        taken += len(parts[-1])
        pos += size
    return parts


def _decompress_block(block: memoryview, taken: int, size_max: int) -> Buffer:
    size = _block_size(block)
    if taken + size > size_max:
        raise TooLarge(taken + size)
    if size > _SNAPPY_RATIO_MAX * len(block):
        raise damaged(f"its snappy block of {len(block)} bytes claims to become {size} bytes")
    try:
        data: Any = snappy.decompress(block)
    except snappy.UncompressError as error:
        raise damaged(f"its snappy block is damaged ({error})") from error
    return cast(Buffer, data)


def _block_size(block: memoryview) -> int:
    """The decompressed size that a raw block begins with: 7 bits a byte, lowest first."""
    size = 0
    for i, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return size
    raise damaged("its snappy block does not begin with a size")


def _snappy_encode(data: Buffer, level: int | None) -> Buffer:
    del level  # there are none
    view = memoryview(data)
    parts: list[Any] = [_XERIAL_HEADER.pack(_XERIAL_MAGIC, 1, 1)]
    for pos in range(0, len(view), _BLOCK_BYTES):
        block = snappy.compress(view[pos : pos + _BLOCK_BYTES])
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


SNAPPY: Final = Codec("snappy", 2, frozenset(Format), "0.7", _snappy_decompress, _snappy_encode)


_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_CUT: Final = "its zstd frame ends too early"
#: Magic number of a frame that readers skip; its lowest four bits are free.
_SKIPPABLE_MAGIC: Final = 0x184D2A50
_BLOCK_SIZE_MAX: Final = 128 * 1024
#: Windows of up to this size are taken whatever the limit: 8 MiB, as RFC 8878 recommends. Beyond it only
#: the highest levels go; a writer that does not know the size asks for the level's window always.
_WINDOW_ALWAYS: Final = 8 << 20
_RAW, _RLE, _COMPRESSED = range(3)
#: Bytes of the dictionary id and the content size, by their bits of the descriptor.
_DICTIONARY_ID_SIZES: Final = (0, 1, 2, 4)
_CONTENT_SIZES: Final = (0, 2, 4, 8)
_CHECKSUM_BIT: Final = 4
_SINGLE_SEGMENT_BIT: Final = 32
_LEVEL_DEFAULT: Final = 3


def _zstd_decompress(payload: memoryview, size_max: int) -> list[Buffer]:
    size, pos, frames = 0, 0, 0
    while pos < len(payload):
        check_parts(frames := frames + 1, size_max)
        frame_size, pos = _measure_frame(payload, pos, size_max)
        size += frame_size
    return decompress_into(cramjam.zstd, "zstd", payload, size, size_max)


def _measure_frame(payload: memoryview, pos: int, size_max: int) -> tuple[int, int]:
    """The most that the frame's content can be, and the position after it."""
    if len(payload) - pos < 6:
        raise damaged(_ZSTD_CUT)
    (magic,) = _UINT32.unpack_from(payload, pos)
    if magic & ~15 == _SKIPPABLE_MAGIC:
        if len(payload) - pos < 8:
            raise damaged(_ZSTD_CUT)
        return 0, pos + 8 + int(_UINT32.unpack_from(payload, pos + 4)[0])
    if magic != _ZSTD_MAGIC:
        raise damaged("its zstd data do not begin with a frame")
    descriptor = payload[pos + 4]
    is_single = bool(descriptor & _SINGLE_SEGMENT_BIT)
    if not is_single:
        _check_window(payload[pos + 5], size_max)
    content_size = _CONTENT_SIZES[descriptor >> 6] or int(is_single)
    pos += 5 + (not is_single) + _DICTIONARY_ID_SIZES[descriptor & 3] + content_size
    size, pos = _measure_blocks(payload, pos, size_max)
    return size, pos + (4 if descriptor & _CHECKSUM_BIT else 0)


def _check_window(descriptor: int, size_max: int) -> None:
    """Refuse a window for which the library takes more memory than the content may have."""
    size = 1 << 10 + (descriptor >> 3)
    size += (size >> 3) * (descriptor & 7)
    if size > max(size_max, _WINDOW_ALWAYS):
        raise TooLarge(size, f"its zstd window has {size} bytes")


def _measure_blocks(payload: memoryview, pos: int, size_max: int) -> tuple[int, int]:
    size, known, is_last = 0, 0, False
    while not is_last:
        if len(payload) - pos < 3:
            raise damaged(_ZSTD_CUT)
        header = payload[pos] | payload[pos + 1] << 8 | payload[pos + 2] << 16
        is_last, kind, block_size = bool(header & 1), header >> 1 & 3, header >> 3
        if kind == _COMPRESSED:
            size += _BLOCK_SIZE_MAX
        else:
            size += block_size
            known += block_size
            if known > size_max:
                raise TooLarge(known)
        pos += 3 + (1 if kind == _RLE else block_size)
    return size, pos


def _zstd_encode(data: Buffer, level: int | None) -> Buffer:
    return memoryview(cramjam.zstd.compress(data, _LEVEL_DEFAULT if level is None else level))


#: KIP-110 brought it, with version 7 of Produce.
ZSTD: Final = Codec(
    "zstd",
    4,
    frozenset((Format.MAGIC_2,)),
    "2.1",
    _zstd_decompress,
    _zstd_encode,
    levels=(-131_072, 22),
    produce_version=7,
)


#: Of those with one name the newest is the last.
_ALL: Final = (GZIP, SNAPPY, LZ4_MAGIC_0, LZ4, ZSTD)
#: Value of the option ``compression`` without compression; its number in attributes is 0.
NONE: Final = "none"
#: The codecs by name, each once.
CODECS: Final[Mapping[str, Codec]] = MappingProxyType({codec.name: codec for codec in _ALL})
#: Those of each format by their number.
_BY_NUMBER: Final[Mapping[Format, Mapping[int, Codec]]] = MappingProxyType(
    {
        item: MappingProxyType({codec.number: codec for codec in _ALL if item in codec.formats})
        for item in Format
    }
)


def names_by_number() -> Mapping[int, str]:
    """The names of all codecs, ``none`` too, by their number in attributes, which is the same in all
    formats."""
    return {0: NONE, **{codec.number: codec.name for codec in _ALL}}


def codec_names(format: Format) -> tuple[str, ...]:
    """Values of the option ``compression`` for messages of that format."""
    return NONE, *(codec.name for codec in _BY_NUMBER[format].values())


def codec_named(name: str, format: Format) -> Codec | None:
    """The codec of that name; None for ``none``.

    Raises ``OptionError`` (fatal) for an unknown name, or one that the format does not support.
    """
    if name == NONE:
        return None
    for codec in _BY_NUMBER[format].values():
        if codec.name == name:
            return codec
    names = ", ".join(codec_names(format))
    if name in CODECS:
        raise OptionError(
            f"compression {name} needs Kafka {CODECS[name].since} or later, and this broker is older;"
            f" choose one of {names}"
        )
    raise OptionError(f"compression {quote(name)} is unknown; choose one of {names}")


def decompress(number: int, format: Format, payload: memoryview, size_max: int) -> list[Buffer]:
    """Decompress a payload with the codec of that number; the result comes in parts.

    Raises ``CorruptDataError`` for damage and a number that the format does not support, ``TooLarge`` for a
    result above ``size_max`` bytes. Both are fatal; the caller adds the place to the message.
    """
    codec = _BY_NUMBER[format].get(number)
    if codec is None:
        raise damaged(f"its compression codec {number} is unknown")
    return codec.decompress(payload, size_max)
