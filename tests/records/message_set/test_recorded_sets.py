"""Decoding and encoding against what the 0.7.2 classes and a real broker made of the same bytes."""

from __future__ import annotations

import hashlib
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

from spark_kafkawire.errors import CorruptDataError, KafkaWireError
from spark_kafkawire.records.limits import DecodeLimits
from spark_kafkawire.records.message_set.decoding import decode
from spark_kafkawire.records.message_set.index import Stop, index_messages, message_size
from spark_kafkawire.records.public import (
    decode_message_set,
    encode_message_set,
)
from tests.records.message_set.trees import Row, batch_rows, column_rows, message
from tests.records.mutations import damaged_set, peak_rss_bytes
from tests.support.cases import for_each
from tests.support.golden import (
    CORPUS,
    SEGMENTS,
    Exchange,
    exchange,
    exchanges,
    read_json,
)
from tests.support.short_and_long import one_of


def as_list(result: Any) -> list[Any]:
    return result if isinstance(result, list) else [result]


MESSAGE_SETS = [item for item in read_json("jvm_encodings.json") if "decoded" in item]
CORPUS_LOGS = read_json("corpus/manifest.json")
RECORDED_SEGMENTS = read_json("segments/index.json")
CLIENT_FETCHES = [
    fetched
    for run in ("simple_consumer_run_A", "simple_consumer_reads_python_written_logs_run_B")
    for item in read_json("jvm_clients.json")[run]
    for fetched in as_list(item.get("result"))
    if isinstance(fetched, dict) and isinstance(fetched.get("valid_bytes"), int) and fetched["valid_bytes"]
]
#: Exchanges whose message set made the broker close the connection.
REFUSED_SETS = [
    "zlib_not_gzip", "snappy_google_framing", "codec3", "bad_crc", "bad_crc_middle", "bad_crc_inner",
    "nested_bad_crc_inner", "bad_snappy_data", "snappy_xerial_version_0", "snappy_block_truncated",
    "snappy_two_headers", "message_len_zero", "message_len_5_magic1",
]  # fmt: skip


def payloads(iteration: dict[str, Any]) -> list[bytes]:
    return [bytes.fromhex(message["payload_hex"]) for message in iteration["messages"]]


def name_of(item: Any) -> str:
    if isinstance(item, Exchange):
        return item.name
    return str(
        item.get("name") or item.get("file") or f"{item['topic']}-{item['broker']}-{item['partition']}"
    )


def values_sha256(values: Iterable[bytes]) -> str:
    """The manifest's checksum of a log: every value after its length as a big-endian int32."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(struct.pack(">i", len(value)) + value)
    return digest.hexdigest()


@for_each("item", MESSAGE_SETS, ids=name_of)
def test_a_jvm_set_decodes_to_the_messages_of_the_jvm(item: dict[str, Any]) -> None:
    data, recorded = bytes.fromhex(item["hex"]), item["decoded"]
    entries = index_messages(data)
    spans = zip(entries.payload_pos.tolist(), entries.payload_size.tolist(), strict=True)
    shallow = recorded["shallow"]["messages"]
    assert entries.stop is Stop.END
    assert entries.size == recorded["valid_bytes"]
    assert [data[pos : pos + size] for pos, size in spans] == payloads(recorded["shallow"])
    assert entries.next_pos.tolist() == [message["offset"] for message in shallow]
    assert entries.magic.tolist() == [message["magic"] for message in shallow]
    assert entries.codec.tolist() == [message["codec"] for message in shallow]
    assert decode_message_set(data)["value"].to_pylist() == payloads(recorded["deep"])


@for_each("item", MESSAGE_SETS, ids=name_of)
def test_encoding_the_messages_of_a_jvm_set_gives_its_bytes_or_its_messages(item: dict[str, Any]) -> None:
    values = payloads(item["decoded"]["deep"])
    if item["name"].startswith("message_set/plain"):
        assert encode_message_set(values).hex() == item["hex"]
    for compression in ("none", "gzip", "snappy"):
        assert decode_message_set(encode_message_set(values, compression))["value"].to_pylist() == values


def test_a_snappy_set_has_the_framing_and_the_blocks_of_the_jvm() -> None:
    recorded = next(item for item in MESSAGE_SETS if item["name"] == "message_set/snappy_random_70000_bytes")
    ours = encode_message_set(payloads(recorded["decoded"]["deep"]), "snappy")
    # Random bytes do not compress, so that every snappy library writes the same literals.
    assert ours.hex() == recorded["hex"]


@pytest.mark.parametrize("name", ["message_set/gzip_one", "message_set/gzip_three"])
def test_a_gzip_set_has_the_header_of_the_jvm(name: str) -> None:
    recorded = next(item for item in MESSAGE_SETS if item["name"] == name)
    ours = encode_message_set(payloads(recorded["decoded"]["deep"]), "gzip")
    theirs = bytes.fromhex(recorded["hex"])
    assert ours[4:6] == theirs[4:6]
    assert ours[10:20] == theirs[10:20]


@for_each("log", CORPUS_LOGS, ids=name_of)
def test_a_corpus_log_decodes_to_the_values_that_were_written(log: dict[str, Any]) -> None:
    values: list[bytes] = []
    for segment in log["segments"]:
        data = (CORPUS / segment["file"]).read_bytes()
        batch = decode_message_set(data, segment["start_offset"])
        values += batch["value"].to_pylist()
        assert batch["nextOffset"][-1].as_py() == segment["start_offset"] + len(data)
    assert len(values) == log["messages"]
    assert values_sha256(values) == log["values_sha256"]


@for_each("segment", RECORDED_SEGMENTS, ids=name_of)
def test_a_recorded_segment_decodes_to_its_end(segment: dict[str, Any]) -> None:
    data = (SEGMENTS / segment["file"]).read_bytes()
    decoded = decode(data, segment["start_offset"])
    assert decoded.cut
    assert decoded.size == index_messages(data).size
    assert decoded.size == segment["size"]


@for_each("fetched", CLIENT_FETCHES)
def test_a_fetched_set_decodes_to_the_deep_messages_of_the_jvm_client(fetched: dict[str, Any]) -> None:
    data = b"".join(
        message(bytes.fromhex(item["payload_hex"]), item["codec"], item["magic"])
        for item in fetched["shallow"]["messages"]
    )
    rows = batch_rows(decode_message_set(data, fetched["initial_offset"]))
    deep = fetched["deep"]["messages"]
    assert len(data) == fetched["valid_bytes"]
    assert [value for _, _, _, value in rows] == payloads(fetched["deep"])
    # The JVM gives all inner messages but the last the start of the outermost one as next offset.
    is_last = [row[0] != after[0] for row, after in zip(rows, [*rows[1:], (-1, 0, 0, b"")], strict=True)]
    assert [row[2] if last else row[0] for row, last in zip(rows, is_last, strict=True)] == [
        item["offset"] for item in deep
    ]


@for_each("recorded", [item for item in exchanges() if item.appended], ids=name_of)
def test_what_the_broker_appended_decodes_whole(recorded: Exchange) -> None:
    decoded = decode(recorded.appended, 0)
    assert decoded.size == len(recorded.appended)
    assert decoded.columns.count > 0


@for_each("name", REFUSED_SETS)
def test_a_set_that_the_broker_refused_is_damage_at_an_offset(name: str) -> None:
    with pytest.raises(CorruptDataError) as error:
        decode(produced_set(f"produce/{name}"), 1000)
    assert error.value.offset is not None
    assert error.value.offset >= 1000
    assert str(error.value.offset) in str(error.value)


def test_inner_sets_of_nothing_or_cut_are_read_over() -> None:
    data = produced_set("produce/gzip_of_nothing") + produced_set("produce/after_gzip_of_nothing")
    assert [row[1:] for row in batch_rows(decode_message_set(data))] == [(0, len(data), b"next")]
    recorded = exchange("produce/gzip_inner_partial")
    assert [row[:3] for row in batch_rows(decode_message_set(recorded.appended))] == [(0, 0, 70), (0, 1, 70)]


def produced_set(name: str) -> bytes:
    """The message set of a recorded PRODUCE request."""
    request = exchange(name).request
    (topic_size,) = struct.unpack_from(">h", request, 6)
    (size,) = struct.unpack_from(">i", request, 12 + topic_size)
    return request[16 + topic_size :][:size]


# --- Any bytes give rows or one of our errors, in bounded memory; kernels do the same in both ways ---

MUTATIONS = 20_000
LIMITS = DecodeLimits(decompressed_bytes_max=2**20, depth_max=4, batch_bytes_max=2**20)
SMALL_BATCHES = DecodeLimits(decompressed_bytes_max=2**20, depth_max=4, batch_bytes_max=300)
#: The error's class and message, and the rows before it; None without an error.
Outcome = tuple[type[KafkaWireError] | None, str, list[Row]]
BothWays = Callable[..., list[Any]]


def outcome(data: bytes, limits: DecodeLimits = LIMITS) -> Outcome:
    """All rows of the data, or the error in their place."""
    result, pos, cut = list[Row](), 0, False
    try:
        while not cut:
            decoded = decode(data[pos:], pos, limits)
            if decoded.columns.values is not None:
                decoded.columns.values.validate(full=True)
            result += column_rows(decoded.columns)
            pos, cut = pos + decoded.size, decoded.cut
            assert decoded.size or cut, "decode neither advances nor ends"
    except KafkaWireError as error:
        return type(error), f"{error} ({getattr(error, 'offset', None)})", result
    return None, f"{pos} bytes", result


@one_of(16)
def test_mutations_give_the_same_compiled_and_interpreted(part: int, both_ways: BothWays) -> None:
    before = peak_rss_bytes()
    sets = [damaged_set(seed) for seed in range(part, MUTATIONS, 16)]
    limits = LIMITS if part % 2 else SMALL_BATCHES
    outcomes = both_ways(partial(outcome, limits=limits), sets)
    assert peak_rss_bytes() - before < 64 * 2**20
    assert all("\n" not in what for _, what, _ in outcomes)
    # Both ends are reached: sets that are still whole, and damage of every kind.
    reached = Counter(kind for kind, _, _ in outcomes)
    assert reached[CorruptDataError] > 250
    assert reached[None] > 250


def test_recorded_logs_decode_the_same_compiled_and_interpreted(both_ways: BothWays) -> None:
    paths = [*SEGMENTS.rglob("*.kafka"), *CORPUS.rglob("*.kafka")]
    assert len(paths) > 80
    outcomes = both_ways(outcome, [path.read_bytes() for path in paths])
    assert all(kind is None for kind, _, _ in outcomes)


def test_random_bytes_neither_crash_nor_hang(both_ways: BothWays) -> None:
    sets = [random.Random(size).randbytes(size) for size in range(1000)]
    both_ways(outcome, sets)
    for data in sets:
        assert index_messages(data).size <= size_or_error(data)


def size_or_error(data: bytes) -> int:
    try:
        return message_size(data) or 0
    except CorruptDataError:
        return 0
