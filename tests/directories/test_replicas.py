"""The replica that is read for each range of a partition."""

from __future__ import annotations

import random
from itertools import pairwise

from spark_kafkawire.directories.checkpoints import EpochStart
from spark_kafkawire.directories.replicas import (
    Contradiction,
    Piece,
    Replica,
    choose,
    contradiction,
)
from tests.support.cases import for_each


def epochs(*pairs: tuple[int, int]) -> tuple[EpochStart, ...]:
    return tuple(EpochStart(*pair) for pair in pairs)


def test_one_replica_is_read_to_its_end() -> None:
    assert choose([Replica(5, 20, 12)]).pieces == (Piece(5, 20, 0),)
    assert choose([Replica(5, 5, 5)]).pieces == ()


def test_records_above_the_high_watermark_do_not_come_from_the_longest_replica() -> None:
    one = epochs((3, 0))
    found = choose([Replica(0, 120, 100, one), Replica(0, 105, 100, one), Replica(0, 100, 90, one)])
    assert (found.end, found.pieces) == (100, (Piece(0, 100, 0),))


def test_an_election_ends_what_a_replica_is_right_about() -> None:
    # The first broker was the leader of epoch 3 and was away when the second one became that of epoch 4.
    first = Replica(0, 120, 100, epochs((3, 0)))
    second = Replica(40, 105, 98, epochs((3, 40), (4, 95)))
    found = choose([first, second])
    assert found.authority == 1
    assert found.agreed == (95, 105)
    assert found.pieces == (Piece(0, 40, 0), Piece(40, 98, 1))


def test_an_unclean_election_replaces_committed_records() -> None:
    first = Replica(0, 100, 100, epochs((5, 0)))
    second = Replica(0, 90, 90, epochs((5, 0), (6, 80)))
    found = choose([first, second])
    assert (found.end, found.pieces) == (90, (Piece(0, 90, 1),))


def test_a_replica_that_diverged_twice_agrees_up_to_the_first_time() -> None:
    authority = Replica(0, 100, 100, epochs((1, 0), (2, 30), (5, 60)))
    other = Replica(0, 90, 90, epochs((1, 0), (2, 30), (3, 50), (4, 70)))
    found = choose([authority, other])
    assert found.agreed == (100, 50)
    assert found.pieces == (Piece(0, 100, 0),)


def test_a_start_that_delete_records_moved_counts_for_all() -> None:
    one = epochs((0, 0))
    found = choose([Replica(0, 50, 50, one), Replica(30, 50, 50, one, log_start=30)])
    assert (found.start, found.pieces) == (30, (Piece(30, 50, 0),))


def test_without_a_high_watermark_only_what_all_hold_is_read() -> None:
    one = epochs((0, 0))
    assert choose([Replica(0, 50, None, one), Replica(0, 45, None, one)]).end == 45
    assert choose([Replica(0, 50), Replica(0, 45)]).end == 45


def test_replicas_before_leader_epochs_agree_where_they_are_committed() -> None:
    found = choose([Replica(0, 50, 40), Replica(0, 60, 45)])
    assert (found.end, found.pieces) == (45, (Piece(0, 45, 1),))


def test_an_epoch_that_begins_twice_is_a_contradiction() -> None:
    a = Replica(0, 50, 50, epochs((0, 0), (2, 20), (3, 30)))
    b = Replica(0, 50, 50, epochs((1, 10), (2, 20), (3, 31)))
    assert contradiction([a, a]) is None
    # The first epoch of a log begins where the log does.
    assert contradiction([a, Replica(5, 50, 50, epochs((2, 22)))]) is None
    found = contradiction([a, a, b])
    assert isinstance(found, Contradiction)
    assert (found.first, found.second) == (0, 2)
    assert "leader epoch 3 begins at offset 30 in the first and at 31" in found.reason


@for_each("seed", range(40))
def test_a_choice_never_contradicts_what_was_committed(seed: int) -> None:
    """A partition with elections among followers that lag: what is chosen is what was committed."""
    drawn = random.Random(seed)
    logs: list[list[int]] = [[], [], []]  # the epoch of each record
    starts: list[list[tuple[int, int]]] = [[], [], []]
    committed: list[int] = []
    marks = [0, 0, 0]
    for epoch in range(6):
        # Only a replica with all committed records is elected, as from the ISR.
        able = [each for each in range(3) if logs[each][: len(committed)] == committed]
        leader = drawn.choice(able)
        starts[leader] = [each for each in starts[leader] if each[1] < len(logs[leader])]
        starts[leader].append((epoch, len(logs[leader])))
        logs[leader] += [epoch] * drawn.randrange(1, 6)
        for follower in range(3):
            if follower == leader or drawn.random() < 0.3:
                continue
            size = drawn.randrange(len(committed), len(logs[leader]) + 1)
            logs[follower] = logs[leader][:size]
            starts[follower] = [each for each in starts[leader] if each[1] < size]
        in_sync = sorted(
            len(log) for log in logs if log == logs[leader][: len(log)] and len(log) >= len(committed)
        )
        if len(in_sync) > 1 and in_sync[0] > len(committed):
            committed = logs[leader][: in_sync[0]]
        for each in range(3):
            if logs[each][: len(committed)] == committed:
                marks[each] = drawn.randrange(marks[each], len(committed) + 1)
    replicas = [
        Replica(0, len(log), min(mark, len(log)), tuple(EpochStart(*each) for each in own))
        for log, mark, own in zip(logs, marks, starts, strict=True)
    ]
    found = choose(replicas)
    assert contradiction(replicas) is None
    assert all(a.stop == b.start for a, b in pairwise(found.pieces))
    chosen = [epoch for piece in found.pieces for epoch in logs[piece.replica][piece.start : piece.stop]]
    assert chosen == committed[: len(chosen)]
    assert len(chosen) >= max(marks)
