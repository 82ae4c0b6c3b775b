"""Stores that Java's keytool makes of the tests' certificates.

stores = make_stores(folder, certificates, "JKS")
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.broker.java import find_java
from tests.support.certificates import Certificates

STORE_PASSWORD: Final = "store-password"
#: That of the key in JKS; PKCS12 has that of the store.
KEY_PASSWORD: Final = "key-password"


@dataclass(frozen=True, slots=True)
class Stores:
    """A store with the client's key, and one that trusts the authority."""

    key: Path
    trust: Path


def make_stores(folder: Path, certificates: Certificates, kind: str) -> Stores:
    """Make both of a kind: ``JKS`` or ``PKCS12``. Skips the test where Java has no keytool."""
    keytool = find_java().resolve().with_name("keytool")
    if not keytool.exists():
        pytest.skip(f"no {keytool}")
    stores = Stores(folder / f"key.{kind}", folder / f"trust.{kind}")
    exported = folder / f"exported.{kind}"
    _run(
        *("openssl", "pkcs12", "-export", "-in", certificates.client, "-name", "client"),
        *("-out", exported, "-passout", f"pass:{STORE_PASSWORD}"),
    )
    key_password = ("-destkeypass", KEY_PASSWORD) if kind == "JKS" else ()
    _run(
        *(keytool, "-importkeystore", "-noprompt", "-srckeystore", exported, "-srcstorepass", STORE_PASSWORD),
        *("-srcalias", "client", "-destkeystore", stores.key, "-deststoretype", kind),
        *("-deststorepass", STORE_PASSWORD, *key_password),
    )
    _run(
        *(keytool, "-importcert", "-noprompt", "-keystore", stores.trust, "-storetype", kind),
        *("-storepass", STORE_PASSWORD, "-alias", "authority", "-file", certificates.authority),
    )
    return stores


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
