"""Log directories in which a file is of another kind, and those from a WebHDFS and from an S3 that fail: a
read has all records, or ends in one line."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import fsspec
import pytest

from spark_kafkawire.bounded import call_bounded
from spark_kafkawire.directories import file_systems, side_files
from spark_kafkawire.directories.files import (
    ENTRIES_BYTES_MAX,
    FileAccessError,
    FileSystemOptions,
    open_files,
)
from spark_kafkawire.errors import KafkaWireError
from tests.support.cases import for_each
from tests.support.directory_reading import DirectoryRead
from tests.support.golden import CORPUS
from tests.support.log_folders import KILLED, KILLED_END, MARKERS
from tests.support.noida import HOST
from tests.support.special_files import KINDS, special_file
from tests.support.table_reading import rows_of

#: A hang is not a slow machine, seconds.
DEADLINE_S: Final = 120.0
#: Sizes of a segment and of another file of zeros, and the memory that a read of one may take, bytes.
SEGMENT_BYTES: Final = 1 << 20
ZEROS_BYTES: Final = 100 << 20
MEMORY_MAX: Final = 32 << 20
FILES: Final = (
    *(f"events-0/{base:020}.log" for base in (0, 120, 310)),
    *(f"events-0/{310:020}.{end}" for end in ("index", "timeindex", "txnindex")),
    f"events-0/{402:020}.snapshot",
    *(f"events-0/{name}" for name in (side_files.LEADER_EPOCHS, side_files.PARTITION_METADATA)),
    *(side_files.META_PROPERTIES, side_files.HIGH_WATERMARKS, side_files.LOG_STARTS),
    *(side_files.CLEANER_OFFSETS, side_files.RECOVERY_POINTS),
)
#: Reads that open every kind of file, and their offsets: all, and the committed ones from a timestamp on.
READS: Final = (
    {"startingOffsets": "earliest"},
    {"kafka.isolation.level": "read_committed", "startingTimestamp": "1"},
)
#: What an error says after the path for a kind that cannot be opened.
REASONS: Final = {
    **{kind: f"cannot be read: {reason}" for kind, reason in KINDS.items()},
    "folder": "has the name of a file, and is a folder: remove or rename it",
    "link to nothing": "cannot be read: it is a link to a file that does not exist",
    "link to itself": "cannot be read: Too many levels of symbolic links",
    "unreadable": "cannot be read: Permission denied",
}


def offsets(path: Path | str, options: dict[str, str]) -> list[int]:
    return sorted(DirectoryRead(path, subscribe="events", **options).column("offset"))


EXPECTED: Final = [offsets(KILLED, options) for options in READS]


def replaced(path: Path, kind: str) -> None:
    """Put a file of a kind in the place of another one."""
    if kind == "unreadable":
        path.chmod(0)
        return
    content = path.with_name(f"{path.name}.away")
    path.rename(content)
    if kind == "zeros":
        path.touch()
        os.truncate(path, SEGMENT_BYTES if path.suffix == ".log" else ZEROS_BYTES)
    elif kind.startswith("link"):
        targets = {"link": content, "link to nothing": Path("nothing"), "link to itself": path}
        path.symlink_to(targets[kind])
    else:
        special_file(path, kind)


@contextmanager
def without_rights() -> Iterator[None]:
    """As another user: root reads what it has no right to."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def outcome(call: Any, path: str) -> Any:
    """The result of a call, or its error: one line, which names the file."""
    try:
        return call_bounded(call, DEADLINE_S, "read")
    except KafkaWireError as error:
        message = str(error)
        assert path in message
        assert "\n" not in message
        assert not message.endswith(": ")
        return error


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A copy of a directory, to change, which any user can list."""
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    return Path(shutil.copytree(KILLED, tmp_path / "logs"))


@pytest.mark.parametrize(
    ("name", "kind"),
    # Each file of two kinds, and of the others one file that planning reads, and one that tasks do.
    [
        (name, kind)
        for name in FILES
        for kind in ("link", "zeros", *REASONS)
        if kind in ("folder", "zeros") or name in (FILES[1], side_files.META_PROPERTIES)
    ],
)
def test_file_of_another_kind_is_an_error_or_costs_nothing(logs: Path, name: str, kind: str) -> None:
    replaced(logs / name, kind)
    with without_rights() if kind == "unreadable" else nullcontext():
        for options, expected in zip(READS, EXPECTED, strict=True):
            tracemalloc.start()
            try:
                result = outcome(lambda options=options: offsets(logs, options), name)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert peak < MEMORY_MAX
            if isinstance(result, FileAccessError):
                assert kind != "link"
                assert kind == "zeros" or f"{logs / name} {REASONS[kind]}" in str(result)
            elif isinstance(result, KafkaWireError):
                assert kind == "zeros"
            else:
                assert result == expected
        if name.endswith(".log"):
            assert isinstance(result, KafkaWireError) or kind == "link"
        for table in ("segments", "batches"):
            rows = outcome(
                lambda table=table: rows_of({"table": table, "path": str(logs), "subscribe": "events"}), name
            )
            if not isinstance(rows, KafkaWireError):
                assert len({row["file"] for row in rows}) == 4


@pytest.mark.parametrize(
    "kind", ["link", *(kind for kind in REASONS if kind not in ("folder", "unreadable"))]
)
def test_a_folder_of_a_log_that_is_of_another_kind_is_named(logs: Path, kind: str) -> None:
    shutil.copytree(logs / "events-0", logs / "others-0")
    replaced(logs / "events-0", kind)
    result = outcome(lambda: DirectoryRead(logs, **READS[0]).table().num_rows, "events-0")
    if kind == "link":
        assert result == len(EXPECTED[0]) + KILLED_END - len(MARKERS)
    else:
        assert f"{logs / 'events-0'} {REASONS[kind]}" in str(result)


@pytest.mark.parametrize("kind", [kind for kind in REASONS if kind != "unreadable"])
def test_the_last_segment_of_kafka_07_is_a_regular_file(tmp_path: Path, kind: str) -> None:
    logs = Path(shutil.copytree(CORPUS / "broker0", tmp_path / "logs"))
    (logs / ".kafka_cleanshutdown").touch()
    last = max(logs.glob("debian-plain-0/*.kafka"))
    replaced(last, kind)
    read = lambda: DirectoryRead(logs, subscribe="debian-plain", brokers="0").table().num_rows  # noqa: E731
    assert REASONS[kind] in str(outcome(read, last.name))


def test_a_segment_that_no_broker_can_open_is_named_with_both_sizes(logs: Path) -> None:
    path = logs / "events-0" / "00000000000000000310.log"
    os.truncate(path, 1 << 40)
    result = outcome(lambda: offsets(logs, READS[0]), str(path))
    assert f"has {1 << 40} bytes, and a broker writes at most {2**31 - 1}" in str(result)


@pytest.mark.parametrize("name", [*FILES[3:7], *FILES[7:]])
def test_a_file_that_is_longer_than_a_broker_writes_is_named_with_both_sizes(logs: Path, name: str) -> None:
    bytes_max = side_files.BYTES_MAX if name in FILES[7:] else ENTRIES_BYTES_MAX
    files = open_files(str(logs), FileSystemOptions())
    path = logs / name
    path.write_bytes(b"\1" * (bytes_max + 1))
    reason = f"{path} cannot be read: it has {bytes_max + 1} bytes, and a broker writes at most {bytes_max}"
    with pytest.raises(FileAccessError, match=reason):
        files.read_entries(str(path)) if bytes_max == ENTRIES_BYTES_MAX else files.read(str(path), bytes_max)
    path.write_bytes(b"\1" * 100 + bytes(ENTRIES_BYTES_MAX))
    assert files.read_entries(str(path)).rstrip(b"\0") == b"\1" * 100


# WebHDFS

LOG = "00000000000000000000.log"


class Answering(BaseHTTPRequestHandler):
    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""


@contextmanager
def served(server: ThreadingHTTPServer) -> Iterator[None]:
    with server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        yield
        server.shutdown()
        serving.join()


def queried(path: str) -> tuple[str, dict[str, str]]:
    """The path of a request, and its parameters."""
    parts = urlsplit(path)
    return parts.path, {name: values[0] for name, values in parse_qs(parts.query).items()}


class WebHdfs(ThreadingHTTPServer):
    """``KILLED`` as ``/logs``, as Hadoop answers: the name node redirects to a data node for content.

    ``failing`` is an operation and the end of a path; then ``status`` and ``body`` are the answer, or with
    status 0 no answer comes until the end. ``data_node`` is another address of the data node."""

    daemon_threads = True
    failing = ("", "")
    status = 403
    body = b""
    data_node = ""

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Node)
        self.ended = threading.Event()

    def fail(self, operation: str, path_end: str, status: int, body: bytes) -> None:
        self.failing, self.status, self.body = (operation, path_end), status, body

    def uri(self, path: str = "/logs") -> str:
        return f"webhdfs://{HOST}:{self.server_address[1]}{path}"


class _Node(Answering):
    server: WebHdfs

    def do_GET(self) -> None:
        whole, given = queried(self.path)
        is_data = whole.startswith("/data")
        path = whole.removeprefix("/data").removeprefix("/webhdfs/v1")
        operation = "DATA" if is_data else given["op"]
        failing, end = self.server.failing
        if operation == failing and path.endswith(end):
            if not self.server.status:
                self.server.ended.wait(60)
                return
            self.answer(self.server.status, self.server.body)
            return
        file = KILLED / path.removeprefix("/logs").lstrip("/")
        if not path.startswith("/logs") or not file.exists():
            self.answer(404, remote_error("FileNotFoundException", f"File does not exist: {path}"))
        elif operation == "LISTSTATUS":
            statuses = [_status(item, item.name) for item in file.iterdir()]
            self.answer(200, json.dumps({"FileStatuses": {"FileStatus": statuses}}).encode())
        elif operation == "GETFILESTATUS":
            self.answer(200, json.dumps({"FileStatus": _status(file, "")}).encode())
        elif operation == "OPEN":
            host, port = self.server.server_address[:2]
            data_node = self.server.data_node or f"http://{host!s}:{port}"
            self.answer(307, b"", Location=f"{data_node}/data{path}?{urlsplit(self.path).query}")
        else:
            start = int(given["offset"])
            self.answer(200, file.read_bytes()[start : start + int(given["length"])])


def _status(file: Path, name: str) -> dict[str, Any]:
    kind = "DIRECTORY" if file.is_dir() else "FILE"
    size = 0 if file.is_dir() else file.stat().st_size
    return {"type": kind, "length": size, "pathSuffix": name, "modificationTime": 1_700_000_000_000}


def remote_error(kind: str, message: str) -> bytes:
    return json.dumps({"RemoteException": {"exception": kind, "message": message}}).encode()


@pytest.fixture
def hdfs() -> Iterator[WebHdfs]:
    server = WebHdfs()
    with served(server):
        yield server
        server.ended.set()


def test_rows_from_hdfs_are_those_of_the_files(hdfs: WebHdfs) -> None:
    assert DirectoryRead(hdfs.uri()).table() == DirectoryRead(KILLED).table()
    [segment] = [
        item for item in open_files(hdfs.uri(), FileSystemOptions()).listed("/logs") if item.is_folder
    ]
    assert (segment.name, segment.modified_ms) == ("events-0", 1_700_000_000_000)


DENIED = remote_error("AccessControlException", "Permission denied: user=guest")


#: Operations and the ends of their paths, with answers that are errors in turn, and what is said of them.
FAILURES = [
    (403, DENIED, "status 403 AccessControlException: Permission denied: user=guest"),
    (500, b"<html>", "status 500 : Internal Server Error"),
    (503, remote_error("StandbyException", "state standby"), "status 503 StandbyException: state standby"),
]
REQUESTS = [
    ("LISTSTATUS", "/logs"),
    ("LISTSTATUS", "/events-0"),
    ("GETFILESTATUS", LOG),
    ("OPEN", LOG),
    ("DATA", LOG),
    ("DATA", "/replication-offset-checkpoint"),
]


@for_each(("request", "failure"), zip(REQUESTS, FAILURES * 2, strict=True))
def test_failed_request(request: tuple[str, str], failure: tuple[int, bytes, str], hdfs: WebHdfs) -> None:
    (operation, end), (status, body, reason) = request, failure
    hdfs.fail(operation, end, status, body)
    with pytest.raises(FileAccessError) as raised:
        DirectoryRead(hdfs.uri()).table()
    answered = rf"{re.escape(end)} cannot be read: http://.* answers with {re.escape(reason)}; "
    assert re.search(answered, str(raised.value))
    assert hdfs.uri("") in str(raised.value)


def test_content_that_is_cut_is_an_error(hdfs: WebHdfs) -> None:
    hdfs.fail("DATA", LOG, 200, bytes(9))
    with pytest.raises(FileAccessError, match=r"log cannot be read: the store returned 9 of \d+ bytes at "):
        DirectoryRead(hdfs.uri()).table()


def test_a_node_that_never_answers_is_an_error(hdfs: WebHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    read = DirectoryRead(hdfs.uri())
    monkeypatch.setattr(file_systems, "REQUEST_TIMEOUT_S", 0.7)
    hdfs.fail("DATA", LOG, 0, b"")
    with pytest.raises(FileAccessError, match=rf"{LOG} cannot be read: no answer within 0\.7 s"):
        read.table()


def test_an_error_does_not_show_a_delegation_token(hdfs: WebHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fsspec.config.conf, "webhdfs", {"token": "hush"})
    hdfs.data_node = "other://node"
    with pytest.raises(
        FileAccessError, match=r"No connection adapters .* 'other://node/data/logs/.*\?…'"
    ) as cut:
        DirectoryRead(hdfs.uri()).table()
    assert "hush" not in str(cut.value)
    with pytest.raises(FileAccessError) as down:
        DirectoryRead(f"webhdfs://{HOST}:1/logs")
    refused = "Connection refused; check that it is there, and who may read it"
    assert str(down.value) == f"webhdfs://{HOST}:1/logs cannot be read: {refused}"
    with pytest.raises(FileAccessError) as unknown:
        DirectoryRead("webhdfs://no host:9870/logs")
    assert "hush" not in str(unknown.value)
    assert "\n" not in str(unknown.value)


def test_a_path_that_is_not_there_is_named(hdfs: WebHdfs) -> None:
    with pytest.raises(FileAccessError) as missing:
        DirectoryRead(hdfs.uri("/missing"))
    assert str(missing.value) == f"path '{hdfs.uri('/missing')}' does not exist"


def test_a_user_is_named_in_the_path(hdfs: WebHdfs) -> None:
    named = hdfs.uri().replace("://", "://backup@")
    assert DirectoryRead(named).table() == DirectoryRead(KILLED).table()


@for_each(
    ("uri", "endpoint", "reason"),
    [
        ("webhdfs://node:9870/logs", "http://node:9871", r"fs\.endpoint does not apply to webhdfs://"),
        ("webhdfs:///logs", None, "it lacks the name node; write webhdfs://host:port/path"),
        ("webhdfs://node:9870/logs?user.name=backup", None, "takes no parameters"),
    ],
)
def test_what_fsspec_would_not_use_is_refused(uri: str, endpoint: str | None, reason: str) -> None:
    with pytest.raises(FileAccessError, match=reason):
        open_files(uri, FileSystemOptions(endpoint=endpoint))


def test_other_file_systems_of_fsspec() -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(KILLED), "/backup/logs", recursive=True)
    try:
        assert DirectoryRead("memory://backup/logs").table() == DirectoryRead(KILLED).table()
        with pytest.raises(FileAccessError, match=r"path 'memory:///?backup/missing' does not exist"):
            DirectoryRead("memory://backup/missing")
    finally:
        memory.rm("/backup", recursive=True)


# S3

NO_ACCESS = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"


class S3(ThreadingHTTPServer):
    """``KILLED`` as ``s3://bucket/logs``. ``denied`` is a kind of request, and the end of a key: then the
    answer is 403."""

    daemon_threads = True
    denied = ("", "")

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Requests)

    def read(self) -> Any:
        """The rows of a read."""
        where = {"fs__endpoint": f"http://{HOST}:{self.server_address[1]}", "fs__region": "us-east-1"}
        return DirectoryRead("s3://bucket/logs", **where).table()


class _Requests(Answering):
    server: S3
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path, given = queried(self.path)
        is_list = "list-type" in given
        key = given["prefix"] if is_list else unquote(path).removeprefix("/bucket/")
        kind, end = self.server.denied
        if kind == ("LIST" if is_list else self.command) and key.rstrip("/").endswith(end):
            self.answer(403, NO_ACCESS)
            return
        below = KILLED / key.removeprefix("logs").strip("/")
        if is_list:
            self.answer(200, _listed(key))
        elif not key.startswith("logs/") or not below.is_file():
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        elif (wanted := self.headers.get("Range")) is None:
            self.answer(200, below.read_bytes())
        else:
            start, stop = map(int, wanted.removeprefix("bytes=").split("-"))
            self.answer(206, below.read_bytes()[start : stop + 1])

    do_HEAD = do_GET

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        super().answer(status, body, Last_Modified="Mon, 01 Jan 2024 00:00:00 GMT", **headers)


def _listed(prefix: str) -> bytes:
    """The files and folders of a folder. The prefix ends in a slash."""
    below = KILLED / prefix.removeprefix("logs").strip("/")
    entries = sorted(below.iterdir()) if below.is_dir() else []
    files = "".join(
        f"<Contents><Key>{prefix}{item.name}</Key><Size>{item.stat().st_size}</Size>"
        "<LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>"
        for item in entries
        if item.is_file()
    )
    folders = "".join(
        f"<CommonPrefixes><Prefix>{prefix}{item.name}/</Prefix></CommonPrefixes>"
        for item in entries
        if item.is_dir()
    )
    count = f"<KeyCount>{len(entries)}</KeyCount><IsTruncated>false</IsTruncated>"
    return f"<ListBucketResult>{count}{files}{folders}</ListBucketResult>".encode()


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "anybody")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server = S3()
    with served(server):
        yield server


def test_rows_from_an_s3_are_those_of_the_files(s3: S3) -> None:
    assert s3.read() == DirectoryRead(KILLED).table()


@for_each(
    ("kind", "end"),
    [
        ("LIST", "logs"),
        ("LIST", "events-0"),
        ("HEAD", LOG),
        ("GET", LOG),
        ("GET", "replication-offset-checkpoint"),
    ],
)
def test_a_request_to_an_s3_that_fails_is_an_error(kind: str, end: str, s3: S3) -> None:
    s3.denied = kind, end
    with pytest.raises(FileAccessError, match=rf"s3://bucket/.*{end} cannot be read: .*AWS Error") as raised:
        s3.read()
    assert "\n" not in str(raised.value)
