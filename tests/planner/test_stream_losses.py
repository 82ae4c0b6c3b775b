"""Losses between two positions of a stream: their messages, and their proofs."""

from __future__ import annotations

import uuid

from spark_kafkawire.model import TopicPartition
from spark_kafkawire.planner.stream_losses import losses
from spark_kafkawire.planner.stream_offsets import UNPINNED, Position

A, B, C = (TopicPartition("t", number) for number in range(3))
OLD = TopicPartition("t", 1, broker=0)
ONE, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)


def test_what_is_gone_is_told_with_both_offsets() -> None:
    lost = losses(Position({A: 5, B: 7, C: UNPINNED}), Position({B: 3}))
    assert str(lost) == (
        "t 0 at offset 5 no longer exists; the end of t 1 was changed from 7 to 3: a topic was deleted "
        "or recreated, or a partition lost its end"
    )
    assert not losses(Position({A: 5, B: UNPINNED}), Position({A: 5}))
    assert losses(Position({A: 5}), Position({A: 4})).shorter == ((A, 5, 4),)


def test_many_places_are_counted() -> None:
    partitions = [TopicPartition("t", number) for number in range(9)]
    assert str(losses(Position(dict.fromkeys(partitions, 9)), Position({}))).startswith(
        "t 0 at offset 9, t 1 at offset 9, t 2 at offset 9 and 6 more partitions no longer exist: "
    )
    assert str(
        losses(Position(dict.fromkeys(partitions[:4], 9)), Position(dict.fromkeys(partitions, 2)))
    ).startswith(
        "the end of t 0 was changed from 9 to 2; the end of t 1 was changed from 9 to 2; the end of t 2 was "
        "changed from 9 to 2; 1 more partition: "
    )


def test_another_id_is_another_topic_whatever_it_holds() -> None:
    for end in (3, 5, 7):
        lost = losses(Position({A: 5, B: 2}, {"t": ONE}), Position({A: end}, {"t": OTHER}))
        assert (lost.recreated, lost.vanished, lost.shorter) == (
            (("t", ONE, OTHER),),
            (),
            (),
        )
        assert not lost.unproven
    assert str(lost) == (
        "the topic t was deleted and recreated: its id was AAAAAAAAAAAAAAAAAAAAAQ, and is "
        "AAAAAAAAAAAAAAAAAAAAAg"
    )
    for before, now in (({}, {"t": ONE}), ({"t": ONE}, {}), ({"t": ONE}, {"t": ONE})):
        assert not losses(Position({A: 5}, before), Position({A: 5}, now))


def test_an_end_that_fell_and_a_partition_that_its_topic_lacks_are_unproven() -> None:
    both = losses(Position({A: 5, B: 7}), Position({A: 3}))
    assert both.unproven == (B, A)
    assert not losses(Position({A: 5, B: 7}), Position({})).unproven  # the whole topic is gone
    assert not losses(Position({OLD: 5}), Position({OLD: 3})).unproven  # its broker alone has the log
