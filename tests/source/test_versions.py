"""Faults during the negotiation of versions, and brokers before 0.11, which know no ApiVersions or serve
messages cut anywhere: all is exact or an error, and no older version is used than there is."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.errors import KafkaWireError, OptionError, UnsupportedVersionError
from spark_kafkawire.net import connecting
from spark_kafkawire.net.known_versions import BROKER_VERSIONS
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import Api, VersionRange
from spark_kafkawire.protocol.modern.fetch import FetchRequest
from spark_kafkawire.protocol.modern.minimum_versions import MinimumVersions
from spark_kafkawire.records.headers import HEADERS
from spark_kafkawire.records.record_log import encode_batches
from spark_kafkawire.records.rows import Records
from spark_kafkawire.source.schema import HEADERS_FIELD, MODERN_SCHEMA
from tests.records.batches import message
from tests.support.log_broker import OFFERED
from tests.support.log_server import LogServer, Sent
from tests.support.memory_log import MemoryLog
from tests.support.old_brokers import OldLogServer
from tests.support.reading import Read

VALUES: Final = [b"value %d" % number for number in range(20)]
STAMP_MS: Final = 1_577_836_800_000
QUICK: Final = {"retries": "1", "kafka__max__block__ms": "2s", "kafka__delivery__timeout__ms": "8s"}
#: The least versions that carry all that a record has.
LEAST: Final = {modern.FETCH: 4, modern.PRODUCE: 3}
#: What becomes of an answer: how much of it comes, and what happens then.
FAULTS: Final = {
    "closes": (0, "close"),
    "is silent": (0, "be silent"),
    "is cut": (20, "close"),
    "stalls": (20, "be silent"),
    "is fine": (None, "go on"),
}
#: Faults one after the other: some for each commit, all at night.
SHORT: Final = {("closes", "stalls"), ("is silent", "is cut"), ("stalls", "closes"), ("is cut", "is fine")}
PLANS: Final = [
    pytest.param(plan, marks=() if plan in SHORT else pytest.mark.nightly, id=" then ".join(plan))
    for plan in itertools.product(FAULTS, repeat=2)
]
WRITTEN: Final = StructType([MODERN_SCHEMA["value"], MODERN_SCHEMA["timestamp"], HEADERS_FIELD])
STAMP: Final = datetime.fromtimestamp(STAMP_MS / 1000, timezone.utc)


def logged() -> MemoryLog:
    rows = Records(
        pa.array(VALUES, pa.binary()),
        headers=pa.array([[{"key": "h", "value": b"v"}]] * len(VALUES), HEADERS),
        timestamps_ms=pa.array([STAMP_MS] * len(VALUES), pa.int64()),
    )
    batches = encode_batches(rows, batch_bytes_max=200, request_bytes_max=1 << 20, now_ms=0)
    return MemoryLog(*(bytes(batch.with_producer()) for batch in batches))


class Watched(LogServer):
    """A ``LogServer`` that remembers the versions of all requests that ask for something."""

    def __init__(self, **more: Any) -> None:
        self.log = logged()
        super().__init__({"t": [self.log]}, **more)
        self.versions: list[tuple[Api, int]] = []
        answer = self.broker.answer

        def watched(api: Api, version: int, request: Any) -> Any:
            if not (isinstance(request, FetchRequest) and not request.topics):
                self.versions.append((api, version))
            return answer(api, version, request)

        self.broker.answer = watched  # type: ignore[method-assign]

    def speaks_todays(self) -> bool:
        return all(version >= LEAST.get(api, 0) for api, version in self.versions)


def faulty(plan: Iterator[str], apis: set[Api]) -> Any:
    """A lie that plays the plan on the answers to these questions."""
    lock = threading.Lock()

    def lie(api: Api, frame: bytes) -> Sent:
        if api not in apis:
            return Sent(frame)
        with lock:
            size, then = FAULTS[next(plan, "is fine")]
        return Sent(frame[:size], then)  # type: ignore[arg-type]

    return lie


def read(servers: str, **options: str) -> list[tuple[Any, ...]]:
    given = {"subscribe": "t", "includeHeaders": "true", "requestTimeout": "600ms", **QUICK, **options}
    taken = {name: value for name, value in given.items() if not name.startswith("kafka__")}
    rows = Read(servers, kafkaConsumer__pollTimeoutMs="1", **taken).table().to_pylist()
    return [(row["value"], row["timestamp"], row["timestampType"], row["headers"]) for row in rows]


def exact(count: int = len(VALUES)) -> list[tuple[Any, ...]]:
    return [(value, STAMP, 0, [{"key": "h", "value": b"v"}]) for value in VALUES[:count]]


def written_by(servers: str, **options: str) -> Any:
    """A writer as it gets to a task."""
    given = {"topic": "t", "requestTimeout": "600ms", **QUICK, **options, "kafka.bootstrap.servers": servers}
    named = {name.replace("__", "."): value for name, value in given.items()}
    return pickle.loads(pickle.dumps(KafkaWireDataSource(named).writer(WRITTEN, False)))


def batch() -> pa.RecordBatch:
    stamps = pa.array([STAMP_MS * 1000], pa.timestamp("us", "UTC"))
    headers = pa.array([[{"key": "h", "value": b"v"}]], HEADERS)
    return pa.record_batch([pa.array([b"written"]), stamps, headers], names=WRITTEN.fieldNames())


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubt comes soon."""
    monkeypatch.setattr(connecting, "API_VERSIONS_ALONE_S", 0.05)
    monkeypatch.setattr(connecting, "API_VERSIONS_WAIT_S", 0.2)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("plan", PLANS)
def test_no_two_faults_while_versions_are_asked_make_a_broker_an_old_one(plan: tuple[str, ...]) -> None:
    for apis in ({modern.API_VERSIONS}, {modern.API_VERSIONS, modern.DESCRIBE_GROUPS, modern.FETCH}):
        for work in (read_all, write_one):
            POOL.close_idle()
            BROKER_VERSIONS.forget()
            with Watched(lie=faulty(iter(plan), apis)) as server:
                reported = ""
                try:
                    work(server)
                except KafkaWireError as error:
                    reported = str(error)
                assert "\n" not in reported
                assert server.speaks_todays(), server.versions
                assert all(known.release is None for known in BROKER_VERSIONS._known.values())


def read_all(server: Watched) -> None:
    assert read(server.bootstrap_servers) == exact()


def write_one(server: Watched) -> None:
    writer = written_by(server.bootstrap_servers)
    writer.commit([writer.write(iter([batch()]))])
    server.lie = None
    assert (b"written", STAMP, 0, [{"key": "h", "value": b"v"}]) in read(server.bootstrap_servers)[
        len(VALUES) :
    ]


def test_slowness_alone_makes_nobody_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """ApiVersions is answered after all of the time that a connection has for it, then after the doubt."""
    monkeypatch.setattr(connecting, "API_VERSIONS_ALONE_S", 0.1)
    monkeypatch.setattr(connecting, "API_VERSIONS_WAIT_S", 0.5)
    waits = iter((0.7, 0.2))
    pause = threading.Event()

    def slow(api: Api, frame: bytes) -> Sent:
        if api is modern.API_VERSIONS:
            pause.wait(next(waits, 0.2))
        return Sent(frame)

    with Watched(lie=slow) as server:
        assert read(server.bootstrap_servers, requestTimeout="30s") == exact()
        limits = {"requestTimeout": "30s", "kafka__delivery__timeout__ms": "30s"}
        writer = written_by(server.bootstrap_servers, **limits)
        writer.commit([writer.write(iter([batch()]))])
        assert server.speaks_todays()
        assert modern.INIT_PRODUCER_ID in dict(server.versions)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("change", ["0.9", "offers less"])
def test_a_task_that_finds_its_broker_older_than_planning_did_fails_with_one_line(change: str) -> None:
    with Watched() as server:
        planned = Read(
            server.bootstrap_servers,
            subscribe="t",
            requestTimeout="600ms",
            retries="1",
            kafkaConsumer__pollTimeoutMs="1",
        )
        writer = written_by(server.bootstrap_servers)
        assert [task.minimum_versions for task in planned.tasks] == [MinimumVersions(4, 3, 0)]
        assert len(pickle.dumps(planned.tasks[0].minimum_versions)) < 120
        # As in a process that has seen nothing yet.
        POOL.close_idle()
        BROKER_VERSIONS.forget()
        server.versions.clear()
        degrade(server, change)
        for work in (planned.table, lambda: writer.write(iter([batch()]))):
            with pytest.raises(KafkaWireError) as error:
                work()
            assert "\n" not in str(error.value)
            if change == "offers less":
                when = "its cluster when the query was planned: it offers Fetch 3"
                assert f"the broker is older than {when}" in str(error.value)
            else:
                assert "so this one is not treated as 0.8 or 0.9" in str(error.value)
        assert not {modern.FETCH, modern.PRODUCE} & set(dict(server.versions))


def degrade(server: Watched, change: str) -> None:
    if change == "offers less":
        server.broker.offered = {**OFFERED, modern.FETCH.key: VersionRange(0, 3)}
        return
    old = OldLogServer(change, {"t": [server.log]})
    server.answer_as(old)
    old.close()


OLD_OFFERS: Final[Mapping[str, Mapping[int, VersionRange]]] = {
    "0.10": {modern.FETCH.key: VersionRange(0, 3), modern.PRODUCE.key: VersionRange(0, 2)},
    "0.11": {},
}


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(("release", "columns"), [("0.10", "headers"), ("0.11", None)])
def test_tell_what_is_lacking(release: str, columns: str | None, caplog: pytest.LogCaptureFixture) -> None:
    with Watched(offered={**OFFERED, **OLD_OFFERS[release]}) as server:
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
