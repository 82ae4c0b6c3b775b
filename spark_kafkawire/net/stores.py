"""Stores of keys and certificates as Java's tools write them, read as PEM texts.

    store = Store(data, password="…")
    trust_of(store)          # PEM of the certificates to trust
    identity_of(store)       # PEM of the private key and of its chain of certificates

The content says which kind a store is, because names of files do not: since Java 9 keytool writes PKCS12
unless JKS is asked for. Whatever the bytes are, both functions return PEM or raise ``StoreError``.

JKS, the store of Java before 9. Integers are big-endian; a text follows its length of 2 bytes, a blob its
length of 4::

    magic FEEDFEED, version 2, count of entries
    entry of a key:          1, alias, 8 bytes of time, blob, count, certificates: (type, blob) each
    entry of a certificate:  2, alias, 8 bytes of time, type, blob
    SHA-1 of the password in UTF-16, "Mighty Aphrodite" and all before

A key is PKCS #8, XORed with a stream of SHA-1: each block of it is the hash of the password and of the block
before, the first one of the password and a salt. A hash of the password and of the plain key proves that the
password is right.

Source: sun.security.provider.JavaKeyStore and KeyProtector of OpenJDK.

PKCS12, opened by ``cryptography``, of the extra ``stores``.

cryptography returns only the first private key, and sets no limit on key derivation. So the structure of the
file is read here first::

    PFX:       version 3, authSafe, [MAC]
    authSafe:  contents in plain, with bags of keys, each encrypted for itself;
               encrypted contents, with bags of certificates
    bag:       type, value, [attributes, such as the alias]

A store without a MAC opens with any password if nothing in it is encrypted, as in Java. An encrypted key
opens only with its password.

Source: RFC 7292; sun.security.pkcs12.PKCS12KeyStore of OpenJDK.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ..errors import list_some, quote

if TYPE_CHECKING:
    from cryptography.x509 import Certificate


#: Most names of keys that an error lists.
_LISTED_MAX: Final = 10
_CONVERSION: Final = "keytool -importkeystore -srckeystore FILE -destkeystore store.p12 -deststoretype PKCS12"


class StoreError(Exception):
    """A store that cannot be read: the reason and what to do, as the end of a line, without a secret."""


@dataclass(frozen=True, slots=True)
class Store:
    """The bytes of a store and its passwords, with the names of the options that the passwords are from.

    ``key_password`` is None for a key with the password of the store.
    """

    data: bytes = field(repr=False)
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    password_name: str = "the password of the store"
    key_password_name: str = "the password of the key"

    def wrong_password(self) -> StoreError:
        """The error for a store that its password does not open."""
        if self.password is None:
            return StoreError(f"it has a password; set {self.password_name}")
        return StoreError(
            f"{self.password_name} is not its password, or the file is damaged; check both with keytool -list"
        )

    def several_keys(self, aliases: Sequence[str]) -> StoreError:
        """The error for a store with more than one private key."""
        # An alias may be a password by accident.
        secrets = [secret for secret in (self.password, self.key_password) if secret]
        listed = list_some(aliases, _LISTED_MAX, quote)
        shown = "" if any(secret in alias for alias in aliases for secret in secrets) else f" ({listed})"
        return StoreError(
            f"it has {len(aliases)} private keys{shown}, and nothing says which one to use; copy one into a "
            "store of its own: keytool -importkeystore -srckeystore FILE -srcalias ALIAS -destkeystore NEW"
        )


def _damaged(problem: str) -> StoreError:
    """The error for bytes that no tool writes."""
    return StoreError(f"the file is damaged: {problem}; copy it again from where it was made")


def unsupported(kind: str) -> StoreError:
    """The error for a kind of store that nothing here reads."""
    return StoreError(f"{kind} stores are not supported; convert it: {_CONVERSION} -srcstoretype {kind}")


#: A key in PKCS #8, not encrypted; names of other keys end in the same words.
_PRIVATE_KEY: Final = "PRIVATE KEY"

#: A block ends before the next one begins, so that a search for its end goes no further.
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----((?:(?!-----BEGIN ).)*?)-----END \1-----", re.DOTALL)


def normalize_pem(text: str) -> str:
    """The blocks of a text, which may have their lines in one, as options do. Raises ``StoreError``."""
    blocks = [(match[1], match[2]) for match in _BLOCK.finditer(text.replace("\\n", "\n"))]
    if not blocks:
        raise StoreError(
            "it has no -----BEGIN …----- with its -----END …-----, as PEM has; give the whole text"
        )
    return "".join(f"-----BEGIN {kind}-----\n{_lines(body)}\n-----END {kind}-----\n" for kind, body in blocks)


def _blocks(kind: str, *items: bytes) -> str:
    """Blocks of PEM, from DER."""
    texts = (_lines(base64.b64encode(der).decode()) for der in items)
    return "".join(f"-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n" for text in texts)


def _lines(body: str) -> str:
    if ":" in body:  # headers of an encrypted key of old
        return body.strip("\n")
    return "\n".join(re.findall(r"\S{1,64}", re.sub(r"\s+", "", body)))


#: Octets in several parts, which BER allows.
_OCTETS_IN_PARTS: Final = 0x24
_END: Final = b"\0\0"
#: Elements of unknown length in each other: what writes BER has four.
_VALUE_DEPTH_MAX: Final = 16
#: Elements beside each other, more than any store has.
_COUNT_MAX: Final = 10_000


class Element(NamedTuple):
    """An element: its tag, and its content without the header."""

    tag: int
    content: bytes

    @property
    def parts(self) -> list[Element]:
        """The elements in it. Raises ``ValueError``."""
        return elements(self.content)

    @property
    def octets(self) -> bytes:
        """The octets that it is, or that its parts are. Raises ``ValueError``."""
        if self.tag == _OCTETS_IN_PARTS:
            return b"".join(part.content for part in self.parts)
        return self.content


def elements(data: bytes) -> list[Element]:
    """The elements that follow one another. Raises ``ValueError`` for anything else."""
    result, pos = [], 0
    while pos < len(data):
        element, pos = _element(data, pos, 0)
        result.append(element)
        if len(result) > _COUNT_MAX:
            raise ValueError("too many elements")
    return result


def _element(data: bytes, pos: int, depth: int) -> tuple[Element, int]:
    """The element at a position, and the position after it."""
    if pos + 2 > len(data) or depth > _VALUE_DEPTH_MAX or data[pos] & 0x1F == 0x1F:
        raise ValueError("no element")
    tag, length, start = data[pos], data[pos + 1], pos + 2
    if length == 0x80:
        end = start
        for _ in range(_COUNT_MAX):
            if data[end : end + 2] == _END:
                return Element(tag, data[start:end]), end + 2
            _, end = _element(data, end, depth + 1)
        raise ValueError("too many elements")
    if length > 0x80:
        size = length & 0x7F
        length, start = int.from_bytes(data[start : start + size], "big"), start + size
    if start + length > len(data):
        raise ValueError("an element is cut off")
    return Element(tag, data[start : start + length]), start + length


_VERSION: Final = 2
_KEY, _CERTIFICATE = 1, 2
_HASH_SIZE: Final = 20
_WHITENER: Final = b"Mighty Aphrodite"
#: The algorithm that Sun's provider protects keys with, 1.3.6.1.4.1.42.2.17.1.1.
_PROTECTION: Final = bytes.fromhex("2b060104012a02110101")


class _Entry(NamedTuple):
    """An entry: the protected ``key`` is None for a trusted certificate."""

    alias: str
    key: bytes | None
    chain: list[bytes]


def _take(source: io.BytesIO, size: int) -> bytes:
    if len(data := source.read(size)) < size:
        raise _damaged("it ends too early")
    return data


def _number(source: io.BytesIO, size: int = 4) -> int:
    return int.from_bytes(_take(source, size), "big")


def _sized(source: io.BytesIO, size_of_length: int = 4) -> bytes:
    """The bytes after their length."""
    return _take(source, _number(source, size_of_length))


def _certificate(source: io.BytesIO) -> bytes:
    if _sized(source, 2) != b"X.509":
        raise _damaged("a certificate is not of X.509")
    return _sized(source)


def _trusted_by_jks(store: Store) -> list[bytes]:
    """As in Java, the hash is not checked without a password."""
    return [entry.chain[0] for entry in _entries(store) if entry.chain]


def _identity_in_jks(store: Store) -> tuple[bytes | None, list[bytes]]:
    keys = [(entry, entry.key) for entry in _entries(store) if entry.key is not None]
    if len(keys) > 1:
        raise store.several_keys([entry.alias for entry, _ in keys])
    return next(((_plain_key(key, store), entry.chain) for entry, key in keys), (None, []))


def _entries(store: Store) -> Iterator[_Entry]:
    data, digest = store.data[:-_HASH_SIZE], store.data[-_HASH_SIZE:]
    if store.password is not None:
        password = store.password.encode("utf-16-be")
        if not hmac.compare_digest(hashlib.sha1(password + _WHITENER + data).digest(), digest):
            raise store.wrong_password()
    source = io.BytesIO(data[4:])
    if (version := _number(source)) != _VERSION:
        raise _damaged(f"it has version {version} of JKS, and tools write {_VERSION}")
    for _ in range(_number(source)):
        tag, alias, _date = _number(source), _sized(source, 2).decode("utf-8", "replace"), _take(source, 8)
        if tag == _KEY:
            key = _sized(source)
            yield _Entry(alias, key, [_certificate(source) for _ in range(_number(source))])
        elif tag == _CERTIFICATE:
            yield _Entry(alias, None, [_certificate(source)])
        else:
            raise _damaged(
                f"an entry is of kind {tag}, and JKS has 1 and 2 (a JCEKS store: convert it with keytool "
                "-importkeystore -deststoretype pkcs12)"
            )


def _plain_key(protected: bytes, store: Store) -> bytes:
    """The key in PKCS #8, from an EncryptedPrivateKeyInfo of salt, encrypted key and check."""
    password = store.password if store.key_password is None else store.key_password
    assert password is not None
    secret = password.encode("utf-16-be")
    try:
        [info] = elements(protected)
        algorithm, (_, content) = info.parts
        if algorithm.parts[0].content != _PROTECTION or len(content) < 2 * _HASH_SIZE:
            raise ValueError("another algorithm")
    except (ValueError, IndexError) as error:
        raise _damaged("its key is not protected as JKS has it") from error
    block, body, check = content[:_HASH_SIZE], content[_HASH_SIZE:-_HASH_SIZE], content[-_HASH_SIZE:]
    stream = bytearray()
    while len(stream) < len(body):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    number = int.from_bytes(body, "big") ^ int.from_bytes(stream[: len(body)], "big")
    plain = number.to_bytes(len(body), "big")
    if hmac.compare_digest(hashlib.sha1(secret + plain).digest(), check):
        return plain
    if store.key_password is None:
        raise StoreError(f"its key has another password than the store; set {store.key_password_name}")
    raise StoreError(f"{store.key_password_name} is not the password of its key; check it with keytool -list")


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
_UNKNOWN: Final = (
    "its encryption or its MAC is of a kind that is not supported; make it again with keytool "
    "-importkeystore -srckeystore FILE -destkeystore NEW"
)
_MISSING: Final = (
    "it is a PKCS12 store, which needs a library: pip install cryptography; or convert it: "
    "keytool -importkeystore -srckeystore FILE -destkeystore store.jks -deststoretype JKS"
)


def _trusted_by_pkcs12(store: Store) -> list[bytes]:
    """Unlike Java, this needs no mark of trust, which openssl does not write."""
    _, chain, others = _open_pkcs12(store)
    return chain[:1] + others


def _identity_in_pkcs12(store: Store) -> tuple[bytes | None, list[bytes]]:
    if store.key_password not in (None, store.password):
        raise StoreError(
            f"PKCS12 has one password for the store and its key: set {store.key_password_name} as "
            f"{store.password_name}, or leave it out"
        )
    key, chain, _ = _open_pkcs12(store)
    if key is not None and not chain:
        raise StoreError("its private key has no certificate; export both into one store")
    return key, chain


def _open_pkcs12(store: Store) -> tuple[bytes | None, list[bytes], list[bytes]]:
    """The key, its chain, and the certificates beside them, in DER. A certificate of the chain is among these
    if it is trusted, too."""
    aliases = _aliases_of_keys(store.data)
    if len(aliases) > 1:
        raise store.several_keys(aliases)
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

        password = None if store.password is None else store.password.encode()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as that of BER, which Bouncy Castle writes
            opened = load_pkcs12(store.data, password)
        key, others = opened.key, [item.certificate for item in opened.additional_certs]
        # The chain by the names in it, as Java finds it.
        named = {item.subject.public_bytes(): item for item in others}
        chain: list[Certificate] = []
        above = None if opened.cert is None else opened.cert.certificate
        while above is not None:
            chain.append(above)
            above = named.pop(above.issuer.public_bytes(), None)
        in_chain = set(map(id, chain))
        return (
            None if key is None else key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()),
            [item.public_bytes(Encoding.DER) for item in chain],
            [item.public_bytes(Encoding.DER) for item in others if id(item) not in in_chain],
        )
    except ImportError as error:
        raise StoreError(_MISSING) from error
    except Exception as error:  # a library's own, of any kind, for a foreign file
        raise store.wrong_password() from error


def _aliases_of_keys(data: bytes) -> list[str]:
    """The aliases of the private keys, after a look at the structure. Raises ``StoreError``."""
    try:
        [pfx] = elements(data)
        _, safe, *mac = pfx.parts
        [whole] = _data_of(safe)
        result = [item for content in whole.parts for item in _keys_in(content)]
        rounds = sum(rounds for _, rounds in result) + sum(map(_rounds_of_mac, mac))
    except (ValueError, IndexError) as error:
        raise _damaged("its structure is not that of PKCS12") from error
    if rounds > ROUNDS_MAX:
        raise StoreError(
            f"its encryption takes {rounds} rounds of hashing, more than {ROUNDS_MAX}; make it again: "
            "keytool -importkeystore -srckeystore FILE -destkeystore NEW"
        )
    return [alias for alias, _ in result if alias is not None]


def _data_of(content: Element) -> list[Element]:
    """The elements in a content in plain."""
    kind, value = content.parts
    if kind.content != _DATA:
        raise StoreError(_UNKNOWN)
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
            raise StoreError(_UNKNOWN)
    elif not name.content.startswith(_OLDER_ENCRYPTION):
        raise StoreError(_UNKNOWN)
    return int.from_bytes(parameters.parts[1].content, "big")


def _rounds_of_mac(mac: Element) -> int:
    """The rounds of a MAC: one unless it says otherwise."""
    digest, _, *rounds = mac.parts
    if digest.parts[0].parts[0].content.startswith(_RSA + b"\x05"):  # PBMAC1
        raise StoreError(_UNKNOWN)
    return int.from_bytes(rounds[0].content, "big") if rounds else 1


JKS: Final = "JKS"
PKCS12: Final = "PKCS12"
PEM: Final = "PEM"

#: The header of a sequence, whatever the form of its length.
_SEQUENCE: Final = rb"\x30(?:[\x00-\x80]|\x81.|\x82..|\x83...|\x84....)"
_PBES2_PATTERN: Final = rb"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d"
#: PKCS12 begins with its version, 3; BCFKS with how it is encrypted.
_BEGINNINGS: Final = {
    JKS: re.compile(rb"\xfe\xed\xfe\xed"),
    PKCS12: re.compile(_SEQUENCE + rb"\x02\x01\x03", re.DOTALL),
    "JCEKS": re.compile(rb"\xce\xce\xce\xce"),
    "BCFKS": re.compile(_SEQUENCE * 3 + _PBES2_PATTERN, re.DOTALL),
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


#: The trusted certificates of each kind of store, and the key with its chain, in DER.
_TRUSTED: Final = {JKS: _trusted_by_jks, PKCS12: _trusted_by_pkcs12}
_IDENTITY: Final = {JKS: _identity_in_jks, PKCS12: _identity_in_pkcs12}


def trust_of(store: Store) -> str:
    """PEM of the certificates that a store says to trust, and of those of its keys, without their chains: the
    ones that Java trusts."""
    if (kind := kind_of(store.data)) == PEM:
        return normalize_pem(store.data.decode("utf-8", "replace"))
    if not (trusted := _TRUSTED[kind](store)):
        raise StoreError("it has no certificate to trust; add one with keytool -importcert")
    return _blocks("CERTIFICATE", *trusted)


def identity_of(store: Store) -> str:
    """PEM of the only private key of a store, and of its chain of certificates.

    The key is not encrypted, except in a PEM store, whose blocks are returned as they are. A store with
    several keys is refused: Java chooses among them for each broker, by the authorities that the broker names
    and then by an order that no document describes, while OpenSSL takes one key.
    """
    if (kind := kind_of(store.data)) == PEM:
        text = normalize_pem(store.data.decode("utf-8", "replace"))
        if (count := text.count(f"{_PRIVATE_KEY}-----\n") // 2) > 1:
            raise StoreError(
                f"it has {count} private keys, and nothing says which one to use; leave one in it"
            )
        return text  # OpenSSL refuses one without a key
    if store.password is None:
        raise store.wrong_password()
    key, chain = _IDENTITY[kind](store)
    if key is None:
        raise StoreError("it has no private key; give the key store, not the trust store")
    return _blocks(_PRIVATE_KEY, key) + _blocks("CERTIFICATE", *chain)
