"""Answers of an authorization server over HTTP: tokens that it grants, and a script that sends one answer."""

from __future__ import annotations

import json
import socket
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
