"""The highest common version of each request, judged by kafka-python and its table of brokers."""

from __future__ import annotations

import dataclasses
import re
import sys
import tracemalloc
import uuid
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.errors import ProtocolError, UnsupportedVersionError
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api, BrokerVersions, VersionRange
from spark_kafkawire.protocol.modern import APIS
from spark_kafkawire.protocol.modern.limits import ACKS_ALL
from spark_kafkawire.protocol.modern.metadata import MetadataResponse
from spark_kafkawire.protocol.modern.produce import ProduceRequest
from spark_kafkawire.protocol.modern.transactions import EndTxnRequest, TxnOffsetCommitRequest
from spark_kafkawire.protocol.primitives import (
    BOOL,
    BYTES,
    COMPACT_LENGTH,
    INT8,
    INT16,
    UNSIGNED_VARINT,
    UUID,
    AnyType,
    Array,
    Buffer,
    String,
)
from spark_kafkawire.protocol.schema import Struct, codec, wire
from tests.support.cases import for_each
from tests.support.failing_case import failing_case

from .messages import (
    BROKERS,
    kafka_python_choice,
    kafka_python_knows,
    throttles_since,
    wired,
)


def test_the_dialect_has_all_apis_that_are_named_in_the_order_of_their_keys() -> None:
    named = [(name, key) for name, key, *_ in APIS]
    assert [(api.name, api.key) for api in modern.DIALECT.apis] == sorted(named, key=lambda item: item[1])


@for_each("broker", BROKERS, ids=str)
def test_the_version_is_the_one_that_kafka_python_chooses(broker: tuple[int, ...]) -> None:
    versions = BrokerVersions({key: VersionRange(*offered) for key, offered in BROKERS[broker].items()})
    for api in filter(kafka_python_knows, modern.DIALECT.apis):
        with failing_case(api.name):
            expected = kafka_python_choice(api, broker)
            if expected is None:
                with pytest.raises(UnsupportedVersionError, match=rf" {api.name}(:| \()"):
                    versions.highest_common(api)
            else:
                assert versions.highest_common(api) == expected


@pytest.mark.parametrize("broker", [(0, 8, 2), (0, 9)], ids=str)
def test_assume_versions_of_brokers_that_cannot_be_asked(broker: tuple[int, ...]) -> None:
    assert modern.API_VERSIONS.key not in BROKERS[broker]
    for key, offered in modern.BEFORE_API_VERSIONS.ranges.items():
        known = VersionRange(*BROKERS[broker][key])
        assert known.min <= offered.min <= offered.max <= known.max


@for_each("api", [*modern.DIALECT.apis], ids=lambda api: api.name)
def test_what_brokers_that_cannot_be_asked_lack_is_refused(api: Api) -> None:
    if api.key in modern.BEFORE_API_VERSIONS.ranges:
        assert modern.BEFORE_API_VERSIONS.highest_common(api) in api.versions
        return
    with pytest.raises(UnsupportedVersionError, match=f"does not offer {api.name} .* too old"):
        modern.BEFORE_API_VERSIONS.highest_common(api)


@pytest.mark.parametrize(
    ("offered", "message"),
    [
        (VersionRange(101, 107), "the broker offers 101-107, this client supports 4-9"),
        (VersionRange(-3, -1), "the broker offers -3--1, this client supports 4-9"),
        (VersionRange(9, 2), "the broker offers 9-2, this client supports 4-9"),
        (VersionRange(15, 15), "the broker offers 15, this client supports 4-9"),
    ],
)
def test_no_common_version_names_the_request_and_both_ranges(offered: VersionRange, message: str) -> None:
    api = dataclasses.replace(modern.FETCH, versions=VersionRange(4, 9))
    with pytest.raises(UnsupportedVersionError) as caught:
        BrokerVersions({api.key: offered}).highest_common(api)
    assert str(caught.value) == f"no common version of Fetch: {message}; upgrade the older of both"
    assert not caught.value.retriable


OF_TRANSACTION: Final[dict[str, Any]] = {"transactional_id": "t", "transaction_version": 2}
OF_PRODUCER: Final[dict[str, Any]] = {**OF_TRANSACTION, "producer_id": 1, "producer_epoch": 0}


@pytest.mark.parametrize(
    ("api", "request_", "since"),
    [
        (
            modern.PRODUCE,
            ProduceRequest(**OF_TRANSACTION, acks=ACKS_ALL, timeout_ms=1, topic_data=()),
            12,
        ),
        (modern.TXN_OFFSET_COMMIT, TxnOffsetCommitRequest(**OF_PRODUCER, group_id="g", topics=()), 5),
        (modern.END_TXN, EndTxnRequest(**OF_PRODUCER, committed=True), 5),
    ],
    ids=["Produce", "TxnOffsetCommit", "EndTxn"],
)
def test_a_transaction_of_the_second_protocol_goes_in_no_version_of_the_first(
    api: Api, request_: Any, since: int
) -> None:
    ours = api.versions_of(request_)
    assert ours == VersionRange(since, api.versions.max)
    assert BrokerVersions({api.key: VersionRange(0, since)}).highest_common(api, ours) == since
    with pytest.raises(UnsupportedVersionError) as caught:
        BrokerVersions({api.key: VersionRange(0, since - 1)}).highest_common(api, ours)
    assert str(caught.value) == (
        f"no common version of {api.name}: the broker offers 0-{since - 1}, but this request needs {ours}; "
        "another broker of the cluster offers more: upgrade this one, or the proxy in front of it"
    )
    first = dataclasses.replace(request_, transaction_version=1)
    assert api.versions_of(first) == VersionRange(0, since - 1)


#: The description of Produce does not say from which version on brokers answer before they throttle, and
#: kafka-python has none of delegation tokens.
UNDESCRIBED: Final = {
    "Produce": 6,
    "CreateDelegationToken": 1,
    "RenewDelegationToken": 1,
    "ExpireDelegationToken": 1,
}


@for_each("api", [*modern.DIALECT.apis], ids=lambda api: api.name)
def test_a_client_waits_for_throttles_from_the_version_on_that_says_so(api: Api) -> None:
    versions = range(api.versions.max + 1)
    fields = {
        version: [name for name, _ in wired(api.response or type(api), version)] for version in versions
    }
    first = next((version for version, names in fields.items() if "throttle_time_ms" in names), None)
    described = UNDESCRIBED.get(api.name, throttles_since(api))
    # APIs that are newer than KIP-219 say nothing of it: their brokers have always done so.
    assert api.throttles_since == (first if described is None else described)


def test_a_throttle_counts_in_those_versions_alone() -> None:
    response = MetadataResponse(brokers=(), topics=(), throttle_time_ms=70)
    waits = [modern.METADATA.throttle_time_ms(response, version) for version in range(13)]
    assert waits == [0] * 6 + [70] * 7
    assert modern.SASL_HANDSHAKE.throttle_time_ms(object(), 1) == 0


#: A line of the notes: one version or several, and what they added.
NOTE: Final = re.compile(r"    (\d+)(?:-(\d+))? +(\S.*)")


def notes(api: Api) -> dict[int, str]:
    """Additions of each version, as the head of an API's module lists them."""
    head = sys.modules[api.request.__module__].__doc__ or ""
    _, _, lines = head.partition(f"Versions of {api.name}::\n\n")
    result: dict[int, str] = {}
    for line in lines.partition("\n\n")[0].splitlines():
        match = NOTE.fullmatch(line)
        assert match, f"{api.name}: {line}"
        first, last, what = match.groups()
        result |= dict.fromkeys(range(int(first), int(last or first) + 1), what)
    return result


@for_each("api", [*modern.DIALECT.apis], ids=lambda api: api.name)
def test_the_head_of_each_module_tells_what_each_version_added(api: Api) -> None:
    result = notes(api)
    assert list(result) == list(range(len(result)))
    spoken = {version for version, what in result.items() if not what.startswith("not spoken: ")}
    assert spoken == set(range(api.versions.min, api.versions.max + 1))
    assert [version for version, what in result.items() if what.startswith("flexible")] == (
        [] if api.flexible_since is None else [api.flexible_since]
    )
    assert [version for version, what in result.items() if "throttled responses come at once" in what] == (
        [] if api.throttles_since is None else [api.throttles_since]
    )


# --- One declaration gives every version of a message: ranges, nulls, compact lengths, tagged fields ---

FLEXIBLE_SINCE: Final = 3
ID: Final = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    index: int = wire(INT8)
    epoch: int = wire(INT8, since=1, default=-1, ignorable=True)
    leader: int = wire(INT8, since=3, tag=1, default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    old: int = wire(INT8, until=0, default=9)
    name: str | None = wire(String(), nullable_since=2)
    header: str = wire(String(), compact=False)
    parts: tuple[Part, ...] | None = wire(Array(Struct(Part)), nullable_since=1, null_before=())
    middle: bool = wire(BOOL, since=1, until=2, default=False)
    id: uuid.UUID = wire(UUID, since=3, default=ID)
    data: Buffer | None = wire(BYTES, since=3, nullable_since=3, default=None, shown=False)
    sixth: Part = wire(Struct(Part), since=3, tag=6, default=Part(index=0))
    first: int = wire(INT16, since=3, tag=0, default=0)
    local: str = "not on the wire"


VALUE: Final = Message(name="ab", header="h", parts=(Part(index=7),))


def written(message: Message, version: int) -> bytes:
    out: list[Buffer] = []
    codec(Message, version, version >= FLEXIBLE_SINCE).write(message, out)
    return b"".join(out)


def read(data: bytes, version: int) -> Message:
    message, end = codec(Message, version, version >= FLEXIBLE_SINCE).read(memoryview(data), 0)
    assert end == len(data)
    return message


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (0, "09 0002 6162 0001 68 00000001 07"),
        (1, "0002 6162 0001 68 00000001 07 ff 00"),
        (2, "0002 6162 0001 68 00000001 07 ff 00"),
        (3, "03 6162 0001 68 02 07 ff 00 00112233445566778899aabbccddeeff 00 00"),
    ],
)
def test_a_field_travels_in_its_versions_only(version: int, data: str) -> None:
    assert written(VALUE, version) == bytes.fromhex(data)
    assert read(bytes.fromhex(data), version) == VALUE


def test_a_null_is_the_length_minus_one_and_zero_where_lengths_are_compact() -> None:
    message = replace(VALUE, name=None, parts=None)
    assert written(message, 2) == bytes.fromhex("ffff 0001 68 ffffffff 00")
    assert written(message, 3).startswith(bytes.fromhex("00 0001 68 00"))
    assert read(written(message, 2), 2) == read(written(message, 3), 3) == message


def test_a_null_that_a_version_lacks_is_replaced_or_refused() -> None:
    assert read(written(replace(VALUE, parts=None), 0), 0).parts == ()
    with pytest.raises(
        UnsupportedVersionError, match=r"Message version 1 cannot carry this name: .* too old"
    ):
        written(replace(VALUE, name=None), 1)
    with pytest.raises(ProtocolError, match="string of -1 bytes"):
        read(bytes.fromhex("ffff 0001 68 00000000 00"), 1)


def test_a_value_that_a_version_lacks_is_refused_unless_it_may_be_ignored() -> None:
    with pytest.raises(UnsupportedVersionError, match="Message version 1 cannot carry this data"):
        written(replace(VALUE, data=b"x"), 1)
    with pytest.raises(UnsupportedVersionError, match="Message version 2 cannot carry this first"):
        written(replace(VALUE, first=1), 2)
    ignored = replace(VALUE, parts=(Part(index=7, epoch=5),))
    assert read(written(ignored, 0), 0) == VALUE


def test_tagged_fields_are_sent_in_order_of_their_tags_where_they_are_not_their_defaults() -> None:
    message = replace(VALUE, first=258, sixth=Part(index=1, leader=2))
    tagged = "02  00 02 0102  06 06 01 ff 01 01 01 02".replace(" ", "")
    assert written(message, 3).endswith(bytes.fromhex(tagged))
    assert read(written(message, 3), 3) == message


def test_tags_that_are_not_declared_are_skipped_in_the_message_and_in_its_structs() -> None:
    inner = "02 07 ff  02 05 03 aaaaaa 01 01 04"
    outer = "03  00 02 0102  05 00  ffffffff0f 02 bbbb"
    data = bytes.fromhex(f"03 6162 0001 68 {inner} 00112233445566778899aabbccddeeff 00 {outer}")
    assert read(data, 3) == replace(VALUE, first=258, parts=(Part(index=7, leader=4),))


@for_each(
    ("tagged", "message"),
    [
        ("01 00 03 010200", "tagged field 0 of 3 bytes at 30 ends after 2"),
        ("01 00 01 01", "int16 of 2 bytes at 0 does not fit"),
        ("01 05 05 aa", "tagged field of 5 bytes at 30 does not fit"),
        ("01 05 ffffffff0f aa", "tagged field of 4294967295 bytes"),
        ("05 05 00", "varint at 30 has no end"),
        ("e907" + "05 00" * 1001, "1001 tagged fields at 29: at most 1000 are read"),
        ("ffffffffff 00", "varint at 27 has no end within 5 bytes"),
        ("ffffffff1f 00", "varint at 27 has more than 32 bits"),
    ],
)
def test_tagged_fields_that_lie_are_refused(tagged: str, message: str) -> None:
    body = written(VALUE, 3)[:-1]
    with pytest.raises(ProtocolError) as caught:
        read(body + bytes.fromhex(tagged), 3)
    assert message in str(caught.value)


def test_as_many_tagged_fields_as_are_read_are_skipped() -> None:
    assert read(written(VALUE, 3)[:-1] + bytes.fromhex("e807" + "05 00" * 1000), 3) == VALUE


@pytest.mark.parametrize("count", ["ffffffff0f", "ffffff7f", "10"])
def test_a_count_above_the_bytes_that_are_left_takes_no_memory(count: str) -> None:
    data = memoryview(bytes.fromhex(count))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="does not fit in a frame"):
            Array(INT8, count=COMPACT_LENGTH).read(data, 0)
        # As many bytes would be 256 MiB; threads of tests before this one may allocate some beside it.
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_reader_and_writer_is_derived_once() -> None:
    assert codec(Message, 2, False) is codec(Message, 2, False)
    assert codec(Message, 2, False) is not codec(Message, 1, False)


def test_secrets_and_payloads_are_not_shown() -> None:
    assert "data" not in repr(replace(VALUE, data=b"secret"))


VARINTS: Final[dict[int, str]] = {0: "00", 127: "7f", 128: "8001", 300: "ac02", 2**32 - 1: "ffffffff0f"}


@pytest.mark.parametrize("value", VARINTS)
def test_an_unsigned_varint_is_kafkas(value: int) -> None:
    out: list[Buffer] = []
    UNSIGNED_VARINT.write(value, out)
    assert b"".join(out) == bytes.fromhex(VARINTS[value])


@given(value=st.integers(0, 2**32 - 1), before=st.binary(max_size=3), after=st.binary(max_size=3))
def test_read_an_unsigned_varint_back_at_its_position(value: int, before: bytes, after: bytes) -> None:
    out: list[Buffer] = [before]
    UNSIGNED_VARINT.write(value, out)
    data = b"".join(out)
    assert UNSIGNED_VARINT.read(memoryview(data + after), len(before)) == (value, len(data))


TYPES: Final[dict[str, AnyType]] = {
    "varint": UNSIGNED_VARINT,
    "compact length": COMPACT_LENGTH,
    "bool": BOOL,
    "uuid": UUID,
    "compact string": String(length=COMPACT_LENGTH, nullable=True),
    "compact array": Array(String(length=COMPACT_LENGTH), count=COMPACT_LENGTH, nullable=True),
    "flexible struct": codec(Message, 3, True),
}


@pytest.mark.parametrize("name", TYPES)
@given(frame=st.binary(max_size=40))
def test_any_bytes_are_a_value_or_a_protocol_error(name: str, frame: bytes) -> None:
    value: Any
    try:
        value, end = TYPES[name].read(memoryview(frame), 0)
    except ProtocolError:
        return
    assert value is not ...
    assert 0 <= end <= len(frame)
