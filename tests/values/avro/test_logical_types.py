"""Each logical type written, each one read: the value means the same on both sides, or there is none.

What a value means is computed here by exact arithmetic. Apache Avro's classes are no judge of these pairs:
they take the number as it is, so that milliseconds are read as microseconds. fastavro gives the value of the
writer's logical type, whatever the reader's is, and judges the pairs that convert.
"""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product
from typing import Any, Final

import pyarrow as pa
import pytest

from spark_kafkawire.values.avro.decoding import Decoder
from spark_kafkawire.values.avro.defaults import encoded_bytes, encoded_integer
from spark_kafkawire.values.avro.schema import parse
from spark_kafkawire.values.faults import Decoded, Fault
from spark_kafkawire.values.payloads import payloads_of
from tests.values.avro.judge import Judge

#: Logical types of numbers: their type, what they count, and the seconds that one is.
TIMES: Final = {
    "date": ("int", "day", Fraction(86_400)),
    "time-millis": ("int", "time of the day", Fraction(1, 10**3)),
    "time-micros": ("long", "time of the day", Fraction(1, 10**6)),
    "timestamp-millis": ("long", "moment", Fraction(1, 10**3)),
    "timestamp-micros": ("long", "moment", Fraction(1, 10**6)),
    "timestamp-nanos": ("long", "moment", Fraction(1, 10**9)),
    "local-timestamp-millis": ("long", "local time", Fraction(1, 10**3)),
    "local-timestamp-micros": ("long", "local time", Fraction(1, 10**6)),
    "local-timestamp-nanos": ("long", "local time", Fraction(1, 10**9)),
}
#: Logical types of bytes; those of fixed have one name for each size, so that only the logical type differs.
BYTES: Final[dict[str, Any]] = {
    "decimal": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2},
    "decimal of another scale": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3},
    "uuid": {"type": "string", "logicalType": "uuid"},
    "fixed decimal": {
        "type": "fixed", "name": "F16", "size": 16, "logicalType": "decimal", "precision": 30, "scale": 0,
    },
    "fixed uuid": {"type": "fixed", "name": "F16", "size": 16, "logicalType": "uuid"},
    "duration": {"type": "fixed", "name": "F12", "size": 12, "logicalType": "duration"},
    "short fixed decimal": {
        "type": "fixed", "name": "F12", "size": 12, "logicalType": "decimal", "precision": 20, "scale": 0,
    },
}  # fmt: skip
#: All pairs of two logical types that have a value. All others are refused.
CONVERTED: Final = {
    *((each, each) for each in (*TIMES, *BYTES)),
    ("time-millis", "time-micros"),
    *(
        (f"{kind}-{written}", f"{kind}-{read}")
        for kind in ("timestamp", "local-timestamp")
        for written, read in (
            ("millis", "micros"), ("micros", "millis"), ("millis", "nanos"), ("micros", "nanos"),
        )
    ),
}  # fmt: skip
_BITS: Final = {"int": 31, "long": 63}
#: Where a value may be: the schemas of both sides, and the message, around it.
PLACES: Final[dict[str, Any]] = {
    "bare": (lambda of: of, lambda of: of, b"", b""),
    "field": (
        lambda of: {"type": "record", "name": "R", "fields": [{"name": "x", "type": of}]},
        lambda of: {"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", of]}]},
        b"",
        b"",
    ),
    "branch": (lambda of: ["null", of], lambda of: ["null", of], b"\x02", b""),
    "item": (
        lambda of: {"type": "array", "items": of},
        lambda of: {"type": "array", "items": of},
        b"\x02",
        b"\0",
    ),
}


def schema_of(name: str) -> Any:
    return {"type": TIMES[name][0], "logicalType": name} if name in TIMES else BYTES.get(name, name)


def decoded(writer: Any, reader: Any, contents: list[bytes], place: str = "bare") -> Decoded:
    """The values, without what is around them."""
    written, read, before, after = PLACES[place]
    decoder = Decoder(parse(json.dumps(written(writer))), parse(json.dumps(read(reader))))
    messages = pa.array([before + each + after for each in contents], pa.binary())
    result = decoder.decode(payloads_of(messages))
    result.column.validate(full=True)
    return result


def numbers(column: pa.Array) -> list[int | None]:
    """The integers of a column, also of a field or of the only items of lists."""
    if pa.types.is_struct(column.type):
        column = column.field(0)
    if pa.types.is_list(column.type):
        lists = column.cast(pa.list_(_plain(column.type.value_type))).to_pylist()
        return [None if each is None else each[0] for each in lists]
    found: list[int | None] = column.cast(_plain(column.type)).to_pylist()
    return found


def _plain(of: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date(of) else of if pa.types.is_integer(of) else pa.int64()


def second_of_column(read: str) -> Fraction:
    """The seconds that one is in the column of a logical type: timestamps are microseconds in Spark."""
    return Fraction(1, 10**6) if read.endswith("timestamp-millis") else TIMES[read][2]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("written", "read"), list(product(TIMES, repeat=2)))
def test_a_time_is_the_same_one_in_each_unit_or_is_refused(written: str, read: str, place: str) -> None:
    kind, what, second = TIMES[written]
    most = 2 ** _BITS[kind]
    edges = [most // factor + more for factor in (1, 10**3, 10**6) for more in (-1, 0, 1)]
    given = sorted({0, 1, -1, 7, 86_399_999, *(sign * each for each in edges for sign in (1, -1))})
    given = [each for each in given if -most <= each < most]
    result = decoded(schema_of(written), schema_of(read), [encoded_integer(each) for each in given], place)
    if (written, read) not in CONVERTED:
        # A union has no branch for a long where an int is read.
        assert set(result.faults.tolist()) in ({Fault.UNRESOLVABLE_SCHEMA}, {Fault.BAD_UNION_BRANCH})
        return
    assert what == TIMES[read][1]
    for number, fault, found in zip(given, result.faults.tolist(), numbers(result.column), strict=True):
        expected = number * second / second_of_column(read)
        if abs(expected) < 2**63:  # the least number is its own, and is refused where it is multiplied
            assert (fault, found) == (0, expected), number
        elif found is not None:
            assert found == expected == -(2**63)
        else:
            assert fault == Fault.NOT_REPRESENTABLE


@pytest.mark.parametrize(
    ("written", "read"),
    sorted(pair for pair in CONVERTED if pair[0] in TIMES and "nanos" not in "".join(pair)),
)
def test_times_that_convert_are_those_of_fastavro(written: str, read: str) -> None:
    judge = Judge(schema_of(written), schema_of(read))
    most = 10_000 if written == "date" else 86_399_999
    messages = [encoded_integer(each) for each in (0, 1, 7, 999, 1000, most)]
    assert judge.decoded(messages).column.to_pylist() == [judge.read(each) for each in messages]


@pytest.mark.parametrize(("written", "read"), list(product(BYTES, repeat=2)))
def test_bytes_of_one_logical_type_are_never_those_of_another(written: str, read: str) -> None:
    writer, reader = schema_of(written), schema_of(read)
    content = b"\x01\x02" if writer["type"] != "fixed" else bytes(writer["size"] - 2) + b"\x01\x02"
    message = content if writer["type"] == "fixed" else encoded_bytes(content)
    result = decoded(writer, reader, [message])
    if (written, read) in CONVERTED:
        assert result.faults.tolist() == [0]
        assert result.column.equals(decoded(writer, writer, [message]).column)
    else:
        assert result.faults.tolist() == [Fault.UNRESOLVABLE_SCHEMA]


@pytest.mark.parametrize(("number", "of_bytes"), list(product(TIMES, BYTES)))
def test_numbers_and_bytes_do_not_resolve(number: str, of_bytes: str) -> None:
    content = bytes(BYTES[of_bytes].get("size", 1))
    for writer, reader, message in ((number, of_bytes, b"\0"), (of_bytes, number, content)):
        found = decoded(schema_of(writer), schema_of(reader), [message])
        assert found.faults.tolist() == [Fault.UNRESOLVABLE_SCHEMA]


@pytest.mark.parametrize("logical", TIMES)
@pytest.mark.parametrize("plain", ["int", "long", "float", "double"])
def test_a_side_without_a_logical_type_has_the_number_of_the_other(logical: str, plain: str) -> None:
    of, message, kind = schema_of(logical), encoded_integer(-7), TIMES[logical][0]
    read = decoded(of, plain, [message])
    if plain == "int" and kind == "long":
        assert read.faults.tolist() == [Fault.UNRESOLVABLE_SCHEMA]
    else:
        assert read.column.to_pylist() == [-7]
    if plain in ("int", kind):
        written = decoded(plain, of, [message])
        assert numbers(written.column) == [-7 * TIMES[logical][2] / second_of_column(logical)]
