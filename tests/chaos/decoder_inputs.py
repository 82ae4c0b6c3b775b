"""Record bytes that mean something and are damaged somewhere, each drawn from a seed.

An input is built as a writer builds it, from numbers and pieces, and at every level a number may be
another one, a piece damaged, and pieces missing, twice there or in another order: a field of a record,
the records of a batch, what is compressed, the fields of a batch, the batches of a log, its bytes. Sizes
and checksums are made afterwards, most of the time, so that what lies behind them is reached.
"""

from __future__ import annotations

import random
import resource
import signal
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import pyarrow as pa

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.records import compiler
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.log_index import index_batches
from spark_kafkawire.records.message_set import decoding as message_set
from spark_kafkawire.records.record_log import COLUMNS, decode_batches
from tests.records.batches import APPEND_TIME, CONTROL, TRANSACTIONAL, batch, message, record, varint
from tests.records.batches import repaired as repaired_log
from tests.records.message_set.trees import message as message_07
from tests.records.mutations import _repaired as repaired_set
from tests.support.codecs import CODECS
from tests.support.kernels import interpreted_kernels

from .operation import Operation

#: Numbers that fields may hold instead of theirs.
_ODD: Final = (0, 1, -1, 2, -2, 3, 5, 7, 9, 49, 61, 127, 128, 255, 300, 65_535, 2**31 - 1, -(2**31))
_ODD_LONG: Final = (*_ODD, 2**63 - 1, 2**63 - 2, -(2**63), 2**40, -(2**40), 2**62)
#: Varints that no writer writes: too long, without an end, beyond their type.
_ODD_VARINTS: Final = (
    *(varint(value) for value in _ODD_LONG),
    *(b"\x80\x00", b"\x81\x80\x00", b"\xff" * 9 + b"\x01", b"\xff" * 10, b"\xff\xff\xff\xff\x1f"),
    *(b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x02", b"\x80" * 4, b"\x80", b""),
)
#: Every way to write what a codec's number means.
_COMPRESSORS: Final = {codec.number: (*codec.forms.values(), *codec.odd_forms) for codec in CODECS}
_KEYS: Final = (None, None, b"", b"k", b"key " * 6)
_VALUES: Final = (None, b"", b"v", b"value", b"long value " * 9, bytes(40))
_HEADERS: Final = ((), (), (), ((b"h", b"v"),), ((b"\xc3\xa4", None), (b"", b"")), ((b"\xff", b"x"),))
#: Records without damage, so that their compressed forms can be kept.
_COMMON: Final = tuple(record(i, _VALUES[i + 1], _KEYS[i], _HEADERS[i + 1], 3 * i) for i in range(4))
#: Where fields lie, by the codes of ``struct``: of a message of 0.7 with attributes; of a batch, those before
#: its checksum, the checksum included, and those that it covers.
Fields = Sequence[tuple[int, str]]
_FIELDS_07: Final[Fields] = ((0, "i"), (4, "b"), (5, "b"), (6, "i"))
_HEAD: Final[Fields] = ((0, "q"), (8, "i"), (16, "b"), (17, "i"))
_BODY: Final[Fields] = (
    *((21, "h"), (23, "i"), (27, "q"), (35, "q")),
    *((43, "q"), (51, "h"), (53, "i"), (57, "i")),
)


@dataclass(frozen=True, slots=True)
class Input:
    """Bytes to decode, and how. ``is_log`` tells a modern log from a message set of 0.7."""

    is_log: bool
    data: bytes
    start_offset: int
    stop_offset: int
    #: Columns that are asked for: all, or an index into smaller choices.
    choice: int
    #: Which limits decoding has.
    limits: int


def input_of(seed: int) -> Input:
    """The input of that seed, always the same."""
    chance = random.Random(seed)
    is_log = chance.random() < 0.6
    data = _log(chance) if is_log else _message_set(chance)
    return Input(
        is_log,
        data,
        chance.choice((0, 0, 0, 1, 2, 6)),
        chance.choice((2**63 - 1, 2**63 - 1, 2**63 - 1, 8)),
        chance.choice((0, 0, 0, 0, 1, 2)),
        chance.choice((0, 0, 0, 0, 1, 2)),
    )


# --- 0.7 ---


def _message_set(chance: random.Random) -> bytes:
    parts = [_set_message(chance, chance.choice((0, 1, 1, 2, 3))) for _ in range(chance.randrange(1, 5))]
    data = _damaged(chance, b"".join(_shuffled(chance, parts)), 0.3)
    data = repaired_set(bytearray(data)) if chance.random() < 0.7 else data
    return _cancelling(chance, data, 4, lambda buf, pos: pos + 5 + (buf[pos + 4] != 0))


def _set_message(chance: random.Random, depth: int) -> bytes:
    codec = chance.choice((0, 1, 2, 2)) if depth else 0
    if not codec:
        made = message_07(chance.choice(_VALUES) or b"", chance.choice((0, 0xF8)), chance.randrange(2))
    else:
        inner = [_set_message(chance, depth - 1) for _ in range(chance.randrange(4))]
        content = _damaged(chance, b"".join(_shuffled(chance, inner)), 0.15)
        content = repaired_set(bytearray(content)) if chance.random() < 0.5 else content
        made = message_07(_packed(chance, codec, content, False), codec | chance.choice((0, 0, 0xF8)))
    return _patched(chance, made, _FIELDS_07, 0.08)


def _cancelling(
    chance: random.Random, data: bytes, overhead: int, crc_pos: Callable[[bytearray, int], int]
) -> bytes:
    """The same; or with the same bit flipped in the checksums of the first two messages."""
    if chance.random() >= 0.03:
        return data
    buf, pos, bit = bytearray(data), 0, chance.randrange(32)
    for _ in range(2):
        if pos + overhead + 17 > len(buf):
            break
        crc = crc_pos(buf, pos)
        buf[crc + 3 - bit // 8] ^= 1 << bit % 8
        pos += overhead + int.from_bytes(buf[pos + overhead - 4 : pos + overhead], "big")
    return bytes(buf)


# --- 0.8 and later ---


def _log(chance: random.Random) -> bytes:
    parts, offset = [], chance.choice((0, 0, 0, 5, 2**31, 2**63 - 6))
    for _ in range(chance.choice((1, 1, 2, 3))):
        parts.append(_batch(chance, offset) if chance.random() < 0.65 else _legacy(chance, offset))
        offset = min(offset + 4, 2**63 - 2)
    data = _damaged(chance, b"".join(_shuffled(chance, parts)), 0.2)
    data = repaired_log(data) if chance.random() < 0.7 else data
    return _cancelling(chance, data, 12, lambda buf, pos: pos + (17 if buf[pos + 16] == 2 else 12))


def _batch(chance: random.Random, offset: int) -> bytes:
    """A batch of magic 2."""
    kind = chance.choice((0, 0, 0, 0, APPEND_TIME, TRANSACTIONAL, TRANSACTIONAL | CONTROL))
    codec = chance.choice((0, 0, *_COMPRESSORS))
    count = chance.randrange(1, 5)
    is_common = chance.random() < 0.5
    if kind & CONTROL:
        key = struct.pack(">hh", chance.choice((0, 0, 1)), chance.choice((0, 1, 2, -1)))
        content, count, codec = record(0, b"\0" * 6, key[: chance.choice((4, 4, 4, 3, 0))]), 1, 0
    elif is_common:
        content = b"".join(_COMMON[:count])
    else:
        content = b"".join(_shuffled(chance, [_record(chance, i) for i in range(count)]))
        content = _damaged(chance, content, 0.15)
    made = batch(
        [],
        offset,
        attributes=codec | kind,
        count=count,
        producer=(1 if kind & TRANSACTIONAL else -1, 0, 0),
        payload=_packed(chance, codec, content, is_common) if codec else content,
    )
    return _patched(chance, repaired_log(_patched(chance, made, _BODY, 0.25)), _HEAD, 0.08)


def _record(chance: random.Random, delta: int) -> bytes:
    """A record; sometimes with one of its numbers another one, or a size that it has not."""
    key, value, headers = chance.choice(_KEYS), chance.choice(_VALUES), chance.choice(_HEADERS)
    whole = record(delta, value, key, headers, chance.choice((0, 7, -9)))
    if chance.random() < 0.12:
        body = whole[1 if whole[0] < 0x80 else 2 :]
        pos = chance.randrange(min(len(body), 8))
        body = body[:pos] + chance.choice(_ODD_VARINTS) + body[pos + 1 :]
        whole = varint(len(body)) + body
    return whole if chance.random() < 0.95 else chance.choice(_ODD_VARINTS) + whole[1:]


def _legacy(chance: random.Random, offset: int) -> bytes:
    """Messages of magic 0 or 1, or one that holds some."""
    magic, codec = chance.randrange(2), chance.choice((0, 1, 2, 3))
    count = chance.randrange(1, 4)
    # With magic 1 inner offsets count from anywhere, with magic 0 they are absolute.
    first = chance.choice((0, offset)) if magic and codec else offset
    inner = [_message(chance, first + i, magic, 0, chance.choice(_VALUES)) for i in range(count)]
    inner = _shuffled(chance, inner)
    if not codec:
        return b"".join(inner)
    content = _damaged(chance, b"".join(inner), 0.15)
    content = repaired_log(content) if chance.random() < 0.6 else content
    attributes = codec | chance.choice((0, 0, APPEND_TIME))
    return _message(chance, offset + count - 1, magic, attributes, _packed(chance, codec, content, False))


def _message(chance: random.Random, offset: int, magic: int, attributes: int, value: bytes | None) -> bytes:
    key = chance.choice(_KEYS)
    made = message(min(offset, 2**63 - 1), value, key, magic=magic, attributes=attributes)
    pos = 26 if magic else 18
    sizes = (pos, "i"), (pos + 4 + len(key or b""), "i")
    made = _patched(chance, made, ((16, "b"), (17, "b"), (18, "q"), *sizes), 0.1)
    return _patched(chance, repaired_log(made), ((0, "q"), (8, "i")), 0.05)


# --- pieces of any kind ---


def _patched(chance: random.Random, data: bytes, fields: Fields, probability: float) -> bytes:
    """The same bytes; or with another number in one of these fields."""
    pos, code = chance.choice(fields)
    if chance.random() >= probability or pos + struct.calcsize(code) > len(data):
        return data
    buf, bits = bytearray(data), 8 * struct.calcsize(code)
    (value,) = struct.unpack_from(f">{code}", buf, pos)
    value = value + chance.randrange(-2, 3) if chance.random() < 0.3 else chance.choice(_ODD_LONG)
    struct.pack_into(f">{code}", buf, pos, (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))
    return bytes(buf)


def _shuffled(chance: random.Random, parts: list[bytes]) -> list[bytes]:
    """The same parts; or one of them missing, twice there, or at another place."""
    if not parts or chance.random() < 0.8:
        return parts
    place = chance.randrange(len(parts))
    match chance.randrange(3):
        case 0:
            return parts[:place] + parts[place + 1 :]
        case 1:
            return [*parts[: place + 1], *parts[chance.randrange(len(parts)) :]]
    return [*parts[place:], *parts[:place]]


def _damaged(chance: random.Random, data: bytes, probability: float) -> bytes:
    """The same bytes; or some flipped, set, removed, added, cut off or copied from elsewhere."""
    if chance.random() >= probability or not data:
        return data
    buf = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        pos = chance.randrange(len(buf) + 1)
        match chance.randrange(8):
            case 0 | 1 if pos < len(buf):
                buf[pos] ^= 1 << chance.randrange(8)
            case 2 | 3 if pos < len(buf):
                buf[pos] = chance.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFF))
            case 4:
                del buf[pos : pos + chance.randrange(1, 20)]
            case 5:
                start = chance.randrange(len(buf) + 1)
                buf[pos:pos] = buf[start : start + chance.randrange(30)]
            case 6:
                buf[pos : pos + 4] = (chance.choice(_ODD) & 0xFFFFFFFF).to_bytes(4, "big")
            case _:
                del buf[pos if chance.random() < 0.5 else len(buf) :]
    return bytes(buf)


def _packed_in(codec: int, style: int, content: bytes) -> bytes:
    return _COMPRESSORS[codec][style](content)


_packed_once: Final = cache(_packed_in)


def _packed(chance: random.Random, codec: int, content: bytes, is_common: bool) -> bytes:
    """The content compressed in one of the ways, perhaps damaged."""
    style = chance.randrange(len(_COMPRESSORS[codec]))
    pack = _packed_once if is_common else _packed_in
    return _damaged(chance, pack(codec, style, content), 0.08)


# --- The decoders' differential fuzz: compiled and interpreted kernels make the same of any bytes ---

#: Inputs that are decoded one way before they are the other way.
BLOCK: Final = 500
#: Address space of the process, bytes, most of which its libraries reserve and never touch.
MEMORY_BYTES_MAX: Final = 4 << 30
#: Processor time of a block, seconds: a hundred times what it takes.
CPU_S_MAX: Final = 60
#: What decoding may take: little, so that limits are reached.
LIMITS: Final = tuple(
    DecodeLimits(decompressed_bytes_max=most, depth_max=depth, batch_bytes_max=size)
    for most, depth, size in ((2**16, 3, 2**16), (2**16, 3, 300), (800, 2, 300))
)
#: Inputs of one seed; input ``i`` of seed ``s`` is drawn from their sum.
_SEED_INPUTS: Final = 1 << 40
#: Every so manyeth input's arrays are validated by Arrow, too.
_VALIDATED: Final = 8
#: Bytes of an input that a failure shows, and how many inputs it names.
_SHOWN_BYTES_MAX, _SHOWN_MAX = 4096, 5
_WANTED: Final = (COLUMNS, frozenset(("offset",)), frozenset(("value", "timestamp")))


@dataclass(frozen=True, slots=True)
class _Aborted:
    producer_id: int
    first_offset: int


_ABORTED: Final = ((), (_Aborted(1, 0),), (_Aborted(1, 3), _Aborted(1, 9)))


class Outcome(NamedTuple):
    """Result of an input: ``rows`` or an error's name, its line and offset, the columns' bytes."""

    kind: str
    line: str
    columns: tuple[bytes, ...]


@contextmanager
def opened(seed: int, _index: int) -> Iterator[Operation]:
    """Operations in a process that is theirs alone.

    A timer, not ``RLIMIT_CPU``, ends it where a block takes too long, also inside compiled code: that one
    counts by the tick since the process began, and ``getrusage`` does not, so that after half an hour beside
    other work they were a minute apart.
    """
    pa.set_memory_pool(pa.system_memory_pool())
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))

    def limited(number: int) -> Counter[str]:
        signal.setitimer(signal.ITIMER_PROF, CPU_S_MAX)
        return operation(seed, number)

    yield limited


def operation(seed: int, number: int) -> Counter[str]:
    """Decode a block of inputs both ways. Raises ``AssertionError`` that names those which differ."""
    assert compiler.load(), "numba is missing"
    inputs = [input_of(seed * _SEED_INPUTS + number * BLOCK + place) for place in range(BLOCK)]
    compiled = [_guarded(each, place) for place, each in enumerate(inputs)]
    with interpreted_kernels():
        interpreted = [_guarded(each, place) for place, each in enumerate(inputs)]
    wrong = [
        f"input {place}: {_reported(fast, plain)}: {inputs[place].data[:_SHOWN_BYTES_MAX].hex()}"
        for place, (fast, plain) in enumerate(zip(compiled, interpreted, strict=True))
        if fast != plain or "\n" in fast.line or fast.kind.startswith("crash")
    ]
    assert not wrong, "\n".join(wrong[:_SHOWN_MAX])
    return Counter(each.kind for each in compiled)


def _guarded(given: Input, place: int) -> Outcome:
    found: list[bytes] = []
    try:
        line = (_decoders_log if given.is_log else _decoders_message_set)(
            given, found, place % _VALIDATED == 0
        )
    except KafkaWireError as error:
        return Outcome(type(error).__name__, f"{error} ({getattr(error, 'offset', None)})", tuple(found))
    except Exception as error:
        # Any error is reported with this input; the other inputs follow.
        return Outcome(f"crash: {type(error).__name__}", repr(error), ())
    return Outcome("rows", line, tuple(found))


def _decoders_log(given: Input, found: list[bytes], validate: bool) -> str:
    for columns in decode_batches(
        index_batches(given.data),
        given.start_offset,
        given.stop_offset,
        wanted=_WANTED[given.choice],
        aborted=_ABORTED[given.choice],
        limits=LIMITS[given.limits],
    ):
        _add(columns, found, validate)
    return ""


def _decoders_message_set(given: Input, found: list[bytes], validate: bool) -> str:
    pos, cut, view = 0, False, memoryview(given.data)
    while not cut:
        decoded = message_set.decode(view[pos:], pos, LIMITS[given.limits], values=given.choice != 1)
        assert decoded.size or decoded.cut, "decode neither advances nor ends"
        _add(decoded.columns, found, validate)
        pos, cut = pos + decoded.size, decoded.cut
    return f"{pos} bytes"


def _add(columns: Columns, found: list[bytes], validate: bool) -> None:
    """The bytes of all columns: what two decodings must have in common."""
    numbers = (columns.index, columns.next_offset, columns.timestamps_ms, columns.timestamp_types)
    found.append(columns.offset.tobytes())
    found += (b"-" if column is None else column.tobytes() for column in numbers)
    for array in (columns.values, columns.keys, columns.headers):
        if array is None:
            found.append(b"-")
            continue
        if validate:
            array.validate(full=True)
            assert len(array) == columns.count
        found += (b"-" if buffer is None else buffer.to_pybytes() for buffer in array.buffers())


def _reported(fast: Outcome, plain: Outcome) -> str:
    if fast[:2] == plain[:2]:
        return f"{fast.kind}, {fast.line!r}, with other columns compiled than interpreted"
    return f"compiled {fast.kind} {fast.line!r}, interpreted {plain.kind} {plain.line!r}"
