"""Damaged messages of every format: each is a value or a fault, spoils no other, and has the judge's value.

    KAFKAWIRE_MUTATIONS=5000000 python -m pytest -n 0 -s -o faulthandler_timeout=0 -m nightly \\
      tests/values/test_mutations.py -k json

They are made in bulk: millions of them with a few calls of numpy.

    [ head of a message | other bytes, or none | tail of a message ]   and then some bytes changed

That is every way in which a message is damaged: cut, without a part, with a part twice, with a part of
another message or of none, with other bits and bytes. Two turns of it make messages that are damaged twice.
"""

from __future__ import annotations

import os
import resource
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from fastavro.read import SchemaResolutionError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_kafkawire.records import compiler
from spark_kafkawire.values.avro.kernels import SPARE_STEPS
from spark_kafkawire.values.formats import Decoder
from spark_kafkawire.values.json.decoding import Decoder as JsonDecoder
from spark_kafkawire.values.payloads import Decoded, Fault, Payloads, payloads_of
from spark_kafkawire.values.protobuf.decoding import Decoder as ProtobufDecoder
from spark_kafkawire.values.protobuf.schema import parse as parse_protobuf
from tests.support.kernels import interpreted_kernels
from tests.support.short_and_long import short_and_long

from .avro import drawn as avro
from .avro.judge import Judge as AvroJudge
from .avro.judge import ordered
from .json import judge as json_judge
from .protobuf.drawn import DrawnSchema, assert_message_judged, drawn_messages
from .protobuf.protoc import compiled, message_class

Int64s = npt.NDArray[np.int64]
#: Bytes that matter to some format: ends and signs of varints, sizes, tags, brackets, escapes.
_SHARP: Final = np.frombuffer(
    b"\x00\x01\x02\x03\x04\x7f\x80\xff\xfe\x0b\x0c\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    b"\xf4\xff\xff\xff\x0f\x80\x80\x80\x80\x08\xc0\x80\xed\xa0\x80\xf0\x9f\xf4\x90"
    b'{}[]":,\\u00e9\\ud800\\"-.0123456789eE+ \t\nnulltruefalseNaNInfinity"a":1,"a":2',
    np.uint8,
)
#: The most other bytes that come between head and tail.
_INSERTED_MAX: Final = 24


def mutated(messages: list[bytes], count: int, random: np.random.Generator) -> Payloads:
    """Damage messages, ``count`` times a drawn one. A fifth is damaged twice."""
    once = _spliced(payloads_of(pa.array(messages, pa.binary())), count, random)
    return _flipped(_spliced(once, count, random, share=0.2), random)


def message(payloads: Payloads, row: int) -> bytes:
    """The bytes of a message."""
    return payloads.data[payloads.starts[row] : payloads.stops[row]].tobytes()


def _spliced(payloads: Payloads, count: int, random: np.random.Generator, share: float = 0.7) -> Payloads:
    """Drawn messages, a share of which has other bytes in the place of a part."""
    fresh = len(payloads) != count
    rows = random.integers(0, len(payloads), count) if fresh else np.arange(count)
    starts, sizes = payloads.starts[rows], (payloads.stops - payloads.starts)[rows]
    heads, tails = sizes.copy(), sizes.copy()
    how = np.where(random.random(count) < share, random.integers(0, 6, count), 6)
    location = _below(sizes + 1, random)
    changed = how < 6
    heads[changed] = location[changed]
    # 0: cut; 1, 2: a part is missing, or other bytes are in its place; 3, 4, 5: other bytes in between
    tails = np.where((how > 2) & changed, heads, tails)
    missing = (how == 1) | (how == 2)
    tails[missing] = np.minimum(heads + random.integers(1, 5, count), sizes)[missing]
    content = np.concatenate([payloads.data, _SHARP, random.integers(0, 256, 256).astype(np.uint8)])
    inserted = np.where((how > 1) & changed, _INSERTED_MAX * random.random(count) ** 3, 0).astype(np.int64)
    others = _below(len(content) - inserted + 1, random)
    sharp = len(payloads.data) + _below(np.maximum(len(_SHARP) - inserted, 0) + 1, random)
    others = np.where(random.random(count) < 0.5, sharp, others)
    own = np.minimum(starts + _below(sizes + 1, random), len(content) - inserted)
    others = np.where(how == 3, own, others)
    return _joined(
        content,
        np.stack([starts, others, starts + tails], axis=1),
        np.stack([heads, inserted, sizes - tails], axis=1),
    )


def _flipped(payloads: Payloads, random: np.random.Generator) -> Payloads:
    """Messages with up to four bytes changed; half of them with none."""
    data, sizes = payloads.data.copy(), payloads.stops - payloads.starts
    many = np.array([0, 0, 0, 1, 1, 4])[random.integers(0, 6, len(payloads))]
    rows = np.repeat(np.arange(len(payloads)), np.where(sizes > 0, many, 0))
    places = payloads.starts[rows] + _below(sizes[rows], random)
    bits = (1 << random.integers(0, 8, len(rows))).astype(np.uint8)
    flips = random.random(len(rows)) < 0.5
    data[places] = np.where(flips, data[places] ^ bits, _SHARP[random.integers(0, len(_SHARP), len(rows))])
    data.setflags(write=False)
    return Payloads(data, payloads.starts, payloads.stops)


def with_rows(payloads: Payloads, messages: list[bytes], rows: Int64s) -> Payloads:
    """The messages with others in the place of some rows."""
    more = payloads_of(pa.array(messages, pa.binary()))
    starts, stops = payloads.starts.copy(), payloads.stops.copy()
    starts[rows] = more.starts + len(payloads.data)
    stops[rows] = more.stops + len(payloads.data)
    data = np.concatenate([payloads.data, more.data])
    data.setflags(write=False)
    return Payloads(data, starts, stops)


def _joined(content: Any, starts: Int64s, sizes: Int64s) -> Payloads:
    """Messages of three parts each, one after the other in a buffer of their own."""
    flat = sizes.ravel()
    bounds = np.zeros(len(flat) + 1, np.int64)
    np.cumsum(flat, out=bounds[1:])
    places = np.arange(bounds[-1]) + np.repeat(starts.ravel() - bounds[:-1], flat)
    data = content[places]
    return Payloads(data, bounds[:-1:3].copy(), bounds[3::3].copy())


def _below(limits: Int64s, random: np.random.Generator) -> Int64s:
    """A number from 0 to below each limit."""
    numbers: Int64s = (random.random(len(limits)) * limits).astype(np.int64)
    return numbers


# --- Damaged messages of every format, beside a judge ---

#: Damaged messages of each format in a run of an hour.
LONG: Final = int(os.environ.get("KAFKAWIRE_MUTATIONS", "200000"))
#: Memory that a run may take beyond what it took after its first columns, bytes.
MEMORY_MAX: Final = 1 << 30
#: Undamaged messages between the damaged ones.
HONEST: Final = 20
_KINDS: Final = {item.value for item in Fault}


@dataclass
class Subject:
    """A decoder, messages that it decodes, and their judge.

    ``judge`` compares the value and the fault of a message with what another implementation makes of it.
    ``slots_max`` bounds the memory of a column by the count and the bytes of its messages.
    """

    decoder: Decoder
    messages: list[bytes]
    judge: Callable[[bytes, Fault, pa.Scalar], bool]
    slots_max: Callable[[int, int], int] | None = None
    seen: Counter[str] = field(default_factory=Counter)

    def decode(self, payloads: Payloads) -> Decoded:
        """The messages; whatever they are, the result is sound."""
        result = self.decoder.decode(payloads)
        result.column.validate(full=True)
        assert len(result.column) == len(result.faults) == len(result.fields) == len(payloads)
        assert set(np.unique(result.faults).tolist()) <= _KINDS
        assert not ((result.faults != 0) & np.asarray(result.column.is_valid())).any()
        assert ((result.fields >= -1) & (result.fields < len(result.paths))).all()
        if self.slots_max is not None:
            assert result.column.nbytes <= 16 * self.slots_max(len(payloads), len(payloads.data))
        return result

    def check(self, rows: int, judged: int, seed: int) -> None:
        """Decode damaged messages, and judge some of them."""
        random = np.random.default_rng(seed)
        honest = [self.messages[k] for k in random.integers(0, len(self.messages), HONEST)]
        between = random.choice(rows, HONEST, replace=False)
        payloads = with_rows(mutated(self.messages, rows, random), honest, between)
        result = self.decode(payloads)
        alone = self.decode(payloads_of(pa.array(honest, pa.binary())))
        assert result.faults[between].tolist() == alone.faults.tolist()
        for row, other in zip(between.tolist(), alone.column, strict=True):
            assert ordered(_plain(result.column[row])) == ordered(_plain(other))
        for row in random.choice(rows, judged, replace=False).tolist():
            fault = Fault(int(result.faults[row]))
            self.seen["judged"] += self.judge(message(payloads, row), fault, result.column[row])
        for number, count in zip(*np.unique(result.faults, return_counts=True), strict=True):
            self.seen[Fault(number).name] += int(count)
        self.seen["messages"] += rows


def _avro(data: st.DataObject, seed: int) -> Subject:
    writer = data.draw(avro.schemas(), "writer")
    judge = AvroJudge(writer, data.draw(avro.readers(writer), "reader"))
    values = avro.Values(writer, Random(seed))
    # The judge takes times modulo a day, writes a UUID in its own way, and rounds a long to a double first.
    is_rounded = "long" in str(judge.writer) and "float" in str(judge.reader)
    is_judged = not is_rounded and not any(item in str(judge.writer) for item in ("'time-", "'uuid'"))

    def agrees(content: bytes, fault: Fault, value: pa.Scalar) -> bool:
        if fault or not is_judged:
            return False
        try:
            expected, ours = judge.read(content), value.as_py()
        except (ValueError, OverflowError, ArithmeticError, LookupError, EOFError, TypeError):
            return False  # a date beyond Python's, and the like
        except SchemaResolutionError:
            # The judge reads a record inside itself down to the end, also where no column has it.
            assert "'again'" in str(judge.writer), content
            return False
        if ordered(ours) != ordered(expected):
            # Who skips a block may believe its size, and fastavro loses its way among nested ones.
            honest = judge.written_again(content)
            assert honest != content
            assert ordered(judge.decode([honest]).column[0].as_py()) == ordered(judge.read(honest)), content
            return False
        return True

    def slots_max(rows: int, size: int) -> int:
        return int(judge.decoder.program.cost * (rows + size) + 512 * rows + SPARE_STEPS)

    messages = [judge.written(values.next()) for _ in range(20)]
    return Subject(judge.decoder, messages, agrees, slots_max)


def _json(data: st.DataObject, seed: int) -> Subject:
    of = data.draw(json_judge.TYPES, "type")
    is_judged = data.draw(st.sampled_from([True, True, False]), "all fields may be null")
    texts = data.draw(st.lists(json_judge.texts_of(of), min_size=5, max_size=12), "texts")

    def agrees(content: bytes, fault: Fault, value: pa.Scalar) -> bool:
        if not is_judged:
            return False
        try:
            expected, may_be_bad = json_judge.judged(content, of)
        except json_judge.BadValue:
            assert fault != Fault.NONE, content
            return True
        if fault != Fault.NONE:
            assert may_be_bad or fault in (Fault.TOO_DEEP, Fault.TOO_LARGE), (content, fault)
            return False
        assert json_judge.same(expected, json_judge.plain(value)), content
        return True

    decoder = JsonDecoder(None, None, of if is_judged else _with_required(of, Random(seed)))
    return Subject(decoder, [text.encode("utf-8", "surrogatepass") for text in texts], agrees)


def _with_required(of: pa.DataType, random: Random) -> pa.DataType:
    """The type with some fields that may not be null."""

    def of_field(name: str, kind: pa.DataType) -> pa.Field:
        return pa.field(name, _with_required(kind, random), pa.types.is_null(kind) or random.random() < 0.5)

    if pa.types.is_struct(of):
        return pa.struct([of_field(item.name, item.type) for item in of])
    if pa.types.is_map(of):
        return pa.map_(of.key_type, of_field("value", of.item_type))
    return pa.list_(of_field("item", of.value_type)) if pa.types.is_list(of) else of


def _protobuf(data: st.DataObject, seed: int) -> Subject:
    is_judged = data.draw(st.booleans(), "without maps and recursion")
    drawn = DrawnSchema(seed, plain=is_judged)
    schema = parse_protobuf(drawn.text)
    judge = message_class(compiled(drawn.text), drawn.name)

    def agrees(content: bytes, fault: Fault, value: pa.Scalar) -> bool:
        if is_judged:
            assert_message_judged(judge, content, fault, value)
        return is_judged

    return Subject(ProtobufDecoder(schema), drawn_messages(judge, Random(seed), 20), agrees)


FORMATS: Final[dict[str, Callable[[st.DataObject, int], Subject]]] = {
    "avro": _avro,
    "json": _json,
    "protobuf": _protobuf,
}
#: Faults that damage has in any format.
COMMON: Final = {
    "avro": {"NONE", "TRUNCATED", "TRAILING_BYTES", "BAD_LENGTH"},
    "json": {"NONE", "TRAILING_BYTES", "BAD_JSON", "BAD_UTF8", "WRONG_TYPE", "NOT_REPRESENTABLE"},
    "protobuf": {"NONE", "TRUNCATED", "BAD_WIRE_TYPE", "BAD_LENGTH", "BAD_UTF8"},
}


@pytest.mark.timeout(24 * 3600)
@pytest.mark.parametrize("name", FORMATS)
@short_and_long("count, rows", short=(8_000, 400), long=(LONG, 10_000))
def test_a_damaged_message_is_a_value_or_a_fault(name: str, count: int, rows: int) -> None:
    compiler.load()
    seen: Counter[str] = Counter()
    memory: list[int] = []

    @settings(max_examples=count // rows, suppress_health_check=list(HealthCheck), database=None)
    @given(st.data(), st.integers(0, 2**32))
    def each_is(data: st.DataObject, seed: int) -> None:
        subject = FORMATS[name](data, seed)
        subject.check(rows, min(rows // 2, 100), seed)
        seen.update(subject.seen)
        memory.append(_memory())

    each_is()
    print(f"\n{name}: {dict(sorted(seen.items()))}, {memory[0] >> 20} to {memory[-1] >> 20} MiB")
    assert seen["messages"] >= count * 9 // 10
    assert set(seen) >= COMMON[name]
    assert seen["judged"] > seen["messages"] // rows
    assert memory[-1] - memory[0] < MEMORY_MAX


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_compiled_and_interpreted_kernels_find_the_same(name: str) -> None:
    if not compiler.load():
        pytest.skip("numba is switched off")

    # Interpreted, kernels check each place of their arrays.
    @settings(max_examples=30, suppress_health_check=list(HealthCheck), database=None)
    @given(st.data(), st.integers(0, 2**32))
    def they_do(data: st.DataObject, seed: int) -> None:
        subject = FORMATS[name](data, seed)
        payloads = mutated(subject.messages, 60, np.random.default_rng(seed))
        result = subject.decode(payloads)
        with interpreted_kernels():
            interpreted = subject.decode(payloads)
        assert interpreted.faults.tolist() == result.faults.tolist()
        assert interpreted.fields.tolist() == result.fields.tolist()
        # Places of nulls have any bytes.
        assert all(map(json_judge.same, map(_plain, interpreted.column), map(_plain, result.column)))

    they_do()


def _plain(value: pa.Scalar) -> Any:
    return json_judge.plain(value)


def _memory() -> int:
    """The most memory that this process has taken, bytes."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024
