"""HTTP over real sockets: whole answers, cut ones, long ones, slow ones."""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import time
from typing import Final

import pytest

from spark_kafkawire.errors import ConnectFailed, KafkaWireError, RequestTimedOut
from spark_kafkawire.net.http import Answer, Url, ask
from spark_kafkawire.net.transport import Deadline
from tests.support.cases import for_each
from tests.support.polling import GRACE_S

from .modern_peers import mutated
from .peers import Peer, Script, stalling

BODY: Final = b'{"schema": "\\"long\\""}'
GOOD: Final = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
#: Memory that an announced length must not take, KiB.
_MEMORY_KIB: Final = 200_000


def saying(*parts: bytes, seen: list[bytes] | None = None, keeps_open: bool = False) -> Script:
    """Read a request and send the parts one by one; with ``keeps_open`` the client closes."""

    def script(connection: socket.socket) -> None:
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            if not (chunk := connection.recv(1 << 16)):
                return
            data += chunk
        if seen is not None:
            seen.append(data)
        for part in parts:
            connection.sendall(part)
        while keeps_open and connection.recv(1 << 16):
            pass

    return script


def got(peer: Peer, timeout_s: float = 10, answer_bytes_max: int = 1 << 20) -> Answer:
    url = Url.parse(f"http://127.0.0.1:{peer.broker.port}/schemas/ids/1?a=b")
    assert url is not None
    deadline = Deadline.after(timeout_s)
    return ask(url, "GET", {"Accept": "application/json"}, None, None, deadline, answer_bytes_max)


def test_a_request_has_its_headers_and_its_answer_a_status_and_a_body() -> None:
    seen: list[bytes] = []
    with Peer(saying(GOOD, seen=seen)) as peer:
        assert got(peer) == Answer(200, BODY)
    assert seen[0].decode().splitlines() == [
        "GET /schemas/ids/1?a=b HTTP/1.1",
        f"Host: 127.0.0.1:{peer.broker.port}",
        "Accept: application/json",
        "Connection: close",
        "",
    ]


def test_an_answer_that_tells_its_length_ends_there_if_the_server_keeps_the_connection() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (
        len(BODY),
        BODY,
    )
    for answer in (GOOD, chunked):
        with Peer(saying(answer, keeps_open=True)) as peer:
            assert got(peer) == Answer(200, BODY)


def test_an_answer_is_the_same_in_any_pieces() -> None:
    with Peer(saying(*(GOOD[pos : pos + 1] for pos in range(len(GOOD))))) as peer:
        assert got(peer) == Answer(200, BODY)


def test_a_cut_answer_is_an_error() -> None:
    cuts = range(0, len(GOOD), 3)
    with Peer(*(saying(GOOD[:stop]) for stop in cuts)) as peer:
        for _ in cuts:
            with pytest.raises(ConnectFailed, match=r"^the answer .*ends early"):
                got(peer)


@pytest.mark.parametrize("size", [1 << 33, 1 << 62, 10**40])
@pytest.mark.parametrize("form", ["Content-Length: %d\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n%x\r\n"])
def test_memory_is_taken_for_what_came_and_not_for_what_is_announced(form: str, size: int) -> None:
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    head = f"HTTP/1.1 200 OK\r\n{form % size}"
    with Peer(saying(head.encode(), bytes(5000))) as peer, pytest.raises(ConnectFailed):
        got(peer)
    with (
        Peer(saying(head.encode(), bytes(20_000))) as peer,
        pytest.raises(ConnectFailed, match=r"longer than 10000 bytes|not HTTP"),
    ):
        got(peer, answer_bytes_max=10_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < _MEMORY_KIB


def test_a_silent_server_is_left_at_the_deadline() -> None:
    began_s = time.monotonic()
    with (
        Peer(stalling()) as peer,
        pytest.raises(RequestTimedOut, match=r"no answer within 0\.3 s"),
    ):
        got(peer, timeout_s=0.3)
    assert time.monotonic() - began_s < 0.3 + GRACE_S


def test_mutated_answers_are_answers_or_errors_of_this_package() -> None:
    draw = random.Random(7)
    answers = [mutated(GOOD, draw) for _ in range(300)]
    good = 0
    with Peer(*map(saying, answers)) as peer:
        for _ in answers:
            with contextlib.suppress(KafkaWireError):
                got(peer)
                good += 1
    assert 10 < good < len(answers)


@for_each(
    ("text", "expected"),
    [
        ("http://h", Url("http", "h", 80, "/", "h")),
        ("https://h:8081/a?b=c", Url("https", "h", 8081, "/a?b=c", "h:8081")),
        ("http://[::1]:8081/", Url("http", "::1", 8081, "/", "[::1]:8081")),
        ("h:8081", None),
        ("ftp://h/", None),
        ("http://", None),
        ("http://h:0/", None),
        ("http://h:70000/", None),
        ("http://h:x/", None),
        ("http://me:secret@h/", None),
        ("http://h/a b", None),
        ("http://h/\r\nX: y", None),
        ("http://h/#part", None),
        ("http://[::1/", None),
    ],
)
def test_a_url_is_of_a_host_and_has_no_login(text: str, expected: Url | None) -> None:
    assert Url.parse(text) == expected
