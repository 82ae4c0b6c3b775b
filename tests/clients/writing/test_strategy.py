"""The partitioners: which rows have a key, and librdkafka's hash of it."""

from __future__ import annotations

import zlib

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafkawire.clients.writing.strategy import STRATEGIES, crc32_hashes
from tests.support.writing import binary

#: The check value of CRC-32 (its catalogue's "123456789"), and zlib's of the others.
CRCS = {b"": 0, b"123456789": 0xCBF43926, b"a": 0xE8B7BE43, b"\x00": 0xD202EF8D}


def test_keys_hash_to_zlibs_unsigned_crc_32() -> None:
    assert crc32_hashes(binary(list(CRCS))).tolist() == list(CRCS.values())


def test_a_null_key_hashes_as_an_empty_one_whatever_lies_under_it() -> None:
    hidden = pa.Array.from_buffers(
        pa.binary(), 2, [pa.py_buffer(b"\x02"), *binary([b"hidden", b"a"]).buffers()[1:]]
    )
    assert hidden.to_pylist() == [None, b"a"]
    assert crc32_hashes(hidden).tolist() == [0, CRCS[b"a"]]


def test_no_keys_hash_to_nothing() -> None:
    assert crc32_hashes(binary([])).tolist() == []
    assert crc32_hashes(binary([None, None])).tolist() == [0, 0]


@settings(deadline=None)  # the kernels may be compiled in between
@given(st.lists(st.none() | st.binary(max_size=40), max_size=20), st.integers(0, 5))
def test_a_slice_hashes_as_its_keys_do(keys: list[bytes | None], start: int) -> None:
    expected = [zlib.crc32(key or b"") for key in keys[start:]]
    assert crc32_hashes(binary(keys).slice(start)).tolist() == expected


@pytest.mark.parametrize(
    ("name", "keyed", "without_keys"),
    [
        ("murmur2", [True, True, False], None),
        ("consistent", [True, True, True], [True, True, True]),
        ("consistent_random", [True, False, False], None),
        ("roundrobin", None, None),
        ("sticky", None, None),
    ],
)
def test_a_partitioner_tells_which_rows_choose_by_their_key(
    name: str, keyed: list[bool] | None, without_keys: list[bool] | None
) -> None:
    def listed(keys: pa.Array | None) -> list[bool] | None:
        chooses = STRATEGIES[name].keyed(keys, 3)
        return None if chooses is None else chooses.tolist()

    assert listed(binary([b"key", b"", None])) == keyed
    assert listed(None) == without_keys
