"""PKCS12, opened by ``cryptography``, of the extra ``stores``.

That library returns the first private key alone, and does as much work as a file asks for. So the structure
of the file is read here first::

    PFX:       version 3, authSafe, [MAC]
    authSafe:  contents in plain, with bags of keys, each encrypted for itself;
               encrypted contents, with bags of certificates
    bag:       type, value, [attributes, such as the alias]

A store without a MAC opens with any password if nothing in it is encrypted, as in Java. An encrypted key
opens only with its password.

Source: RFC 7292; sun.security.pkcs12.PKCS12KeyStore of OpenJDK.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from . import pem
from .asn1 import Element, elements
from .store import Store, StoreError, damaged, no_key, no_trust

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

#: Rounds of hashing that a whole store may take, some 5 s: Java allows as many for each part.
ROUNDS_MAX: Final = 5_000_000
#: Bags in each other.
_DEPTH_MAX: Final = 4
_RSA: Final = bytes.fromhex("2a864886f70d01")  # 1.2.840.113549.1, and what follows
_DATA: Final = _RSA + b"\x07\x01"
_ENCRYPTED_DATA: Final = _RSA + b"\x07\x06"
_PBKDF2: Final = _RSA + b"\x05\x0c"
_PBES2: Final = _RSA + b"\x05\x0d"
_OLDER_ENCRYPTION: Final = _RSA + b"\x0c\x01"
_FRIENDLY_NAME: Final = _RSA + b"\x09\x14"
_BAG: Final = _RSA + b"\x0c\x0a\x01"
_KEY_BAG: Final = _BAG + b"\x01"
_ENCRYPTED_KEY_BAG: Final = _BAG + b"\x02"
_NESTED_BAGS: Final = _BAG + b"\x06"
_MISSING: Final = (
    "it is a PKCS12 store, which needs a library: pip install cryptography; or convert it: "
    "keytool -importkeystore -srckeystore FILE -destkeystore store.jks -deststoretype JKS"
)


@dataclass(frozen=True, slots=True)
class _Contents:
    """A store in DER: the key, its chain, and the certificates beside them. A certificate of the chain is
    among these if it is trusted, too."""

    key: bytes | None = field(repr=False)
    chain: list[bytes]
    others: list[bytes]


def trust_of(store: Store) -> str:
    """PEM of the trusted certificates, and of the key's own. Unlike Java, this needs no mark of trust, which
    openssl does not write."""
    contents = _opened(store)
    trusted = contents.chain[:1] + contents.others
    if not trusted:
        raise no_trust()
    return "".join(pem.block(pem.CERTIFICATE, der) for der in trusted)


def identity_of(store: Store) -> str:
    """PEM of the only key and of its chain."""
    if store.password is None:
        raise store.wrong_password()
    if store.key_password not in (None, store.password):
        raise StoreError(
            f"PKCS12 has one password for the store and its key: set {store.key_password_name} as "
            f"{store.password_name}, or leave it out"
        )
    contents = _opened(store)
    if contents.key is None:
        raise no_key()
    if not contents.chain:
        raise StoreError("its private key has no certificate; export both into one store")
    certificates = "".join(pem.block(pem.CERTIFICATE, der) for der in contents.chain)
    return pem.block(pem.PRIVATE_KEY, contents.key) + certificates


def _opened(store: Store) -> _Contents:
    """Raises ``StoreError``."""
    aliases = _aliases_of_keys(store.data)
    if len(aliases) > 1:
        raise store.several_keys(aliases)
    try:
        return _decrypted(store)
    except ImportError as error:
        raise StoreError(_MISSING) from error
    except Exception as error:  # a library's own, of any kind, for a foreign file
        raise store.wrong_password() from error


def _decrypted(store: Store) -> _Contents:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    password = None if store.password is None else store.password.encode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as that of BER, which Bouncy Castle writes
        opened = load_pkcs12(store.data, password)
    others = [each.certificate for each in opened.additional_certs]
    chain = [] if opened.cert is None else _chain(opened.cert.certificate, others)
    key = None
    if opened.key is not None:
        key = opened.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    chain_der, others_der = ([each.public_bytes(Encoding.DER) for each in part] for part in (chain, others))
    return _Contents(key, chain_der, list(_without(others_der, chain_der[1:])))


def _chain(own: Certificate, others: list[Certificate]) -> list[Certificate]:
    """A certificate and those above it, found by their names, as Java does."""
    named = {each.subject.public_bytes(): each for each in others}
    chain = [own]
    while (above := named.pop(chain[-1].issuer.public_bytes(), None)) is not None:
        chain.append(above)
    return chain


def _without(certificates: list[bytes], once: list[bytes]) -> Iterator[bytes]:
    """The certificates without one occurrence of some."""
    left_out = Counter(once)
    for each in certificates:
        if left_out[each]:
            left_out[each] -= 1
        else:
            yield each


def _aliases_of_keys(data: bytes) -> list[str]:
    """The aliases of the private keys, after a look at the structure. Raises ``StoreError``."""
    try:
        [pfx] = elements(data)
        _, safe, *mac = pfx.parts
        [whole] = _data_of(safe)
        found = [each for content in whole.parts for each in _keys_in(content)]
        rounds = sum(rounds for _, rounds in found) + sum(map(_rounds_of_mac, mac))
    except (ValueError, IndexError) as error:
        raise damaged("its structure is not that of PKCS12") from error
    if rounds > ROUNDS_MAX:
        raise StoreError(
            f"its encryption takes {rounds} rounds of hashing, more than {ROUNDS_MAX}; make it again: "
            "keytool -importkeystore -srckeystore FILE -destkeystore NEW"
        )
    return [alias for alias, _ in found if alias is not None]


def _data_of(content: Element) -> list[Element]:
    """The elements in a content in plain."""
    kind, value = content.parts
    if kind.content != _DATA:
        raise _unknown()
    return elements(value.parts[0].octets)


def _keys_in(content: Element) -> Iterator[tuple[str | None, int]]:
    """The aliases of keys, each with its rounds; rounds of encrypted contents come with None.

    Keys in encrypted contents are not seen: keytool, openssl and Bouncy Castle put them beside these.
    """
    kind, value = content.parts
    if kind.content == _ENCRYPTED_DATA:
        _, encrypted = value.parts[0].parts[:2]
        yield None, _rounds(encrypted.parts[1])
    else:
        for bags in _data_of(content):
            yield from _keys_of_bags(bags, 0)


def _keys_of_bags(bags: Element, depth: int) -> Iterator[tuple[str, int]]:
    for bag in bags.parts:
        kind, value = bag.parts[:2]
        if kind.content == _KEY_BAG:
            yield _alias(bag), 0
        elif kind.content == _ENCRYPTED_KEY_BAG:
            yield _alias(bag), _rounds(value.parts[0].parts[0])
        elif kind.content == _NESTED_BAGS:
            if depth == _DEPTH_MAX:
                raise ValueError("bags in bags")
            yield from _keys_of_bags(value.parts[0], depth + 1)


def _alias(bag: Element) -> str:
    """The name that an attribute says; empty if there is none."""
    for attributes in bag.parts[2:]:
        for attribute in attributes.parts:
            kind, values = attribute.parts
            if kind.content == _FRIENDLY_NAME:
                return values.parts[0].content.decode("utf-16-be", "replace")
    return ""


def _rounds(algorithm: Element) -> int:
    """The rounds of hashing that an encryption takes."""
    name, parameters = algorithm.parts
    if name.content == _PBES2:
        name, parameters = parameters.parts[0].parts
        if name.content != _PBKDF2:
            raise _unknown()
    elif not name.content.startswith(_OLDER_ENCRYPTION):
        raise _unknown()
    return int.from_bytes(parameters.parts[1].content, "big")


def _rounds_of_mac(mac: Element) -> int:
    """The rounds of a MAC: one unless it says otherwise."""
    digest, _, *rounds = mac.parts
    if digest.parts[0].parts[0].content.startswith(_RSA + b"\x05"):  # PBMAC1
        raise _unknown()
    return int.from_bytes(rounds[0].content, "big") if rounds else 1


def _unknown() -> StoreError:
    return StoreError(
        "its encryption or its MAC is of a kind that is not supported; make it again with keytool "
        "-importkeystore -srckeystore FILE -destkeystore NEW"
    )
