"""A broker's side of GSSAPI, by MIT's own library, with the recorded tickets of ``tests/golden/kerberos``:
no KDC is needed.

The environment must name ``kafka.keytab`` (KRB5_KTNAME) and a configuration (KRB5_CONFIG): ``with_files``
does that.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Generator
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.net.logins.gssapi_library import NAME

from .login_broker import Login, Refused

RECORDED: Final = Path(__file__).parents[1] / "golden" / "kerberos"
CONFIGURATION: Final = """\
[libdefaults]
default_realm = KAFKAWIRE.TEST
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
"""


class _Data(ctypes.Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


def with_files(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the library of this process find the recorded key tab."""
    configuration = folder / "krb5.conf"
    configuration.write_text(CONFIGURATION)
    monkeypatch.setenv("KRB5_CONFIG", os.fspath(configuration))
    monkeypatch.setenv("KRB5_KTNAME", os.fspath(RECORDED / "kafka.keytab"))
    monkeypatch.setenv("KRB5RCACHENAME", "none:")
    monkeypatch.delenv("KRB5CCNAME", raising=False)


def gssapi(layers: bytes = b"\1\0\0\0", *, flips: int | None = None) -> Login:
    """A broker that offers these layers, and takes "none" alone. ``flips`` is the number of one of its
    tokens, of which a byte is changed."""

    def login() -> Generator[bytes, bytes, None]:
        acceptor = _Acceptor()
        try:
            answer = acceptor.accept((yield b""))
            said = yield _flipped(answer) if flips == 0 else answer
            assert said == b""
            offer = acceptor.wrap(layers)
            choice = acceptor.unwrap((yield _flipped(offer) if flips == 1 else offer))
        finally:
            acceptor.close()
        if choice != b"\1\0\0\0":
            raise Refused(f"the client chooses {choice.hex()}")
        yield b""

    return login


def _flipped(token: bytes) -> bytes:
    return token[:-3] + bytes([token[-3] ^ 1]) + token[-2:]


class _Acceptor:
    def __init__(self) -> None:
        self._library = ctypes.CDLL(NAME)
        self._context = c_void_p()
        for function in ("gss_accept_sec_context", "gss_wrap", "gss_unwrap", "gss_release_buffer"):
            getattr(self._library, function).restype = c_uint32

    def accept(self, token: bytes) -> bytes:
        given, result = _given(token), _Data()
        self._check(
            "gss_accept_sec_context",
            *(byref(self._context), None, byref(given), None, None, None, byref(result)),
            *(None, None, None),
        )
        return self._taken(result)

    def wrap(self, content: bytes) -> bytes:
        given, result = _given(content), _Data()
        self._check("gss_wrap", self._context, c_int(0), c_uint32(0), byref(given), None, byref(result))
        return self._taken(result)

    def unwrap(self, message: bytes) -> bytes:
        given, result = _given(message), _Data()
        self._check("gss_unwrap", self._context, byref(given), byref(result), None, None)
        return self._taken(result)

    def close(self) -> None:
        self._library.gss_delete_sec_context(byref(c_uint32()), byref(self._context), None)

    def _check(self, function: str, *arguments: Any) -> None:
        major = getattr(self._library, function)(byref(c_uint32()), *arguments)
        if major & 0xFFFF0000:
            raise Refused(f"{function}: {major:#x}")

    def _taken(self, result: _Data) -> bytes:
        data = ctypes.string_at(result.value, result.length) if result.value else b""
        self._library.gss_release_buffer(byref(c_uint32()), byref(result))
        return data


def _given(data: bytes) -> _Data:
    return _Data(len(data), ctypes.cast(c_char_p(data), c_void_p))
