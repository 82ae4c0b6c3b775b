"""PEM texts, with their lines as OpenSSL wants them."""

from __future__ import annotations

import base64
import re
from typing import Final

from .store import Store, StoreError

CERTIFICATE: Final = "CERTIFICATE"
#: A key in PKCS #8, not encrypted; names of other keys end in the same words.
PRIVATE_KEY: Final = "PRIVATE KEY"

#: A block ends before the next one begins, so that a search for its end goes no further.
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----((?:(?!-----BEGIN ).)*?)-----END \1-----", re.DOTALL)


def text_of(store: Store) -> str:
    """The blocks of a PEM store, without the text around them. Raises ``StoreError`` if no block is whole."""
    return normalized(store.data.decode("utf-8", "replace"))


def identity_of(store: Store) -> str:
    """The blocks of a PEM store with at most one private key. OpenSSL refuses one without a key."""
    text = text_of(store)
    if (count := text.count(f"{PRIVATE_KEY}-----\n") // 2) > 1:
        raise StoreError(f"it has {count} private keys, and nothing says which one to use; leave one in it")
    return text


def normalized(text: str) -> str:
    """The blocks of a text, which may have their lines in one, as options do. Raises ``StoreError``."""
    blocks = [(match[1], match[2]) for match in _BLOCK.finditer(text.replace("\\n", "\n"))]
    if not blocks:
        raise StoreError(
            "it has no -----BEGIN …----- with its -----END …-----, as PEM has; give the whole text"
        )
    return "".join(f"-----BEGIN {kind}-----\n{_lines(body)}\n-----END {kind}-----\n" for kind, body in blocks)


def block(kind: str, der: bytes) -> str:
    """One block of PEM."""
    return f"-----BEGIN {kind}-----\n{_lines(base64.b64encode(der).decode())}\n-----END {kind}-----\n"


def _lines(body: str) -> str:
    if ":" in body:  # headers of an encrypted key of old
        return body.strip("\n")
    return "\n".join(re.findall(r"\S{1,64}", re.sub(r"\s+", "", body)))
