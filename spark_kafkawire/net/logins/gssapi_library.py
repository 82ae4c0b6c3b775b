"""The system's library of Kerberos, MIT's ``libgssapi_krb5``, called by ctypes: nothing is compiled.

    library = load()
    credential = library.from_key_tab("alice", "/etc/alice.keytab")
    context = library.context(credential, "kafka", "broker1.example")
    token = context.step(b"")

Each object of the library belongs to a ``Handle``, which releases it when nothing refers to it any more. So a
call that is abandoned, because its server never answers, keeps all that it uses. Calls release Python's lock.

Source: RFC 2744 (GSS-API in C), MIT's gssapi/gssapi_ext.h (credential stores).
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import weakref
from collections.abc import Callable, Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from typing import Any, Final

from spark_kafkawire.errors import OptionError

#: MIT's library, by the name that it has on Linux since 2009.
NAME: Final = "libgssapi_krb5.so.2"
#: Source: section 5.19 of RFC 2744, C bindings: mutual authentication, order of messages, integrity.
_FLAGS: Final = 2 | 8 | 32
_INITIATE: Final = 1
_CONTINUE_NEEDED: Final = 1
_FAILED: Final = 0xFFFF0000
#: The part of a major status that says that a credential has expired.
_CREDENTIAL_EXPIRED: Final = 11 << 16
_GSS_CODE: Final = 1
_MECHANISM_CODE: Final = 2
#: The text of a failure that only the major status describes.
_NOTHING: Final = "Success"
#: Texts of one failure that are read.
_TEXT_COUNT_MAX: Final = 8
#: The place of the result among the arguments of ``Library.taken``.
_BUFFER: Final = object()
#: Numbers of the caches of tickets in this process's memory.
_NUMBERS: Final = itertools.count(1)


class GssapiError(Exception):
    """A failure of the library. Never leaves ``net.logins``.

    ``code`` is the number of Kerberos's own error, or 0; ``has_expired`` is true for a
    credential that has.
    """

    def __init__(self, text: str, code: int, *, has_expired: bool) -> None:
        super().__init__(text)
        self.code, self.has_expired = code, has_expired


class _Buffer(ctypes.Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))
    #: What ``value`` points to, if it belongs to Python.
    data: bytes


class _Oid(ctypes.Structure):
    _fields_ = (("length", c_uint32), ("elements", c_char_p))


class _OidSet(ctypes.Structure):
    _fields_ = (("count", c_size_t), ("elements", POINTER(_Oid)))


class _Pair(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Store(ctypes.Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Pair)))


def _oid(elements: bytes) -> _Oid:
    return _Oid(len(elements), elements)


#: Source: RFC 4121 (the mechanism), RFC 2743 (service@host), RFC 1964 (a principal).
_KRB5: Final = _oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02")
_SERVICE_NAME: Final = _oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04")
_PRINCIPAL_NAME: Final = _oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01")

_minor: Final = POINTER(c_uint32)
_buffer: Final = POINTER(_Buffer)
_handle: Final = POINTER(c_void_p)
#: Arguments of the functions of GSS-API. All return a major status.
_GSS: Final[Mapping[str, tuple[Any, ...]]] = {
    "gss_import_name": (_minor, _buffer, POINTER(_Oid), _handle),
    "gss_release_name": (_minor, _handle),
    "gss_acquire_cred_from": (
        *(_minor, c_void_p, c_uint32, POINTER(_OidSet), c_int, POINTER(_Store)),
        *(_handle, c_void_p, c_void_p),
    ),
    "gss_inquire_cred": (_minor, c_void_p, c_void_p, POINTER(c_uint32), c_void_p, c_void_p),
    "gss_release_cred": (_minor, _handle),
    "gss_init_sec_context": (
        *(_minor, c_void_p, _handle, c_void_p, POINTER(_Oid), c_uint32, c_uint32, c_void_p),
        *(_buffer, c_void_p, _buffer, c_void_p, c_void_p),
    ),
    "gss_delete_sec_context": (_minor, _handle, c_void_p),
    "gss_wrap": (_minor, c_void_p, c_int, c_uint32, _buffer, c_void_p, _buffer),
    "gss_unwrap": (_minor, c_void_p, _buffer, _buffer, c_void_p, c_void_p),
    "gss_display_status": (_minor, c_uint32, c_int, POINTER(_Oid), POINTER(c_uint32), _buffer),
    "gss_release_buffer": (_minor, _buffer),
}
#: Arguments of Kerberos's own functions, which destroy a cache. They return an error code or nothing.
_KRB5_FUNCTIONS: Final[Mapping[str, tuple[Any, ...]]] = {
    "krb5_init_context": (_handle,),
    "krb5_cc_resolve": (c_void_p, c_char_p, _handle),
    "krb5_cc_destroy": (c_void_p, c_void_p),
    "krb5_free_context": (c_void_p,),
}


class Handle:
    """An object of the library, which is released with this one."""

    __slots__ = ("__weakref__", "value")

    def __init__(self, release: Callable[[c_void_p], object]) -> None:
        self.value = c_void_p()
        # At exit the operating system frees it.
        weakref.finalize(self, release, self.value).atexit = False


@functools.cache
def load(name: str = NAME) -> Library:
    """The library, once in a process. Raises ``OptionError`` (fatal) where it is not installed."""
    try:
        functions = ctypes.CDLL(name)
        for function, arguments in {**_GSS, **_KRB5_FUNCTIONS}.items():
            getattr(functions, function).argtypes = arguments
            getattr(functions, function).restype = c_uint32 if function in _GSS else c_int
        functions.krb5_free_context.restype = None
    except (OSError, AttributeError) as error:
        raise OptionError(
            f"option kafka.sasl.mechanism: GSSAPI needs MIT's library of Kerberos, {name}, on the driver and "
            "on each executor: install the package libgssapi-krb5-2 (Debian, Ubuntu) or krb5-libs (RPM)"
        ) from error
    return Library(functions)


class Library:
    """The functions of the library. They raise ``GssapiError``."""

    def __init__(self, functions: ctypes.CDLL) -> None:
        self._functions = functions

    def from_key_tab(self, principal: str, key_tab: str) -> Handle:
        """A credential with a new ticket of the principal, in memory alone. Asks the KDC."""
        cache = f"MEMORY:spark-kafkawire-{next(_NUMBERS)}".encode()

        def release(credential: c_void_p) -> None:
            self._release("gss_release_cred", credential)
            self._destroy(cache)

        store = {b"client_keytab": key_tab.encode(), b"ccache": cache}
        return self._credential(Handle(release), principal, store)

    def from_ticket_cache(self, principal: str | None, cache: str | None) -> Handle:
        """A credential with the tickets of a cache, by default that of the system."""
        empty = Handle(functools.partial(self._release, "gss_release_cred"))
        return self._credential(empty, principal, {} if cache is None else {b"ccache": cache.encode()})

    def lifetime_s(self, credential: Handle) -> float:
        """Seconds for which the ticket is still valid. May ask the KDC."""
        seconds = c_uint32()
        self._call("gss_inquire_cred", credential.value, None, byref(seconds), None, None)
        return float(seconds.value)

    def context(self, credential: Handle, service: str, host: str) -> Context:
        """A context to authenticate to the service of a host."""
        return Context(self, credential, self._name(f"{service}@{host}", _SERVICE_NAME))

    def taken(self, function: str, *arguments: object) -> tuple[bytes, int]:
        """The bytes that a function puts into the argument ``_BUFFER``, and its major status."""
        buffer = _Buffer()
        try:
            arguments = tuple(byref(buffer) if item is _BUFFER else item for item in arguments)
            major = self._call(function, *arguments)
            return ctypes.string_at(buffer.value, buffer.length) if buffer.value else b"", major
        finally:
            self._functions.gss_release_buffer(byref(c_uint32()), byref(buffer))

    def release_context(self, context: c_void_p) -> None:
        """Release a context."""
        if context:
            self._functions.gss_delete_sec_context(byref(c_uint32()), byref(context), None)

    def _credential(self, credential: Handle, principal: str | None, store: dict[bytes, bytes]) -> Handle:
        name = None if principal is None else self._name(principal, _PRINCIPAL_NAME)
        pairs = (_Pair * len(store))(*(_Pair(key, value) for key, value in store.items()))
        kinds, given = byref(_OidSet(1, ctypes.pointer(_KRB5))), byref(_Store(len(pairs), pairs))
        self._call(
            *("gss_acquire_cred_from", name and name.value, 0, kinds, _INITIATE, given if store else None),
            *(byref(credential.value), None, None),
        )
        return credential

    def _name(self, text: str, kind: _Oid) -> Handle:
        name = Handle(functools.partial(self._release, "gss_release_name"))
        encoded = text.encode()
        self._call("gss_import_name", byref(buffer_of(encoded)), byref(kind), byref(name.value))
        return name

    def _call(self, function: str, *arguments: object) -> int:
        """The major status of a function."""
        minor = c_uint32()
        major: int = getattr(self._functions, function)(byref(minor), *arguments)
        if major & _FAILED:
            # Its texts belong to this thread.
            texts = self._texts(minor.value, _MECHANISM_CODE)
            if texts in ([], [_NOTHING]):
                texts = self._texts(major, _GSS_CODE)
            code = minor.value - (1 << 32) if minor.value >> 31 else minor.value
            has_expired = major & 0xFF0000 == _CREDENTIAL_EXPIRED
            raise GssapiError("; ".join(texts), code, has_expired=has_expired)
        return major

    def _texts(self, status: int, kind: int) -> list[str]:
        texts: list[str] = []
        more = c_uint32()
        while len(texts) < _TEXT_COUNT_MAX:
            try:
                text, _ = self.taken("gss_display_status", status, kind, byref(_KRB5), byref(more), _BUFFER)
            except GssapiError:  # a status without a text
                break
            texts.append(text.decode("utf-8", "replace"))
            if not more.value:
                break
        return texts

    def _release(self, function: str, value: c_void_p) -> None:
        if value:
            getattr(self._functions, function)(byref(c_uint32()), byref(value))

    def _destroy(self, cache: bytes) -> None:
        krb5, result = c_void_p(), c_void_p()
        if self._functions.krb5_init_context(byref(krb5)) == 0:
            if self._functions.krb5_cc_resolve(krb5, cache, byref(result)) == 0:
                self._functions.krb5_cc_destroy(krb5, result)
            self._functions.krb5_free_context(krb5)


class Context:
    """One authentication to a service. ``is_complete`` is true once both sides have proved who they are."""

    def __init__(self, library: Library, credential: Handle, target: Handle) -> None:
        self._library, self._credential, self._target = library, credential, target
        self._context = Handle(library.release_context)
        self.is_complete = False

    def step(self, token: bytes) -> bytes:
        """The next token for the peer, which may be empty, after its token. The first step has none, and asks
        the KDC for a ticket of the service."""
        context, given = byref(self._context.value), byref(buffer_of(token))
        answer, major = self._library.taken(
            *("gss_init_sec_context", self._credential.value, context, self._target.value, byref(_KRB5)),
            *(_FLAGS, 0, None, given, None, _BUFFER, None, None),
        )
        self.is_complete = not major & _CONTINUE_NEEDED
        return answer

    def unwrap(self, message: bytes) -> bytes:
        """The content of a message whose integrity is proved."""
        arguments = (self._context.value, byref(buffer_of(message)), _BUFFER, None, None)
        return self._library.taken("gss_unwrap", *arguments)[0]

    def wrap(self, content: bytes) -> bytes:
        """A message that proves its integrity."""
        arguments = (self._context.value, 0, 0, byref(buffer_of(content)), None, _BUFFER)
        return self._library.taken("gss_wrap", *arguments)[0]


def buffer_of(data: bytes) -> _Buffer:
    """Bytes as an argument. The buffer keeps them: the library only reads them."""
    buffer = _Buffer(len(data), ctypes.cast(c_char_p(data), c_void_p))
    buffer.data = data
    return buffer
