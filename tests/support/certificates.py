"""Certificates of the tests: an authority, a server, a client.

The server's certificate is for the host name ``localhost`` alone, so that ``127.0.0.1`` is the wrong name.
All files are PEM, keys are PKCS #8, as Kafka brokers and Python both read them.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

#: The name that the server's certificate is for.
SERVER_NAME: Final = "localhost"
#: What ``client_encrypted`` is encrypted with.
KEY_PASSWORD: Final = "key-password"
_LIFE: Final = timedelta(days=2)
_NOT_LOCKED: Final = serialization.NoEncryption()


class Certificates(NamedTuple):
    """Paths of the files. All but those of authorities hold a key and its certificate."""

    folder: Path
    #: The certificate of who signed all others here but ``stranger``.
    authority: Path
    #: For ``localhost``; and one that was good until yesterday.
    server: Path
    expired: Path
    client: Path
    #: The same with the key encrypted with ``KEY_PASSWORD``.
    client_encrypted: Path
    #: The certificate of an authority that signed no server, and a client that it signed.
    other_authority: Path
    stranger: Path


def make(folder: Path) -> Certificates:
    """Make all of them in a folder."""
    now = datetime.now(timezone.utc)
    authorities = {}
    for name in ("authority", "other-authority"):
        key, subject = _new_key(), _named(f"kafkawire tests {name}")
        signed = _builder(subject, subject, key, now).add_extension(x509.BasicConstraints(True, None), True)
        (folder / f"{name}.key").write_bytes(_pem(key))
        (folder / f"{name}.pem").write_bytes(_certificate(signed, key))
        authorities[name] = subject, key
    for name, host, authority, end in (
        ("server", SERVER_NAME, "authority", now + _LIFE),
        ("expired", SERVER_NAME, "authority", now - timedelta(days=1)),
        ("client", "client", "authority", now + _LIFE),
        ("stranger", "stranger", "other-authority", now + _LIFE),
    ):
        (issuer, issuer_key), key = authorities[authority], _new_key()
        names = x509.SubjectAlternativeName([x509.DNSName(host)])
        signed = _builder(_named(host), issuer, key, end - _LIFE).add_extension(names, False)
        (folder / f"{name}.key").write_bytes(_pem(key))
        (folder / f"{name}.crt").write_bytes(_certificate(signed, issuer_key))
        _join(folder, name, name)
        if name == "client":
            locked = serialization.BestAvailableEncryption(KEY_PASSWORD.encode())
            (folder / "client-encrypted.key").write_bytes(_pem(key, locked))
            _join(folder, "client-encrypted", "client")
    files = (f"{name.replace('_', '-')}.pem" for name in Certificates._fields[1:])
    return Certificates(folder, *(folder / file for file in files))


def _new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, start: datetime
) -> x509.CertificateBuilder:
    begun = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    dated = (
        begun.serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + _LIFE)
    )
    return dated.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)


def _certificate(signed: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> bytes:
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    whole = signed.add_extension(issuer, False).sign(key, hashes.SHA256())
    return whole.public_bytes(serialization.Encoding.PEM)


def _pem(
    key: ec.EllipticCurvePrivateKey, locked: serialization.KeySerializationEncryption = _NOT_LOCKED
) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)


def _join(folder: Path, key: str, certificate: str) -> None:
    texts = [(folder / f"{key}.key").read_text(), (folder / f"{certificate}.crt").read_text()]
    (folder / f"{key}.pem").write_text("".join(texts))
