"""JKS, the store of Java before 9. Integers are big-endian; a text follows its length of 2 bytes, a blob its
length of 4::

    magic FEEDFEED, version 2, count of entries
    entry of a key:          1, alias, 8 bytes of time, blob, count, certificates: (type, blob) each
    entry of a certificate:  2, alias, 8 bytes of time, type, blob
    SHA-1 of the password in UTF-16, "Mighty Aphrodite" and all before

A key is PKCS #8, XORed with a stream of SHA-1: each block of it is the hash of the password and of the block
before, the first one of the password and a salt. A hash of the password and of the plain key proves that the
password is right.

Source: sun.security.provider.JavaKeyStore and KeyProtector of OpenJDK.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from . import pem
from .asn1 import elements
from .store import Store, StoreError, damaged, no_key, no_trust

_VERSION: Final = 2
_KEY, _CERTIFICATE = 1, 2
_HASH_SIZE: Final = 20
_WHITENER: Final = b"Mighty Aphrodite"
#: The algorithm that Sun's provider protects keys with, 1.3.6.1.4.1.42.2.17.1.1.
_PROTECTION: Final = bytes.fromhex("2b060104012a02110101")


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry: the protected ``key`` is None for a trusted certificate."""

    alias: str
    key: bytes | None
    chain: list[bytes]


class _Input:
    """A cursor over the bytes. All reads raise ``StoreError`` after the end."""

    def __init__(self, data: bytes, pos: int) -> None:
        self._data = data
        self._pos = pos

    def take(self, size: int) -> bytes:
        """The next bytes."""
        if size > len(self._data) - self._pos:
            raise damaged("it ends too early")
        self._pos += size
        return self._data[self._pos - size : self._pos]

    def sized(self, size_of_length: int) -> bytes:
        """The bytes after their length."""
        return self.take(self.number(size_of_length))

    def number(self, size: int = 4) -> int:
        """An unsigned integer."""
        return int.from_bytes(self.take(size), "big")

    def text(self) -> str:
        """A text for people."""
        return self.sized(2).decode("utf-8", "replace")

    def certificate(self) -> bytes:
        """A certificate in DER."""
        kind = self.sized(2)
        if kind != b"X.509":
            raise damaged("a certificate is not of X.509")
        return self.sized(4)


def trust_of(store: Store) -> str:
    """PEM of the trusted certificates, and of the keys' own. As in Java, the hash is not checked without a
    password."""
    trusted = [entry.chain[0] for entry in _entries(store) if entry.chain]
    if not trusted:
        raise no_trust()
    return "".join(pem.block(pem.CERTIFICATE, der) for der in trusted)


def identity_of(store: Store) -> str:
    """PEM of the only key and of its chain."""
    if store.password is None:
        raise store.wrong_password()
    keys = [(entry, entry.key) for entry in _entries(store) if entry.key is not None]
    if len(keys) > 1:
        raise store.several_keys([entry.alias for entry, _ in keys])
    for entry, key in keys:
        certificates = "".join(pem.block(pem.CERTIFICATE, der) for der in entry.chain)
        return pem.block(pem.PRIVATE_KEY, _plain_key(key, store)) + certificates
    raise no_key()


def _entries(store: Store) -> list[_Entry]:
    data, digest = store.data[:-_HASH_SIZE], store.data[-_HASH_SIZE:]
    if store.password is not None:
        password = store.password.encode("utf-16-be")
        if not hmac.compare_digest(hashlib.sha1(password + _WHITENER + data).digest(), digest):
            raise store.wrong_password()
    source = _Input(data, 4)
    if (version := source.number()) != _VERSION:
        raise damaged(f"it has version {version} of JKS, and tools write {_VERSION}")
    return list(_each_entry(source, source.number()))


def _each_entry(source: _Input, count: int) -> Iterator[_Entry]:
    for _ in range(count):
        tag, alias, _date = source.number(), source.text(), source.take(8)
        if tag == _KEY:
            key = source.sized(4)
            yield _Entry(alias, key, [source.certificate() for _ in range(source.number())])
        elif tag == _CERTIFICATE:
            yield _Entry(alias, None, [source.certificate()])
        else:
            raise damaged(
                f"an entry is of kind {tag}, and JKS has 1 and 2 (a JCEKS store: convert it with keytool "
                "-importkeystore -deststoretype pkcs12)"
            )


def _plain_key(protected: bytes, store: Store) -> bytes:
    """The key in PKCS #8."""
    password = store.password if store.key_password is None else store.key_password
    assert password is not None
    secret = password.encode("utf-16-be")
    salt, body, check = _protection(protected)
    stream, block = bytearray(), salt
    while len(stream) < len(body):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    plain = (int.from_bytes(body, "big") ^ int.from_bytes(stream[: len(body)], "big")).to_bytes(
        len(body), "big"
    )
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), check):
        raise _wrong_key_password(store)
    return plain


def _protection(protected: bytes) -> tuple[bytes, bytes, bytes]:
    """Salt, encrypted key and check of an EncryptedPrivateKeyInfo."""
    try:
        [info] = elements(protected)
        algorithm, blob = info.parts
        if algorithm.parts[0].content != _PROTECTION or len(blob.content) < 2 * _HASH_SIZE:
            raise ValueError("another algorithm")
    except (ValueError, IndexError) as error:
        raise damaged("its key is not protected as JKS has it") from error
    content = blob.content
    return content[:_HASH_SIZE], content[_HASH_SIZE:-_HASH_SIZE], content[-_HASH_SIZE:]


def _wrong_key_password(store: Store) -> StoreError:
    if store.key_password is None:
        return StoreError(f"its key has another password than the store; set {store.key_password_name}")
    return StoreError(
        f"{store.key_password_name} is not the password of its key; check it with keytool -list"
    )
