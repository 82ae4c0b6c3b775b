"""Key and trust stores of Java's tools, in ``tests/golden/java-stores``, whose README describes each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parents[1] / "golden" / "java-stores"
STORE_PASSWORD: Final = "store-password"
#: That of the key in ``client.jks``.
KEY_PASSWORD: Final = "key-password"
#: Those of ``not-ascii.jks``.
NOT_ASCII: Final = ("störe-€-\\N", "kéy-€-😀")
#: The server of tests, of the authority in ``authority.pem``.
SERVER: Final = FOLDER / "server.pem"
#: Stores with the key of ``client.pem``, each with the password of its key, None for that of the store.
CLIENT_STORES: Final = {
    "client.jks": KEY_PASSWORD,
    "client-same-password.jks": None,
    "key-and-trust.jks": None,
    "client.p12": None,
    "client-legacy.p12": None,
    "client-no-mac.p12": None,
    "client-bc.p12": None,
    "client-openssl.p12": None,
    "client-plain.p12": None,
    "key-and-trust.p12": None,
}
#: Trust stores, each with the PEM files of what it trusts.
TRUST_STORES: Final = {
    "trust.jks": ("authority.pem", "other.pem"),
    "trust.p12": ("authority.pem", "other.pem"),
    "trust-legacy.p12": ("authority.pem",),
    "trust-no-password.p12": ("authority.pem",),
    "trust-openssl.p12": ("authority.pem",),
}


def stored(name: str) -> bytes:
    """The bytes of a store."""
    return (FOLDER / name).read_bytes()


def pem_of(*names: str) -> str:
    """The PEM texts of some files, one after the other."""
    return "".join((FOLDER / name).read_text() for name in names)


def blocks_of(text: str) -> list[str]:
    """The blocks of PEM."""
    return re.findall(r"-----BEGIN .*?-----END [A-Z ]+-----\n", text, re.DOTALL)
