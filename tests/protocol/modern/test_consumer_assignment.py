"""Assignments of members of classic groups, and bytes of other formats."""

from __future__ import annotations

from typing import Final

from spark_kafkawire.protocol.modern.consumer_assignment import AssignedTopic, assigned_topics
from tests.support.cases import for_each

#: Version 1, the partitions 0 and 2 of the topic "ab", and no data of the assignor.
ASSIGNMENT: Final = bytes.fromhex("0001 00000001 0002 6162 00000002 00000000 00000002 ffffffff")


def test_topics_are_read_with_their_partitions() -> None:
    assert assigned_topics(ASSIGNMENT) == (AssignedTopic(topic="ab", partitions=(0, 2)),)
    assert assigned_topics(memoryview(b"")) == ()


@for_each("size", range(1, len(ASSIGNMENT) - 4))
def test_a_cut_assignment_is_of_another_format(size: int) -> None:
    assert assigned_topics(ASSIGNMENT[:size]) is None


def test_a_wrong_byte_is_another_assignment_or_of_another_format() -> None:
    for place in range(len(ASSIGNMENT)):
        damaged = bytearray(ASSIGNMENT)
        damaged[place] ^= 0x80
        found = assigned_topics(damaged)
        assert found is None or all(isinstance(each, AssignedTopic) for each in found)
