"""The order of a 0.7.2 broker's checks decides between silence and a close."""

from __future__ import annotations

import pytest

from spark_kafkawire.broker.messages import CheckedSet, OversizeMessage, check_produced, valid_size
from spark_kafkawire.errors import CorruptDataError
from tests.support.cases import for_each
from tests.support.message_sets import gzipped, message

GOOD = message(b"good")
LARGE = message(b"l" * 101)
WRONG_CRC = message(b"wrong")[:-1] + b"!"


def test_messages_are_counted_as_deep_as_they_are_nested() -> None:
    message_set = GOOD + gzipped(b"one", b"two", b"three") + message(b"")
    assert check_produced(message_set, 100) == CheckedSet(len(message_set), 5)


@pytest.mark.parametrize(
    "tail",
    [b"\0", b"\0\0\0", GOOD[:-1], b"\0\0\0\x03\1", b"\0\0\0\x64\7", b"\x7f\xff\xff\xff\1\0"],
    ids=["1 byte", "3 bytes", "cut", "cut and too short", "cut and unknown magic", "cut at 2 GiB"],
)
def test_what_the_end_cuts_is_dropped(tail: bytes) -> None:
    assert check_produced(GOOD + tail, 100) == CheckedSet(len(GOOD), 1)


@pytest.mark.parametrize("message_set", [b"", b"\0", b"\0\0\0"])
def test_less_than_a_length_is_an_empty_set(message_set: bytes) -> None:
    assert check_produced(message_set, 100) == CheckedSet(0, 0)


@for_each(
    "message_set",
    [
        GOOD[:-1],
        WRONG_CRC,
        GOOD + WRONG_CRC,
        GOOD + b"\0\0\0\0",
        GOOD + b"\xff\xff\xff\xff",
        GOOD + b"\0\0\0\x07\2\0\0\0\0\0\0",
        GOOD + b"\0\0\0\x05\1\0\0\0\0",
        message(b"no gzip", attributes=1),
        WRONG_CRC + LARGE,
        LARGE[:-1] + b"!",
    ],
    ids=[
        "first is cut",
        "wrong CRC",
        "wrong CRC later",
        "length 0",
        "length -1",
        "magic 2",
        "length 5 with magic 1",
        "no gzip",
        "wrong CRC before an oversize one",
        "oversize with a wrong CRC",
    ],
)
def test_what_the_broker_refuses_is_corrupt(message_set: bytes) -> None:
    with pytest.raises(CorruptDataError):
        check_produced(message_set, 100)


@pytest.mark.parametrize(
    "message_set",
    [LARGE, GOOD + LARGE, LARGE + WRONG_CRC, LARGE + b"\0\0\0\0", message(b"no gzip", attributes=1) + LARGE],
    ids=["alone", "later", "before a wrong CRC", "before length 0", "after damaged gzip"],
)
def test_an_oversize_message_is_seen_before_what_comes_after_it(message_set: bytes) -> None:
    with pytest.raises(OversizeMessage):
        check_produced(message_set, 100)


def test_the_largest_payload_that_is_allowed_is_stored() -> None:
    assert check_produced(LARGE, 101).count == 1


def test_every_cut_of_a_segment_recovers_its_whole_messages() -> None:
    whole = [message(b"a"), gzipped(b"b", b"c"), message(b""), message(b"d" * 50)]
    segment = b"".join(whole)
    ends = [sum(map(len, whole[:count])) for count in range(len(whole) + 1)]
    for size in range(len(segment) + 1):
        assert valid_size(memoryview(segment)[:size]) == max(end for end in ends if end <= size)


def test_recovery_does_not_look_into_compressed_messages() -> None:
    segment = GOOD + message(b"no gzip", attributes=1) + GOOD
    assert valid_size(memoryview(segment)) == len(segment)
