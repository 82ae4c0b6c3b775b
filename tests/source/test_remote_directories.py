"""Log directories from a WebHDFS and from an S3 that fail: an error, never another content or no rows."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import fsspec
import pytest
from spark_kafkawire.directories import file_systems
from spark_kafkawire.directories.files import FileAccessError, FileSystemOptions, opened
from tests.support.cases import for_each
from tests.support.directory_reading import DirectoryRead
from tests.support.log_folders import KILLED
from tests.support.noida import HOST

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
            statuses = [_status(each, each.name) for each in file.iterdir()]
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
    [segment] = [each for each in opened(hdfs.uri(), FileSystemOptions()).listed("/logs") if each.is_folder]
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
def test_a_request_to_hdfs_that_fails_is_an_error(
    request: tuple[str, str], failure: tuple[int, bytes, str], hdfs: WebHdfs
) -> None:
    (operation, end), (status, body, reason) = request, failure
    hdfs.fail(operation, end, status, body)
    with pytest.raises(FileAccessError) as raised:
        DirectoryRead(hdfs.uri()).table()
    assert str(raised.value).endswith(f"{end} cannot be read: {reason}")
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


def test_what_is_no_answer_of_hdfs_is_an_error(hdfs: WebHdfs) -> None:
    hdfs.fail("LISTSTATUS", "/logs", 200, b"{}")
    with pytest.raises(FileAccessError, match=r"/logs cannot be read: KeyError: 'FileStatuses'$"):
        DirectoryRead(hdfs.uri())


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
    assert str(down.value) == f"webhdfs://{HOST}:1/logs cannot be read: Connection refused"
    with pytest.raises(FileAccessError) as unknown:
        DirectoryRead("webhdfs://no host:9870/logs")
    assert "hush" not in str(unknown.value)
    assert "\n" not in str(unknown.value)


def test_a_path_that_is_not_there_is_named(hdfs: WebHdfs) -> None:
    with pytest.raises(FileAccessError) as missing:
        DirectoryRead(hdfs.uri("/missing"))
    assert str(missing.value) == f"path '{hdfs.uri('/missing')}' does not exist"


def test_a_user_is_named_in_the_path_and_a_password_is_not(hdfs: WebHdfs) -> None:
    named = hdfs.uri().replace("://", "://backup@")
    assert DirectoryRead(named).table() == DirectoryRead(KILLED).table()
    with pytest.raises(FileAccessError, match="holds credentials") as refused:
        opened(hdfs.uri().replace("://", "://backup:hush@"), FileSystemOptions())
    assert "hush" not in str(refused.value)


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
        opened(uri, FileSystemOptions(endpoint=endpoint))


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
        f"<Contents><Key>{prefix}{each.name}</Key><Size>{each.stat().st_size}</Size>"
        "<LastModified>2024-01-01T00:00:00.000Z</LastModified></Contents>"
        for each in entries
        if each.is_file()
    )
    folders = "".join(
        f"<CommonPrefixes><Prefix>{prefix}{each.name}/</Prefix></CommonPrefixes>"
        for each in entries
        if each.is_dir()
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
