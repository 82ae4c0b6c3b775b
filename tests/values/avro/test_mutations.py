"""Damaged messages: each is a value or a fault, and a value is that of fastavro.

KAFKAWIRE_AVRO_MUTATIONS=5000000 python -m pytest -s -o faulthandler_timeout=0 \\
  tests/values/avro/test_mutations.py
"""

from __future__ import annotations

import os
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_kafkawire.records import compiler
from spark_kafkawire.values.avro import decoding
from spark_kafkawire.values.avro.kernels import SPARE_STEPS
from spark_kafkawire.values.faults import Fault
from tests.values.avro.drawn import Values, readers, schemas
from tests.values.avro.judge import Judge, ordered

MUTATIONS: Final = int(os.environ.get("KAFKAWIRE_AVRO_MUTATIONS", "6000"))
IS_LONG: Final = MUTATIONS >= 100_000
#: Damaged messages of one pair of schemas, and those of them that have a value and that fastavro reads, too.
ROWS, JUDGED = (2000, 40) if IS_LONG else (60, 10)
seen: dict[str, int] = {}


@pytest.mark.timeout(24 * 3600)
def test_a_damaged_message_is_a_value_or_a_fault() -> None:
    if IS_LONG:
        compiler.load()
    _a_damaged_message_is_a_value_or_a_fault()
    total = sum(seen.values()) - seen["judged"]
    assert total >= MUTATIONS * 9 // 10
    assert min(seen["NONE"], seen["TRUNCATED"], seen["judged"]) > total / 200
    print(f"{total} messages: {dict(sorted(seen.items()))}")


@settings(max_examples=MUTATIONS // ROWS, suppress_health_check=list(HealthCheck), database=None)
@given(st.data(), st.integers(0, 2**32))
def _a_damaged_message_is_a_value_or_a_fault(data: st.DataObject, seed: int) -> None:
    writer = data.draw(schemas(), "writer")
    judge, random = Judge(writer, data.draw(readers(writer), "reader")), Random(seed)
    values = Values(writer, random)
    whole = [judge.written(values.next()) for _ in range(20)]
    messages = [damaged(random.choice(whole), random) for _ in range(ROWS)]
    result = judge.decoded([*messages, whole[0]])
    # Neighbours are left alone.
    assert ordered(result.column[-1:].to_pylist()) == ordered(judge.decoded(whole[:1]).column.to_pylist())
    steps = judge.decoder.program.cost * (len(messages) + 1 + sum(map(len, [*messages, whole[0]])))
    assert result.column.nbytes <= 16 * (steps + 512 * ROWS + SPARE_STEPS)
    for fault, path in zip(result.faults.tolist(), result.fields.tolist(), strict=True):
        seen[Fault(fault).name] = seen.get(Fault(fault).name, 0) + 1
        assert -1 <= path < len(result.paths)
    good = [row for row in range(ROWS) if result.faults[row] == 0]
    for row in random.sample(good, min(JUDGED, len(good))):
        _agrees(judge, messages[row], result.column[row])


def test_compiled_kernels_find_the_same_values_and_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiler.load():
        pytest.skip("numba is switched off")

    @settings(max_examples=60, suppress_health_check=list(HealthCheck), database=None)
    @given(schemas(), st.integers(0, 2**32))
    def they_do(writer: Any, seed: int) -> None:
        random = Random(seed)
        judge, values = Judge(writer), Values(writer, random)
        messages = [damaged(judge.written(values.next()), random) for _ in range(50)]
        result = judge.decoded(messages)
        with monkeypatch.context() as patched:
            for name in ("decode_each", "gather", "gather_decimals"):
                patched.setattr(decoding, name, getattr(decoding, name).interpreted)
            interpreted = judge.decoded(messages)
        assert interpreted.faults.tolist() == result.faults.tolist()
        assert interpreted.fields.tolist() == result.fields.tolist()
        # NaNs are not equal, their bytes are.
        assert _bytes_of(interpreted.column) == _bytes_of(result.column)

    they_do()


def _bytes_of(column: pa.Array) -> bytes:
    content: bytes = pa.RecordBatch.from_arrays([column], ["c"]).serialize().to_pybytes()
    return content


def _agrees(judge: Judge, message: bytes, value: pa.Scalar) -> None:
    if any(each in str(judge.writer) for each in ("'time-", "'uuid'")):
        return  # the judge takes times modulo a day, and writes a UUID in its own way
    try:
        expected, ours = judge.read(message), value.as_py()
    except (ValueError, OverflowError, ArithmeticError, LookupError, EOFError, TypeError):
        return  # a date beyond Python's, and the like
    assert ordered(ours) == ordered(expected)
    seen["judged"] = seen.get("judged", 0) + 1


def damaged(message: bytes, random: Random) -> bytes:
    """The message with some bytes changed, removed, repeated or cut off."""
    content = bytearray(message or b"\0")
    for _ in range(random.choice((1, 1, 2, 5))):
        how, place = random.randrange(6), random.randrange(len(content) or 1)
        if how == 0:
            del content[place:]
        elif how == 1:
            del content[place : place + 1]
        elif how == 2:
            content[place:place] = content[: random.randrange(12)]
        elif how == 3:
            content[place:place] = random.choice((b"\xff", b"\x80", b"\0", b"\xfe\xff\xff\xff\x0f", b"\x01"))
        elif content:
            content[place] = random.randrange(256) if how == 4 else content[place] ^ 1 << random.randrange(8)
    return bytes(content)
