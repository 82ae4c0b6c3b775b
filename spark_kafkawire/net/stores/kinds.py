"""Kinds of stores, recognised by their first bytes."""

from __future__ import annotations

import re
from typing import Final

from .store import StoreError, unsupported

JKS: Final = "JKS"
PKCS12: Final = "PKCS12"
PEM: Final = "PEM"

#: The header of a sequence, whatever the form of its length.
_SEQUENCE: Final = rb"\x30(?:[\x00-\x80]|\x81.|\x82..|\x83...|\x84....)"
_PBES2: Final = rb"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d"
#: PKCS12 begins with its version, 3; BCFKS with how it is encrypted.
_BEGINNINGS: Final = {
    JKS: re.compile(rb"\xfe\xed\xfe\xed"),
    PKCS12: re.compile(_SEQUENCE + rb"\x02\x01\x03", re.DOTALL),
    "JCEKS": re.compile(rb"\xce\xce\xce\xce"),
    "BCFKS": re.compile(_SEQUENCE * 3 + _PBES2, re.DOTALL),
}


def kind_of(data: bytes) -> str:
    """``JKS``, ``PKCS12`` or ``PEM``. Raises ``StoreError`` for anything else, by its name if it is known."""
    kind = next((kind for kind, beginning in _BEGINNINGS.items() if beginning.match(data)), None)
    if kind in (JKS, PKCS12):
        return kind
    if kind is not None:
        raise unsupported(kind)
    if b"-----BEGIN" in data:
        return PEM
    raise StoreError(
        "it holds no -----BEGIN …-----, as PEM has, and is neither JKS nor PKCS12; keytool -list shows more"
    )
