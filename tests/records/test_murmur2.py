"""The key hash, held to the vectors of Kafka's own test and of the Java client."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.records import compiler
from spark_kafkawire.records.murmur2 import murmur2, positive_hashes

# Source: org.apache.kafka.common.utils.UtilsTest.testMurmur2.
JAVA_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
# Made with the Java client for 1,000 partitions; kafka-python's test_murmur2_java_compatibility.
JAVA_PARTITIONS = {b"": 681, b"a": 524, b"ab": 434, b"abc": 107, b"123456789": 566, b"\x00 ": 742}


@pytest.fixture(params=["interpreted", "compiled"])
def _kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "interpreted":
        monkeypatch.setattr(murmur2, "compiled", murmur2.interpreted)
    else:
        assert compiler.load()
        assert murmur2.compile()


def binary(keys: list[bytes]) -> pa.Array:
    return pa.array(keys, pa.binary())


@pytest.mark.usefixtures("_kernel")
def test_hashes_are_those_of_the_java_client() -> None:
    hashes = positive_hashes(binary(list(JAVA_HASHES)))
    assert hashes.tolist() == [java & 0x7FFFFFFF for java in JAVA_HASHES.values()]


@pytest.mark.usefixtures("_kernel")
def test_partitions_are_those_of_the_java_client() -> None:
    hashes = positive_hashes(binary(list(JAVA_PARTITIONS)))
    assert (hashes % 1000).tolist() == list(JAVA_PARTITIONS.values())


@pytest.mark.usefixtures("_kernel")
def test_a_slice_of_a_column_hashes_as_its_keys_do() -> None:
    keys = binary([b"before", b"foobar", b"21", b"after"])
    assert positive_hashes(keys.slice(1, 2)).tolist() == positive_hashes(binary([b"foobar", b"21"])).tolist()


def test_no_keys_and_empty_keys_are_hashed() -> None:
    assert positive_hashes(binary([])).tolist() == []
    assert len(set(positive_hashes(binary([b"", b""])).tolist())) == 1


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_compiled_and_interpreted_agree(keys: list[bytes]) -> None:
    assert compiler.load()
    compiled = positive_hashes(binary(keys)).tolist()
    assert compiled == [_plain(key) & 0x7FFFFFFF for key in keys]


def _plain(key: bytes) -> int:
    """The algorithm once more, written for one key."""
    factor, mask = 0x5BD1E995, 0xFFFFFFFF
    mixed = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for pos in range(0, whole, 4):
        word = int.from_bytes(key[pos : pos + 4], "little") * factor & mask
        mixed = (mixed * factor & mask) ^ ((word ^ word >> 24) * factor & mask)
    if tail := key[whole:]:
        mixed = (mixed ^ int.from_bytes(tail, "little")) * factor & mask
    mixed = (mixed ^ mixed >> 13) * factor & mask
    return mixed ^ mixed >> 15
