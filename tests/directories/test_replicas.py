"""Log directories: names, checkpoints, snapshots and replicas."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from spark_kafkawire.cluster.log_directories.modern_log import Piece, Replica, choose, contradiction
from spark_kafkawire.directories import FileKind, FileName, FileState, LogName, file_name, log_name
from spark_kafkawire.directories.side_files import (
    EpochStart,
    epoch_end,
    epochs_of,
    offsets_of,
    open_transactions,
    properties_of,
)
from spark_kafkawire.errors import CorruptDataError
from tests.support.cases import for_each
from tests.support.log_folders import (
    KILLED,
    KILLED_4,
    KILLED_END,
    START_OFFSET,
    STOPPED,
)


def epochs(*pairs: tuple[int, int]) -> tuple[EpochStart, ...]:
    return tuple(EpochStart(*pair) for pair in pairs)


def test_one_replica_is_read_to_its_end() -> None:
    assert choose([Replica(5, 20, 12)]).pieces == (Piece(5, 20, 0),)
    assert choose([Replica(5, 5, 5)]).pieces == ()


def test_records_above_the_high_watermark_do_not_come_from_the_longest_replica() -> None:
    one = epochs((3, 0))
    result = choose([Replica(0, 120, 100, one), Replica(0, 105, 100, one), Replica(0, 100, 90, one)])
    assert (result.end, result.pieces) == (100, (Piece(0, 100, 0),))


def test_an_election_ends_what_a_replica_is_right_about() -> None:
    # The first broker was the leader of epoch 3 and was away when the second one became that of epoch 4.
    first = Replica(0, 120, 100, epochs((3, 0)))
    second = Replica(40, 105, 98, epochs((3, 40), (4, 95)))
    result = choose([first, second])
    assert result.authority == 1
    assert result.agreed == (95, 105)
    assert result.pieces == (Piece(0, 40, 0), Piece(40, 98, 1))


def test_an_unclean_election_replaces_committed_records() -> None:
    first = Replica(0, 100, 100, epochs((5, 0)))
    second = Replica(0, 90, 90, epochs((5, 0), (6, 80)))
    result = choose([first, second])
    assert (result.end, result.pieces) == (90, (Piece(0, 90, 1),))


def test_a_replica_that_diverged_twice_agrees_up_to_the_first_time() -> None:
    authority = Replica(0, 100, 100, epochs((1, 0), (2, 30), (5, 60)))
    other = Replica(0, 90, 90, epochs((1, 0), (2, 30), (3, 50), (4, 70)))
    result = choose([authority, other])
    assert result.agreed == (100, 50)
    assert result.pieces == (Piece(0, 100, 0),)


def test_a_start_that_delete_records_moved_counts_for_all() -> None:
    one = epochs((0, 0))
    result = choose([Replica(0, 50, 50, one), Replica(30, 50, 50, one, log_start=30)])
    assert (result.start, result.pieces) == (30, (Piece(30, 50, 0),))


def test_without_a_high_watermark_only_what_all_hold_is_read() -> None:
    one = epochs((0, 0))
    assert choose([Replica(0, 50, None, one), Replica(0, 45, None, one)]).end == 45
    assert choose([Replica(0, 50), Replica(0, 45)]).end == 45


def test_replicas_before_leader_epochs_agree_where_they_are_committed() -> None:
    result = choose([Replica(0, 50, 40), Replica(0, 60, 45)])
    assert (result.end, result.pieces) == (45, (Piece(0, 45, 1),))


def test_an_epoch_that_begins_twice_is_a_contradiction() -> None:
    a = Replica(0, 50, 50, epochs((0, 0), (2, 20), (3, 30)))
    b = Replica(0, 50, 50, epochs((1, 10), (2, 20), (3, 31)))
    assert contradiction([a, a]) is None
    # The first epoch of a log begins where the log does.
    assert contradiction([a, Replica(5, 50, 50, epochs((2, 22)))]) is None
    reason = "leader epoch 3 begins at offset 30 in the first and at 31 in the second"
    assert contradiction([a, a, b]) == (0, 2, reason)


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
        able = [item for item in range(3) if logs[item][: len(committed)] == committed]
        leader = drawn.choice(able)
        starts[leader] = [item for item in starts[leader] if item[1] < len(logs[leader])]
        starts[leader].append((epoch, len(logs[leader])))
        logs[leader] += [epoch] * drawn.randrange(1, 6)
        for follower in range(3):
            if follower == leader or drawn.random() < 0.3:
                continue
            size = drawn.randrange(len(committed), len(logs[leader]) + 1)
            logs[follower] = logs[leader][:size]
            starts[follower] = [item for item in starts[leader] if item[1] < size]
        in_sync = sorted(
            len(log) for log in logs if log == logs[leader][: len(log)] and len(log) >= len(committed)
        )
        if len(in_sync) > 1 and in_sync[0] > len(committed):
            committed = logs[leader][: in_sync[0]]
        for item in range(3):
            if logs[item][: len(committed)] == committed:
                marks[item] = drawn.randrange(marks[item], len(committed) + 1)
    replicas = [
        Replica(0, len(log), min(mark, len(log)), tuple(EpochStart(*item) for item in own))
        for log, mark, own in zip(logs, marks, starts, strict=True)
    ]
    result = choose(replicas)
    assert contradiction(replicas) is None
    assert all(a.stop == b.start for a, b in pairwise(result.pieces))
    chosen = [epoch for piece in result.pieces for epoch in logs[piece.replica][piece.start : piece.stop]]
    assert chosen == committed[: len(chosen)]
    assert len(chosen) >= max(marks)


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("events-0", LogName("events", 0)),
        ("a-b-c-12", LogName("a-b-c", 12)),
        ("events--3", LogName("events-", 3)),
        ("a.b_c-2147483647", LogName("a.b_c", 2**31 - 1)),
        ("events-delete-0", LogName("events-delete", 0)),
        ("__consumer_offsets-49", LogName("__consumer_offsets", 49)),
    ],
)
def test_the_partition_follows_the_last_dash(folder: str, expected: LogName) -> None:
    assert log_name(folder) == expected
    assert str(expected) == folder


@pytest.mark.parametrize(
    "folder",
    [
        "events-0.4d5f3a0c9b3f4bb0a4bd0b47ec0ea0cd-delete",
        "events-0.4d5f3a0c9b3f4bb0a4bd0b47ec0ea0cd-future",
        "events-0.4d5f3a0c9b3f4bb0a4bd0b47ec0ea0cd-stray",
    ],
)
def test_logs_that_kafka_does_not_serve_are_passed_over(folder: str) -> None:
    assert log_name(folder) is None


@for_each(
    "folder", ["", "events", "-0", "events-", "events-x", "events-00", "events-2147483648", "events-\u0661"]
)
def test_other_folders_hold_no_log(folder: str) -> None:
    assert log_name(folder) is None


@for_each(
    ("name", "expected"),
    [
        ("00000000000000000042.log", FileName(42, FileKind.LOG)),
        ("00000000000000524291.kafka", FileName(524291, FileKind.V07_LOG)),
        ("00000000000000000042.index", FileName(42, FileKind.OFFSET_INDEX)),
        ("00000000000000000042.timeindex", FileName(42, FileKind.TIME_INDEX)),
        ("00000000000000000042.txnindex", FileName(42, FileKind.TXN_INDEX)),
        ("00000000000000000042.snapshot", FileName(42, FileKind.SNAPSHOT)),
        ("00000000000000000042.log.deleted", FileName(42, FileKind.LOG, FileState.DELETED)),
        ("00000000000000000042.index.cleaned", FileName(42, FileKind.OFFSET_INDEX, FileState.CLEANED)),
        ("00000000000000000042.log.swap", FileName(42, FileKind.LOG, FileState.SWAP)),
    ],
)
def test_files_of_segments(name: str, expected: FileName) -> None:
    assert file_name(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "42.log",
        "00000000000000000042.log.tmp",
        "99999999999999999999.log",
        "leader-epoch-checkpoint",
        "leader-epoch-checkpoint.tmp",
        "partition.metadata",
        "00000000000000000042-0000000001.checkpoint",
    ],
)
def test_other_files_do_not_belong_to_a_segment(name: str) -> None:
    assert file_name(name) is None


def test_offsets_by_log() -> None:
    events = LogName("events", 0)
    assert offsets_of((STOPPED / "log-start-offset-checkpoint").read_bytes()) == {events: START_OFFSET}
    assert offsets_of((KILLED / "replication-offset-checkpoint").read_bytes())[events] == KILLED_END


def test_a_new_checkpoint_is_empty() -> None:
    assert offsets_of((STOPPED / "cleaner-offset-checkpoint").read_bytes()) == {}


def test_leader_epochs() -> None:
    [first, second] = epochs_of((KILLED / "events-0" / "leader-epoch-checkpoint").read_bytes())
    assert (first.epoch, second.epoch) == (0, 2)
    assert second.start_offset == 402


@for_each(
    "data",
    [
        b"1\n0\n",
        b"0\n",
        b"0\n2\nevents 0 5\n",
        b"0\n1\nevents 0\n",
        b"0\n1\nevents 0 x\n",
        b"0\n2\nevents 0 5\nevents 0 6\n",
        b"\xff\xfe",
        b"0\n99999999999999999999999\n",
    ],
)
def test_a_checkpoint_that_is_cut_or_changed_is_damage(data: bytes) -> None:
    with pytest.raises(CorruptDataError):
        offsets_of(data)


@pytest.mark.parametrize("data", [b"0\n2\n3 10\n3 20\n", b"0\n2\n3 10\n4 9\n", b"0\n1\n3\n"])
def test_leader_epochs_that_fall_are_damage(data: bytes) -> None:
    with pytest.raises(CorruptDataError):
        epochs_of(data)


def test_the_end_of_an_epoch_is_the_start_of_the_next_one() -> None:
    epochs = (EpochStart(1, 0), EpochStart(4, 20), EpochStart(6, 35))
    assert epoch_end(epochs, 0, 50) == (-1, -1)
    assert epoch_end(epochs, 1, 50) == (1, 20)
    assert epoch_end(epochs, 5, 50) == (4, 35)
    assert epoch_end(epochs, 9, 50) == (6, 50)


def test_properties_of_a_broker_and_of_a_partition() -> None:
    meta = properties_of((STOPPED / "meta.properties").read_bytes())
    assert meta["node.id"] == "1"
    assert meta["cluster.id"] == "MkU3OEVBNTcwNTJENDM2Qg"
    partition = properties_of((STOPPED / "events-0" / "partition.metadata").read_bytes())
    assert len(partition["topic_id"]) == 22


SNAPSHOTS = sorted(
    path for item in (STOPPED, KILLED, KILLED_4) for path in (item / "events-0").glob("*.snapshot")
)


@for_each("path", SNAPSHOTS, ids=lambda path: f"{path.parts[-3]}-{path.name}")
def test_the_first_offset_of_an_open_transaction(path: Path) -> None:
    # The marker of the transaction that begins at 300 is the first record of the segment 310.
    expected = [300] if path.stem.endswith("310") else []
    assert list(open_transactions(path.read_bytes()).values()) == expected


def test_every_flipped_byte_is_damage() -> None:
    data = next(path.read_bytes() for path in SNAPSHOTS if path.stat().st_size > 10)
    for pos in range(len(data)):
        changed = bytearray(data)
        changed[pos] ^= 0x40
        with pytest.raises(CorruptDataError):
            open_transactions(bytes(changed))
    for size in range(len(data)):
        with pytest.raises(CorruptDataError):
            open_transactions(data[:size])
