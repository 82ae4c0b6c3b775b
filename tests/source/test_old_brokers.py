"""Reading from brokers before 0.11: they know no ApiVersions, or serve messages cut anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone

import pytest
from spark_kafkawire.errors import UnsupportedVersionError
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from tests.records.batches import message
from tests.support.log_server import LogServer
from tests.support.old_brokers import OldLogServer
from tests.support.reading import Read, read

COUNT = 500
#: What brokers speak of the APIs that a read needs.
OLD = {
    "0.8": None,
    "0.9": None,
    "0.10.0": {modern.METADATA.key: 1, modern.LIST_OFFSETS.key: 0, modern.FETCH.key: 2},
    "0.10.2": {modern.METADATA.key: 2, modern.LIST_OFFSETS.key: 1, modern.FETCH.key: 3},
}


class MessageLog:
    """Messages of magic 0 or 1, served as such brokers do: cut anywhere."""

    def __init__(self, magic: int) -> None:
        self.stop_offset = COUNT
        self._messages = [
            message(offset, b"value %d" % offset, b"key", magic=magic, timestamp_ms=1000 * offset)
            for offset in range(COUNT)
        ]

    def read(self, offset: int, size_max: int, /) -> bytes:
        return b"".join(self._messages[offset:])[:size_max]

    def append(self, _batches: object, /) -> int:
        raise AssertionError("this partition is read only")


@contextmanager
def old_broker(name: str) -> Iterator[LogServer]:
    """A broker as it was then."""
    versions = OLD[name]
    logs = {"t": [MessageLog(magic=0 if versions is None else 1)]}
    if versions is None:
        server: LogServer = OldLogServer(name, logs)
    else:
        offered = {key: VersionRange(0, version) for key, version in versions.items()}
        server = LogServer(logs, offered={**offered, modern.API_VERSIONS.key: VersionRange(0, 0)})
    with server:
        yield server


@pytest.mark.parametrize("name", OLD)
def test_an_old_broker_is_read(name: str) -> None:
    with old_broker(name) as server:
        rows = read(server.bootstrap_servers, subscribePattern="t", fetchBytes="1k", minPartitions="3")
    assert [row["value"] for row in rows] == [b"value %d" % offset for offset in range(COUNT)]
    assert [row["offset"] for row in rows] == list(range(COUNT))
    assert {row["key"] for row in rows} == {b"key"}
    has_times = OLD[name] is not None
    seconds = datetime.fromtimestamp(7, timezone.utc) if has_times else None
    assert (rows[7]["timestamp"], rows[7]["timestampType"]) == (seconds, 0 if has_times else -1)


@pytest.mark.parametrize("name", ["0.8", "0.9", "0.10.0"])
def test_timestamps_of_brokers_before_0_10_1_are_an_error_that_says_so(name: str) -> None:
    with (
        old_broker(name) as server,
        pytest.raises(UnsupportedVersionError, match=r"older than Kafka 0\.10\.1 .*: give offsets instead"),
    ):
        Read(server.bootstrap_servers, subscribe="t", startingTimestamp="5000")
