"""Stores of keys and certificates as Java's tools write them, read as PEM texts.

    store = Store(data, password="…")
    trust_of(store)          # PEM of the certificates to trust
    identity_of(store)       # PEM of the private key and of its chain of certificates

The content says which kind a store is, because names of files do not: since Java 9 keytool writes PKCS12
unless JKS is asked for. Whatever the bytes are, both functions return PEM or raise ``StoreError``.
"""

from __future__ import annotations

from typing import Final

from . import jks, pem, pkcs12
from .kinds import JKS, PEM, PKCS12, kind_of
from .store import Store, StoreError, unsupported

__all__ = ["JKS", "PEM", "PKCS12", "Store", "StoreError", "identity_of", "kind_of", "trust_of", "unsupported"]

#: The readers of each kind.
_TRUST: Final = {JKS: jks.trust_of, PKCS12: pkcs12.trust_of, PEM: pem.text_of}
_IDENTITY: Final = {JKS: jks.identity_of, PKCS12: pkcs12.identity_of, PEM: pem.identity_of}


def trust_of(store: Store) -> str:
    """PEM of the certificates that a store says to trust, and of those of its keys, without their chains: the
    ones that Java trusts."""
    return _TRUST[kind_of(store.data)](store)


def identity_of(store: Store) -> str:
    """PEM of the only private key of a store, and of its chain of certificates.

    The key is not encrypted, except in a PEM store, whose blocks are returned as they are. A store with
    several keys is refused: Java chooses among them for each broker, by the authorities that the broker names
    and then by an order that no document describes, while OpenSSL takes one key.
    """
    return _IDENTITY[kind_of(store.data)](store)
