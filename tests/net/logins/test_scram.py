"""SCRAM's messages: the RFC's example, another program as the broker, and texts as Kafka has them."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

import pytest
from scramp import ScramException, ScramMechanism

from spark_kafkawire.errors import AuthenticationError
from spark_kafkawire.net.logins.scram import HASHES, scram
from tests.support.cases import for_each

SALT: Final = b"salt of some size"
#: SASLprep would make another text of each of these, or refuse it.
UNUSUAL: Final = (
    "no\N{NO-BREAK SPACE}break",
    "\N{OHM SIGN} and \N{LATIN SMALL LIGATURE FI}",
    "soft\N{SOFT HYPHEN}hyphen",
    "bell\a",
    "\N{HEBREW LETTER ALEF}1",
    "\N{GRINNING FACE}",
)


def stored(mechanism: str, password: str) -> tuple[bytes, bytes, bytes, int]:
    """Credentials that a broker of Apache Kafka stores: the password's UTF-8 bytes go into the hash
    as they are."""
    name = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), SALT, 4096)
    client_key, server_key = (hmac.digest(salted, key, name) for key in (b"Client Key", b"Server Key"))
    return SALT, hashlib.new(name, client_key).digest(), server_key, 4096


def log_in(mechanism: str, username: str, password: str, known: str) -> None:
    """Talk to another program's broker, which knows one user with the password ``known``."""
    broker = ScramMechanism(mechanism).make_server({username: stored(mechanism, known)}.get)
    tokens = scram(mechanism, username, password)
    broker.set_client_first(next(tokens).decode())
    broker.set_client_final(tokens.send(broker.get_server_first().encode()).decode())
    with pytest.raises(StopIteration):
        tokens.send(broker.get_server_final().encode())


def test_the_example_of_the_rfc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_kafkawire.net.logins.scram.secrets.token_hex", lambda: "rOprNGfwEbeRWgbNEkqO")
    tokens = scram("SCRAM-SHA-256", "user", "pencil")
    assert next(tokens) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    proof = b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert tokens.send(nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096") == b"c=biws," + nonce + b"," + proof
    with pytest.raises(StopIteration):
        tokens.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@for_each("mechanism", HASHES)
@for_each("password", ["plain", "", "s=,\\\N{LATIN SMALL LETTER U WITH DIAERESIS}", *UNUSUAL])
def test_a_password_goes_as_it_is(mechanism: str, password: str) -> None:
    log_in(mechanism, "ali=ce,", password, password)
    with pytest.raises(ScramException, match="client keys don't match"):
        log_in(mechanism, "ali=ce,", password, password + " ")


@pytest.mark.parametrize("username", UNUSUAL)
def test_a_name_goes_as_it_is(username: str) -> None:
    assert next(scram("SCRAM-SHA-512", username, "x")).decode().startswith(f"n,,n={username},r=")


def test_every_login_has_a_nonce_of_its_own() -> None:
    nonces = {next(scram("SCRAM-SHA-256", "user", "x")).rpartition(b"r=")[2] for _ in range(100)}
    assert len(nonces) == 100
    assert min(map(len, nonces)) >= 32


def test_extensions_that_the_broker_adds_are_passed_over() -> None:
    tokens = scram("SCRAM-SHA-256", "user", "x")
    nonce = next(tokens).rpartition(b"r=")[2]
    final = tokens.send(b"r=" + nonce + b"more,s=AAAA,i=4096,tokenauth=true")
    assert final.startswith(b"c=biws,r=" + nonce + b"more,p=")
    with pytest.raises(AuthenticationError, match="its signature is not that of the password"):
        tokens.send(b"v=AAAA,x=y")
