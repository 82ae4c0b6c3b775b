"""Answers of a schema registry, or of something in its place, that are broken, late or for another request.

An answer that is consistent and wrong is not among them, because no client can know it: another text of a
schema, or the registry's own code for an unknown one.
"""

from __future__ import annotations

import contextlib
import json
import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tests.support.fake_registry import Fault, cut, raw, refusal, slow, status

from .operation import SECRET

_PAGE: Final = b"<html><title>Welcome</title></html>"
#: What a registry may say in its own words, which no log may show as they are.
_WORDS: Final = f"{SECRET}\n\x1b[31m"
#: Longer than the deadline of a request.
_LATE_S: Final = 1.0
_HEAD_BYTES: Final = 70_000


@dataclass(frozen=True, slots=True)
class Honest:
    """An honest answer to a request for a path."""

    path: str
    code: int
    found: Mapping[str, Any]

    @property
    def body(self) -> bytes:
        """Its JSON."""
        return json.dumps(dict(self.found)).encode()

    @property
    def http(self) -> bytes:
        """All its bytes."""
        return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (self.code, len(self.body), self.body)


#: Draws a fault in place of an honest answer; None where that has nothing to change.
Answer = Callable[[Honest, random.Random], Fault | None]


def _half(honest: Honest, draw: random.Random) -> Fault:
    return raw(honest.http[: draw.randrange(len(honest.http))])


def _half_of_the_body(honest: Honest, draw: random.Random) -> Fault:
    return status(honest.code, honest.body[: draw.randrange(len(honest.body))])


def _garbage(_: Honest, draw: random.Random) -> Fault:
    begin = draw.choice((b"", b"HTTP/1.1 ", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"))
    return raw(begin + draw.randbytes(draw.choice((1, 100, 100_000))))


def _other_type(honest: Honest, draw: random.Random) -> Fault | None:
    """A value of a type that it never has."""
    names = [name for name in ("schema", "schemaType", "references", "id", "version") if name in honest.found]
    if not names:
        return None
    value: object = draw.choice((True, -1, 1.5, {"a": 1}, [[]], [1]))
    return status(honest.code, json.dumps({**honest.found, draw.choice(names): value}).encode())


def _without(honest: Honest, draw: random.Random) -> Fault | None:
    """An answer without something that it must have."""
    names = [name for name in ("schema", "id", "version") if name in honest.found]
    if not names:
        return None
    left_out = draw.choice(names)
    found = {name: value for name, value in honest.found.items() if name != left_out}
    return status(honest.code, json.dumps(found).encode())


def _of_another(honest: Honest, draw: random.Random) -> Fault | None:
    """The answer to a request for another schema, which says so itself."""
    other: dict[str, Any] = {"schema": '"another one"', "id": draw.choice((2**20, 2**31 - 1))}
    match [unquote(part) for part in urlsplit(honest.path).path.split("/")[1:]]:
        case ["schemas", "ids", _]:
            pass
        case ["schemas", "guids", _]:
            other["guid"] = str(uuid.UUID(int=draw.getrandbits(128)))
        case ["subjects", subject, "versions", number]:
            is_latest = number == "latest"
            other |= {"subject": subject, "version": 1 if is_latest else int(number)}
            if is_latest or draw.random() < 0.5:  # an older version may be the latest one
                other["subject"] += "-other"
            else:
                other["version"] += draw.choice((-1, 1, 7))
        case _:
            return None
    return status(200, json.dumps(other).encode())


def _in_chunks(honest: Honest, draw: random.Random) -> Fault:
    """The same answer in chunks, or with chunks that are longer or shorter than they say."""
    wrong, pos = draw.choice((0, 0, 1, -1, 10**9)), draw.randrange(len(honest.body) + 1)
    parts = [part for part in (honest.body[:pos], honest.body[pos:]) if part]
    chunks = b"".join(b"%x\r\n%b\r\n" % (max(len(part) + wrong, 1), part) for part in parts)
    head = b"HTTP/1.1 %d X\r\nTransfer-Encoding: chunked\r\n\r\n" % honest.code
    return raw(head + chunks + b"0\r\n\r\n")


def _in_pieces(honest: Honest, draw: random.Random) -> Fault:
    """The same answer, some bytes at a time: each is in time, and all together may not be."""
    size, pause_s = draw.choice(((1, 0.1), (7, 0.02), (1000, 0.01)))

    def answer(handler: BaseHTTPRequestHandler) -> None:
        with contextlib.suppress(OSError):
            for pos in range(0, len(honest.http), size):
                handler.wfile.write(honest.http[pos : pos + size])
                time.sleep(pause_s)

    return answer


def _failing(_: Honest, draw: random.Random) -> Fault:
    """A server that has a problem, in its own words or in those of a proxy."""
    code = draw.choice((408, 429, 500, 502, 503, 504))
    return draw.choice((status(code, _PAGE), refusal(code, 50001, _WORDS)))


def _not_found(_: Honest, draw: random.Random) -> Fault:
    """A 404 that is not the registry's own."""
    return status(404, draw.choice((b"", _PAGE, b"{}", b'{"error_code": "40403"}', b"[40403]")))


def _always(fault: Fault) -> Answer:
    return lambda *_: fault


#: Answers that a client asks for again.
BROKEN: Final[Mapping[str, Answer]] = {
    "half": _half,
    "half of the body": _half_of_the_body,
    "garbage": _garbage,
    "cut": _always(cut),
    "page": _always(status(200, _PAGE)),
    "list": _always(status(200, b"[]")),
    "deep": _always(status(200, b"[" * 100_000)),
    "long head": _always(raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * _HEAD_BYTES)),
    "other type": _other_type,
    "without": _without,
    "of another": _of_another,
    "in chunks": _in_chunks,
    "in pieces": _in_pieces,
    "late": _always(slow(_LATE_S)),
    "failing": _failing,
    "not found": _not_found,
}
#: Answers that end a request with the error of this name at once.
FINAL: Final[Mapping[str, tuple[str, Answer]]] = {
    "redirect": ("RegistryError", _always(status(302, _PAGE, Location="http://127.0.0.1:1/"))),
    "refusal": ("RegistryError", _always(refusal(422, 42201, _WORDS))),
    "login": ("AuthenticationError", _always(refusal(401, 40101, _WORDS))),
    "right": ("AuthenticationError", _always(refusal(403, 40301, _WORDS))),
}
