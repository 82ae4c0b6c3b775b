"""Snapshots of producers' states, as brokers of Apache Kafka wrote them."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_kafkawire.directories.snapshots import open_transactions
from spark_kafkawire.errors import CorruptDataError
from tests.support.cases import for_each
from tests.support.log_folders import KILLED, KILLED_4, STOPPED

SNAPSHOTS = sorted(
    path for each in (STOPPED, KILLED, KILLED_4) for path in (each / "events-0").glob("*.snapshot")
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
