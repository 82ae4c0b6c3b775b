"""Properties of every codec in the table."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import CorruptDataError, OptionError
from spark_kafkawire.records.compression.codec import Codec, Format, TooLarge
from spark_kafkawire.records.compression.lz4 import LZ4, LZ4_MAGIC_0
from spark_kafkawire.records.compression.table import CODECS, codec_named, codec_names, decompress
from tests.support.cases import for_each
from tests.support.codecs import BY_NAME, CODEC_NUMBERS, of_magic
from tests.support.codecs import CODECS as ROWS
from tests.support.codecs import FORMS as COMPRESSORS

from .data import WORDS, decompressed

FORMS = pytest.mark.parametrize("form", COMPRESSORS)
EVERY_CODEC = pytest.mark.parametrize("codec", [*CODECS.values(), LZ4_MAGIC_0], ids=lambda codec: codec.name)


def by_number(form: str, payload: bytes, size_max: int = 10**6) -> bytes:
    number = CODEC_NUMBERS[form.split()[0]]
    return b"".join(decompress(number, Format.MAGIC_2, memoryview(payload), size_max))


@EVERY_CODEC
@given(st.binary(max_size=200) | st.sampled_from([WORDS, bytes(32_768), bytes(32_769)]))
def test_what_is_compressed_decompresses_to_the_same(codec: Codec, data: bytes) -> None:
    assert decompressed(codec, bytes(codec.compress(data))) == data


@FORMS
def test_every_form_is_read(form: str) -> None:
    assert by_number(form, COMPRESSORS[form](WORDS)) == WORDS


@EVERY_CODEC
def test_every_cut_of_a_payload_is_damage_or_a_part_of_the_content(codec: Codec) -> None:
    payload = bytes(codec.compress(WORDS[:200]))
    for size in range(len(payload)):
        try:
            assert decompressed(codec, payload[:size]) == b""
        except CorruptDataError:
            continue
        assert size in BY_NAME[codec.name].header_sizes


@pytest.mark.parametrize("size_max", [0, 1, 999])
@FORMS
def test_content_above_the_limit_is_refused(form: str, size_max: int) -> None:
    payload = COMPRESSORS[form](bytes(1000))
    with pytest.raises(TooLarge) as error:
        by_number(form, payload, size_max)
    assert size_max < error.value.size <= 1000
    assert by_number(form, payload, 1000) == bytes(1000)


@EVERY_CODEC
def test_levels_that_do_not_exist_are_refused(codec: Codec) -> None:
    if codec.levels is None:
        with pytest.raises(OptionError, match=f"{codec.name} has no compression levels: remove the option"):
            codec.compress(b"", 1)
        return
    low, high = codec.levels
    for level in (low - 1, high + 1):
        with pytest.raises(
            OptionError, match=f"{codec.name} has the compression levels {low} to {high}, not"
        ):
            codec.compress(b"", level)
    for level in (low, high):
        assert decompressed(codec, bytes(codec.compress(WORDS, level))) == WORDS


def test_each_format_has_the_codecs_that_kafka_gave_it() -> None:
    """Source: KIP-110 for zstd; Apache Kafka's CompressionType.java; 0.7's CompressionCodec.scala."""
    found = [(codec.name, codec.number, codec.levels, codec.produce_version) for codec in CODECS.values()]
    assert found == [(row.name, row.number, row.levels, row.produce_version) for row in ROWS]
    assert codec_names(Format.MESSAGE_SET) == ("none", "gzip", "snappy")
    for format in (Format.MAGIC_0, Format.MAGIC_1, Format.MAGIC_2):
        assert codec_names(format) == of_magic(format.value)


def test_a_codec_is_found_by_name() -> None:
    for format in Format:
        assert codec_named("none", format) is None
        for name in codec_names(format)[1:]:
            is_lz4_magic_0 = (name, format) == ("lz4", Format.MAGIC_0)
            assert codec_named(name, format) is (LZ4_MAGIC_0 if is_lz4_magic_0 else CODECS[name])
    assert CODECS["lz4"] is LZ4


@pytest.mark.parametrize(
    ("name", "format", "said"),
    [
        ("lz4", Format.MESSAGE_SET, "compression lz4 needs Kafka 0.8.2 or later"),
        ("zstd", Format.MAGIC_1, "compression zstd needs Kafka 2.1 or later"),
        ("brotli", Format.MESSAGE_SET, "compression is one of none, gzip, snappy, not 'brotli'"),
        ("GZIP", Format.MAGIC_0, "compression is one of none, gzip, snappy, lz4, not 'GZIP'"),
    ],
)
def test_a_codec_that_the_format_has_not_is_refused(name: str, format: Format, said: str) -> None:
    with pytest.raises(OptionError, match=f"^{re.escape(said)}"):
        codec_named(name, format)


@for_each("format", Format)
@for_each("number", range(1, 8))
def test_a_number_that_the_format_has_not_is_damage(format: Format, number: int) -> None:
    known = {CODECS[name].number for name in codec_names(format)[1:]}
    if number not in known:
        with pytest.raises(CorruptDataError, match=f"its compression codec {number} is unknown"):
            decompress(number, format, memoryview(b""), 1)
