"""Log directories from an S3 that fails: an error, never no rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from spark_kafkawire.directories.files import FileAccessError
from tests.support.directory_reading import DirectoryRead
from tests.support.log_folders import KILLED
from tests.support.noida import HOST

LOG = "00000000000000000000.log"
DENIED = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"


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


class _Requests(BaseHTTPRequestHandler):
    server: S3
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        given = {name: values[0] for name, values in parse_qs(parts.query).items()}
        is_list = "list-type" in given
        key = given["prefix"] if is_list else unquote(parts.path).removeprefix("/bucket/")
        kind, end = self.server.denied
        if kind == ("LIST" if is_list else self.command) and key.rstrip("/").endswith(end):
            self._answer(403, DENIED)
            return
        below = KILLED / key.removeprefix("logs").strip("/")
        if is_list:
            self._answer(200, _listed(key))
        elif not key.startswith("logs/") or not below.is_file():
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        elif (wanted := self.headers.get("Range")) is None:
            self._answer(200, below.read_bytes())
        else:
            start, stop = map(int, wanted.removeprefix("bytes=").split("-"))
            self._answer(206, below.read_bytes()[start : stop + 1])

    do_HEAD = do_GET

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""


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
    with S3() as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        yield server
        server.shutdown()
        serving.join()


def test_rows_are_those_of_the_files(s3: S3) -> None:
    assert s3.read() == DirectoryRead(KILLED).table()


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("LIST", "logs"),
        ("LIST", "events-0"),
        ("HEAD", LOG),
        ("GET", LOG),
        ("GET", "replication-offset-checkpoint"),
    ],
)
def test_a_request_that_fails_is_an_error(kind: str, end: str, s3: S3) -> None:
    s3.denied = kind, end
    with pytest.raises(FileAccessError, match=rf"s3://bucket/.*{end} cannot be read: .*AWS Error") as raised:
        s3.read()
    assert "\n" not in str(raised.value)
