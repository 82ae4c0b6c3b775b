"""Certificates of the tests, made by openssl: an authority, a server, a client.

The server's certificate is for the host name ``localhost`` alone, so that ``127.0.0.1`` is the wrong name.
All files are PEM, keys are PKCS #8, as Kafka brokers and Python both read them.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: The name that the server's certificate is for.
SERVER_NAME: Final = "localhost"
#: What ``client_encrypted`` is encrypted with.
KEY_PASSWORD: Final = "key-password"
_DAYS: Final = "2"
_NEW_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Certificates:
    """Paths of the files. ``server`` and ``client`` hold a key and its certificate."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The certificate of who signed all others here but ``stranger``."""
        return self.folder / "authority.pem"

    @property
    def server(self) -> Path:
        """Key and certificate for ``localhost``."""
        return self.folder / "server.pem"

    @property
    def expired(self) -> Path:
        """Key and certificate for ``localhost``, which was good until yesterday."""
        return self.folder / "expired.pem"

    @property
    def client(self) -> Path:
        """Key and certificate of a client."""
        return self.folder / "client.pem"

    @property
    def client_encrypted(self) -> Path:
        """The same with the key encrypted with ``KEY_PASSWORD``."""
        return self.folder / "client-encrypted.pem"

    @property
    def other_authority(self) -> Path:
        """The certificate of an authority that signed no server."""
        return self.folder / "other-authority.pem"

    @property
    def stranger(self) -> Path:
        """Key and certificate of a client, signed by the other authority."""
        return self.folder / "stranger.pem"


def find_openssl() -> str | None:
    """The path of the openssl program, None where there is none."""
    return shutil.which("openssl")


def make(folder: Path) -> Certificates:
    """Make all of them in a folder; openssl must be there."""
    for authority in ("authority", "other-authority"):
        _self_signed(folder, authority)
    _signed(folder, "server", "authority", SERVER_NAME)
    _signed(folder, "expired", "authority", SERVER_NAME, days="-1")
    _signed(folder, "client", "authority", "client")
    _signed(folder, "stranger", "other-authority", "stranger")
    _encrypted(folder, "client", "client-encrypted")
    return Certificates(folder)


def _self_signed(folder: Path, name: str) -> None:
    _openssl(
        folder,
        *("req", "-x509", *_NEW_KEY, "-days", _DAYS, "-subj", f"/CN=kafkawire tests {name}"),
        *("-keyout", f"{name}.key", "-out", f"{name}.pem"),
    )


def _signed(folder: Path, name: str, authority: str, host: str, days: str = _DAYS) -> None:
    (folder / f"{name}.ext").write_text(f"subjectAltName = DNS:{host}\n")
    _openssl(
        folder,
        *("req", "-new", *_NEW_KEY, "-subj", f"/CN={host}", "-keyout", f"{name}.key", "-out", f"{name}.csr"),
    )
    _openssl(
        folder,
        *("x509", "-req", "-in", f"{name}.csr", "-days", days, "-extfile", f"{name}.ext"),
        *("-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-CAcreateserial", "-out", f"{name}.crt"),
    )
    _join(folder, f"{name}.key", f"{name}.crt", f"{name}.pem")


def _encrypted(folder: Path, name: str, encrypted: str) -> None:
    _openssl(
        folder,
        *("pkcs8", "-topk8", "-v2", "aes-256-cbc", "-passout", f"pass:{KEY_PASSWORD}"),
        *("-in", f"{name}.key", "-out", f"{encrypted}.key"),
    )
    _join(folder, f"{encrypted}.key", f"{name}.crt", f"{encrypted}.pem")


def _join(folder: Path, key: str, certificate: str, both: str) -> None:
    (folder / both).write_text((folder / key).read_text() + (folder / certificate).read_text())


def _openssl(folder: Path, *arguments: str) -> None:
    program = find_openssl()
    assert program is not None
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
