"""Brokers before 0.11, which know no ApiVersions or serve messages cut anywhere, and what they lack."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.errors import KafkaWireError, OptionError, UnsupportedVersionError
from spark_kafkawire.net import client as client_module
from spark_kafkawire.net.known_versions import BROKER_VERSIONS
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from spark_kafkawire.protocol.modern.minimum_versions import MinimumVersions
from spark_kafkawire.source.schema import HEADERS_FIELD, MODERN_SCHEMA
from tests.records.batches import batch as encoded
from tests.records.batches import message, record
from tests.support.log_broker import OFFERED
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.old_brokers import OldLogServer
from tests.support.reading import Read

QUICK: Final = {"retries": "1", "kafka__max__block__ms": "2s", "kafka__delivery__timeout__ms": "8s"}
WRITTEN: Final = StructType([MODERN_SCHEMA["value"], HEADERS_FIELD])


def logged() -> MemoryLog:
    return MemoryLog(encoded([record(0, b"v")]))


def written_by(servers: str, **options: str) -> Any:
    """A writer as it gets to a task."""
    given = {"topic": "t", "requestTimeout": "600ms", **QUICK, **options, "kafka.bootstrap.servers": servers}
    named = {name.replace("__", "."): value for name, value in given.items()}
    return pickle.loads(pickle.dumps(KafkaWireDataSource(named).writer(WRITTEN, False)))


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubt comes soon."""
    monkeypatch.setattr(client_module, "API_VERSIONS_ALONE_S", 0.05)
    monkeypatch.setattr(client_module, "API_VERSIONS_WAIT_S", 0.2)


@pytest.mark.usefixtures("hasty")
def test_a_task_that_finds_its_broker_older_than_planning_did_fails_with_one_line() -> None:
    with LogServer({"t": [logged()]}) as server:
        given = {"requestTimeout": "600ms", "retries": "1", "kafkaConsumer__pollTimeoutMs": "1s"}
        planned = Read(server.bootstrap_servers, subscribe="t", **given)
        writer = written_by(server.bootstrap_servers)
        assert [task.minimum_versions for task in planned.tasks] == [MinimumVersions(4, 3, 0)]
        assert len(pickle.dumps(planned.tasks[0].minimum_versions)) < 120
        # As in a process that has seen nothing yet.
        POOL.close_idle()
        BROKER_VERSIONS.forget()
        server.requests.clear()
        server.broker.offered = {**OFFERED, modern.FETCH.key: VersionRange(0, 3)}
        rows = pa.record_batch([pa.array([b"written"])], names=["value"])
        for work in (planned.table, lambda: writer.write(iter([rows]))):
            with pytest.raises(KafkaWireError) as error:
                work()
            assert "\n" not in str(error.value)
            when = "its cluster when the query was planned: it offers Fetch 3"
            assert f"the broker is older than {when}" in str(error.value)
        assert not {modern.FETCH, modern.PRODUCE} & set(server.requests)


OLD_OFFERS: Final[Mapping[str, Mapping[int, VersionRange]]] = {
    "0.10": {modern.FETCH.key: VersionRange(0, 3), modern.PRODUCE.key: VersionRange(0, 2)},
    "0.11": {},
}


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(("release", "columns"), [("0.10", "headers"), ("0.11", None)])
def test_tell_what_is_lacking(release: str, columns: str | None, caplog: pytest.LogCaptureFixture) -> None:
    with LogServer({"t": [logged()]}, offered={**OFFERED, **OLD_OFFERS[release]}) as server:
        Read(server.bootstrap_servers, subscribe="t", includeHeaders="true")
        reading = [message for message in caplog.messages if message.startswith("columns")]
        written_by(server.bootstrap_servers)
        writing = [message for message in caplog.messages if message.startswith("column ")]
        assert len(reading) == len(writing) == (columns is not None)
        if columns:
            assert reading[0].startswith("columns headers: broker 0 (127.0.0.1:")
            assert "is before Kafka 0.11 (Fetch 3, Produce 2) and has none: they are null" in reading[0]
            assert writing[0].endswith("and stores none: rows that have some are refused")
            with pytest.raises(
                OptionError, match=r"idempotence: .* is before Kafka 0\.11 .* have no idempotent"
            ):
                written_by(server.bootstrap_servers, kafka__enable__idempotence="true")
        # A projection that leaves such columns out loses nothing.
        caplog.clear()
        Read(server.bootstrap_servers, StructType([MODERN_SCHEMA["value"]]), subscribe="t")
        assert not caplog.messages


def test_tell_what_an_old_broker_lacks(caplog: pytest.LogCaptureFixture) -> None:
    """Brokers prove what they are, or the user says it."""
    for release, options in (("0.9", {}), ("0.8", {"kafka__api__version__request": "false"})):
        caplog.clear()
        options |= {"kafka__broker__version__fallback": release} if options else {}
        with OldLogServer(release, {"t": [logged()]}) as server:
            Read(server.bootstrap_servers, subscribe="t", **options)
            assert not options or {version for _, version in server.asked} == {0}
        [message] = caplog.messages
        told_by = "bootstrap server" if options else "broker 0"
        assert message.startswith(f"columns timestamp, timestampType: {told_by} (")
        assert f"is of Kafka {release} and has none: they are null, and timestampType is -1" in message


# Old brokers

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
        rows = Read(server.bootstrap_servers, subscribePattern="t", fetchBytes="1k", minPartitions="3").rows()
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
