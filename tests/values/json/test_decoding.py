"""Decoded JSON: equal to that of Python's json; bad messages are faults, and spoil no other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafkawire.errors import OptionError
from spark_kafkawire.records import compiler
from spark_kafkawire.values.json import kernels
from spark_kafkawire.values.json.decoding import Decoder
from spark_kafkawire.values.json.schema import parse
from spark_kafkawire.values.payloads import Decoded, Fault, payloads_of
from tests.support.cases import for_each
from tests.support.kernels import interpreted_kernels
from tests.support.short_and_long import short_and_long
from tests.values.faults import field_of
from tests.values.json.judge import TYPES, BadValue, judged, plain, same, texts_of


def decoded(of: pa.DataType, messages: Sequence[bytes | None]) -> Decoded:
    result = Decoder(None, None, of).decode(payloads_of(pa.array(messages, pa.binary())))
    result.column.validate(full=True)
    assert result.column.type == of
    assert len(result.column) == len(messages)
    return result


def compare(of: pa.DataType, messages: Sequence[bytes]) -> None:
    """Compare values with the judge's, and faults with its refusals."""
    result = decoded(of, messages)
    for row, message in enumerate(messages):
        value, fault = plain(result.column[row]), Fault(int(result.faults[row]))
        try:
            expected, may_be_bad = judged(message, of)
        except BadValue:
            assert fault != Fault.NONE, (message, value)
            assert value is None
        else:
            if fault != Fault.NONE and may_be_bad:
                continue
            assert fault == Fault.NONE, (message, expected)
            assert same(expected, value), (message, expected, value)


@pytest.fixture(params=["compiled", "interpreted"])
def each_way(request: pytest.FixtureRequest) -> Any:
    if request.param == "interpreted":
        with interpreted_kernels():
            yield
    elif compiler.load():
        yield
    else:
        pytest.skip("numba is switched off")


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("each_way")
@short_and_long("count", short=40, long=1_000)
def test_values_are_those_of_pythons_json(count: int) -> None:
    @settings(max_examples=count, deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        of = data.draw(TYPES)
        texts = data.draw(st.lists(texts_of(of), min_size=1, max_size=4))
        compare(of, [text.encode("utf-8", "surrogatepass") for text in texts])

    check()


@for_each(
    ("of", "message", "fault", "path"),
    [
        (pa.int64(), b"", Fault.BAD_JSON, None),
        (pa.int64(), b"1 2", Fault.TRAILING_BYTES, None),
        (pa.int64(), b"\xef\xbb\xbf1", Fault.BAD_JSON, None),
        (pa.struct({"a": pa.string()}), b'{"a":"\xff"}', Fault.BAD_UTF8, None),
        (pa.struct({"a": pa.string()}), b'{"a":"\\ud800"}', Fault.BAD_UTF8, "a"),
        (pa.struct({"a": pa.struct({"b": pa.int8()})}), b'{"a":{"b":200}}', Fault.NOT_REPRESENTABLE, "a.b"),
        (pa.struct({"a": pa.list_(pa.bool_())}), b'{"a":[true,0]}', Fault.WRONG_TYPE, "a"),
        (pa.struct({"a": pa.float64()}), b'{"a":1e400}', Fault.NOT_REPRESENTABLE, "a"),
        (pa.struct({"a": pa.date32()}), b'{"a":"2023-02-29"}', Fault.NOT_REPRESENTABLE, "a"),
        (pa.struct({"a": pa.timestamp("us")}), b'{"a":"2000-01-01T00:00.5"}', Fault.WRONG_TYPE, "a"),
        (pa.struct({"a": pa.int64()}), b"[1]", Fault.WRONG_TYPE, None),
        (pa.list_(pa.int64()), b'["x"]', Fault.WRONG_TYPE, None),
        (pa.struct([pa.field("a", pa.int64(), False)]), b"{}", Fault.MISSING_FIELD, "a"),
        (pa.struct([pa.field("a", pa.int64(), False)]), b'{"a":null}', Fault.WRONG_TYPE, "a"),
    ],
)
def test_a_fault_names_its_field(of: pa.DataType, message: bytes, fault: Fault, path: str | None) -> None:
    with interpreted_kernels():
        result = decoded(of, [b"null", message, None])
    assert result.faults.tolist() == [0, fault, 0]
    assert field_of(result, 1) == path
    assert result.column.null_count == 3


_TIMES = """
    2024-02-29T00:00:00 2024-02-29T23:59:59.123456789 2024-02-29T12:30 2024-02-29T12:30:05Z 2024-02-29T12:30z
    2024-02-29T12:30:05.5+02 2024-02-29T12:30:05-0130 2024-02-29T12:30:05+02:00 2024-02-29T12:30+18:00
    2024-02-29T12:30+18:01 2024-02-29T12:30+02:60 2024-02-29T12:30+2 2024-02-29T12:30+02:000 2024-02-29T12
    2024-02-29T12:30:05. 2024-02-29T12:30:60 2024-02-29T24:00 2024-02-29T12: 2024-02-29T12:3 2024-02-29T
"""
_ESCAPES = r"""
    \\\"\/\b\f\n\r\t \u00e9\u0800\u0041 \uABCD\uabcd \uD83D\ude00 \ud83d\u0041 \ud83d\x \ude00 \x \u12g4 \u12
"""


def _strings(words: str) -> tuple[str, ...]:
    return tuple(f'"{word}"' for word in words.split())


@for_each(
    ("of", "texts"),
    [
        (pa.binary(), ('"YQ=="', '"YWI="', '"YW+/"', '"YW-j"', '"YQ="', '""', "1")),
        (pa.float64(), ("1e-400", "-0.0", "123456789012345678901234567890", "1e400", "1e-330")),
        (pa.decimal128(20, 3), ("1e17", "1e16", "0.00001", "-0", "99999999999999999.9994", '"x"', "1" * 40)),
        (pa.int64(), ("9223372036854775807", "9223372036854775808", "-0", "1e18", "1e19", "1.5")),
        (pa.float64(), _strings("NaN Infinity -Infinity +INF INF -INF nan Infinit 1")),
        (pa.date32(), _strings("2024-02-29 2023-02-29 0001-01-01 2024-13-01 2024-1-01 2024 2024-02-29x")),
        (pa.timestamp("us"), _strings(_TIMES)),
        (pa.timestamp("us", "UTC"), _strings(_TIMES)),
        (pa.string(), _strings(_ESCAPES)),
        (pa.string(), ('{"b": [1, 2.50, "x", null, true]}', "-1.0e3", "false")),
        (
            pa.map_(pa.string(), pa.int64()),
            ('{"a":1,"a":2}', '{"\\u0061":1,"b":null}', "{}", "[]", '{"a":"x"}'),
        ),
    ],
    ids=str,
)
def test_rare_values_are_those_of_pythons_json(of: pa.DataType, texts: tuple[str, ...]) -> None:
    with interpreted_kernels():
        compare(pa.struct({"a": of}), [f'{{"a":{text}}}'.encode() for text in texts])


def test_messages_that_are_written_again_keep_their_rows() -> None:
    of = pa.struct({"a": pa.int64(), "s": pa.string()})
    messages = [b'{"a":1,"a":2}', None, b"{", b'{"\\u0061":"x"}', b'{"a":3}', b'{"a":4,"\\u0073":"\\ud800"}']
    messages += [b'{"s":"\\u00e9","s":[1.50,1e400,"\\ud800"]}']
    result = decoded(of, messages)
    assert result.faults.tolist() == [0, 0, Fault.BAD_JSON, Fault.WRONG_TYPE, 0, Fault.BAD_UTF8, 0]
    assert [field_of(result, row) for row in (3, 5)] == ["a", "s"]
    assert result.column.to_pylist() == [
        {"a": 2, "s": None},
        *[None] * 3,
        {"a": 3, "s": None},
        None,
        {"a": None, "s": '[1.50,1e400,"\\ud800"]'},
    ]


def test_names_with_one_hash_are_distinguished() -> None:
    names = ["AaAa", "BBBB", "AaBB", "BBAa", "Aa", "BB"]
    of = pa.struct([(name, pa.int64()) for name in names])
    values = {name: number for number, name in enumerate(names)}
    message = json.dumps({**values, "CCCC": 1, "AaB": 2}).encode()
    assert decoded(of, [message]).column.to_pylist() == [values]


def test_names_that_pythons_json_escapes_are_not_odd(monkeypatch: pytest.MonkeyPatch) -> None:
    of = pa.struct({"é": pa.int64(), 'a"😀': pa.int64(), "z": pa.int64()})
    row = {"z": 1, 'a"😀': 2, "é": 3}
    messages = [json.dumps(row, ensure_ascii=ascii).encode() for ascii in (True, False)]
    monkeypatch.delattr("spark_kafkawire.values.json.decoding._plain")
    assert decoded(of, messages).column.to_pylist() == [row, row]


def test_nesting_has_a_limit_also_where_it_is_skipped() -> None:
    of = pa.struct({"a": pa.int64()})
    messages = [
        b'{"other":' + b"[" * depth + b"]" * depth + b',"a":1}'
        for depth in (kernels.DEPTH_MAX - 1, kernels.DEPTH_MAX, 100_000)
    ]
    result = decoded(of, messages)
    assert result.faults.tolist() == [0, Fault.TOO_DEEP, Fault.TOO_DEEP]
    assert result.column.to_pylist() == [{"a": 1}, None, None]
    # The deepest message that is written again by Python's json.
    deepest = b'{"a":1,"a":2,"b":' + b'{"c":' * 199 + b"1" + b"}" * 199 + b"}"
    assert decoded(of, [deepest]).column.to_pylist() == [{"a": 2}]


def test_few_bytes_cannot_ask_for_much_memory() -> None:
    of = pa.list_(pa.struct([(str(index), pa.int64()) for index in range(1000)]))
    result = decoded(of, [b"[" + b",".join([b"{}"] * count) + b"]" for count in (10, 100_000)])
    assert result.faults.tolist() == [0, Fault.TOO_LARGE]


def test_rows_of_any_size_have_room() -> None:
    of = pa.map_(pa.string(), pa.list_(pa.int64()))
    rows = [[(str(key), list(range(size))) for key in range(size)] for size in (0, 1, 30, 200, 1, 0, 70)]
    messages = [json.dumps(dict(row)).encode() for row in rows]
    assert decoded(of, messages).column.to_pylist() == rows


def test_fields_that_the_type_lacks_are_skipped_and_fields_that_the_message_lacks_are_null() -> None:
    of = pa.struct([("z", pa.int64()), ("n", pa.struct({"b": pa.string()}))])
    message = b'{"a":[{"z":1}],"n":{"a":"x","b":"y"},"z":3}'
    assert decoded(of, [message, b"{}"]).column.to_pylist() == [
        {"z": 3, "n": {"b": "y"}},
        {"z": None, "n": None},
    ]


def test_a_schema_says_which_fields_are_required_and_what_is_a_string() -> None:
    schema = parse(
        json.dumps(
            {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "name": {"type": "string"},
                    "more": True,
                    "at": {"type": "integer", "title": "org.apache.kafka.connect.data.Timestamp"},
                },
                "required": ["id", "more"],
            }
        )
    )
    messages = [
        b'{"id":1,"name":"a","more":{"x":[1, 2]},"at":1500}',
        b'{"id":1}',
        b'{"name":"a"}',
        b'{"id":1,"name":2}',
    ]
    result = Decoder(schema).decode(payloads_of(pa.array(messages)))
    assert result.faults.tolist() == [0, 0, Fault.MISSING_FIELD, Fault.WRONG_TYPE]
    assert [field_of(result, row) for row in (2, 3)] == ["id", "name"]
    first = result.column[0].as_py()
    assert (first["more"], first["at"].isoformat()) == ('{"x":[1, 2]}', "1970-01-01T00:00:01.500000+00:00")
    # What Spark's nullable columns leave out of a schema, the reader's schema knows.
    narrow = Decoder(None, schema, pa.struct({"id": pa.int64()})).decode(payloads_of(pa.array(messages)))
    assert narrow.faults.tolist() == [0, 0, Fault.MISSING_FIELD, 0]


@pytest.mark.parametrize(
    "of", [pa.map_(pa.int64(), pa.int64()), pa.struct({"a": pa.time64("us")}), pa.uint8()], ids=str
)
def test_a_type_that_json_cannot_have_is_refused_before_a_row(of: pa.DataType) -> None:
    with pytest.raises(OptionError, match="JSON"):
        Decoder(None, None, of)
