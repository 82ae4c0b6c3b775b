"""Answers of an authorization server over HTTP: tokens that it grants, and a script that sends one answer."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

from .login_broker import TOKEN
from .peers import Script


def granted(token: object = TOKEN, **more: object) -> dict[str, Any]:
    return {"access_token": token, "token_type": "Bearer", "expires_in": 3600, **more}


def http_answer(found: object, status: str = "200 OK", *headers: str) -> bytes:
    body = found if isinstance(found, bytes) else json.dumps(found).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def saying(answer: bytes, seen: list[bytes] | None = None) -> Script:
    """Read a request's head and body, and answer it."""

    def script(connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data or not data.endswith((b"credentials", b"kafka+all")):
            chunk = connection.recv(1 << 16)
            if not chunk:
                return
            data += chunk
        if seen is not None:
            seen.append(data)
        connection.sendall(answer)

    return script


def asked_for(answer: bytes | Callable[[bytes], bytes], seen: list[bytes] | None = None) -> Script:
    """Read one request as long as its head says, and answer it: always with the same bytes, or with those
    that a function makes of the request."""

    def script(connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            if not (chunk := connection.recv(1 << 16)):
                return
            data += chunk
        head, _, body = data.partition(b"\r\n\r\n")
        size = head.lower().partition(b"content-length:")[2].split()
        while size and len(body) < int(size[0]):
            body += connection.recv(1 << 16)
        request = head + b"\r\n\r\n" + body
        if seen is not None:
            seen.append(request)
        connection.sendall(answer if isinstance(answer, bytes) else answer(request))

    return script
