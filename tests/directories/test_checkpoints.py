"""Checkpoints and properties, as brokers of Apache Kafka wrote them."""

from __future__ import annotations

import pytest

from spark_kafkawire.directories.checkpoints import (
    EpochStart,
    epoch_end,
    epochs_of,
    offsets_of,
    properties_of,
)
from spark_kafkawire.directories.names import LogName
from spark_kafkawire.errors import CorruptDataError
from tests.support.cases import for_each
from tests.support.log_folders import KILLED, KILLED_END, START_OFFSET, STOPPED


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
