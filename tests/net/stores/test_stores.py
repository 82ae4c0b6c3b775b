"""Stores that Java's tools made become the PEM texts of what they contain; any other bytes are one error."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from spark_kafkawire.net.stores import Store, StoreError, identity_of, kind_of, trust_of
from tests.support.cases import for_each
from tests.support.java_stores import (
    CLIENT_STORES,
    KEY_PASSWORD,
    NOT_ASCII,
    STORE_PASSWORD,
    TRUST_STORES,
    blocks_of,
    pem_of,
    stored,
)

PASSWORD_NAME: Final = "x.keystore.password"
KEY_PASSWORD_NAME: Final = "x.key.password"
PASSWORDS: Final = (STORE_PASSWORD, KEY_PASSWORD, *NOT_ASCII)
Read = Callable[[Store], str]


def store(name: str, password: str | None = STORE_PASSWORD, key_password: str | None = None) -> Store:
    return Store(stored(name), password, key_password, PASSWORD_NAME, KEY_PASSWORD_NAME)


def fails(read: Read, given: Store) -> str:
    with pytest.raises(StoreError) as error:
        read(given)
    message = str(error.value)
    assert message.isprintable()
    assert not any(password in message for password in (*PASSWORDS, given.password) if password)
    return message


def read_or_message(read: Read, given: Store) -> str:
    try:
        return read(given)
    except StoreError as error:
        return str(error)


@for_each(("name", "key_password"), CLIENT_STORES.items())
def test_a_key_comes_out_of_each_kind_of_store_with_its_chain(name: str, key_password: str | None) -> None:
    assert identity_of(store(name, key_password=key_password)) == pem_of("client.pem")


@pytest.mark.parametrize(("name", "trusted"), TRUST_STORES.items())
def test_trusted_certificates_come_out_of_each_kind_of_store(name: str, trusted: tuple[str, ...]) -> None:
    assert sorted(blocks_of(trust_of(store(name)))) == sorted(blocks_of(pem_of(*trusted)))


@pytest.mark.parametrize("name", ["client.jks", "client.p12", "client-openssl.p12"])
def test_a_key_makes_its_own_certificate_trusted_and_no_authority(name: str) -> None:
    assert blocks_of(trust_of(store(name))) == [blocks_of(pem_of("client.pem"))[1]]


@pytest.mark.parametrize("kind", ["jks", "p12"])
def test_a_key_and_a_trusted_certificate_share_a_store(kind: str) -> None:
    trusted = trust_of(store(f"key-and-trust.{kind}"))
    client = blocks_of(pem_of("client.pem"))[1]
    assert sorted(blocks_of(trusted)) == sorted([client, *blocks_of(pem_of("other.pem"))])


def test_java_trusts_the_same_of_two_keys_in_jks() -> None:
    assert len(blocks_of(trust_of(store("two-keys.jks")))) == 2


@pytest.mark.parametrize("kind", ["jks", "p12"])
def test_two_keys_are_refused_by_their_names(kind: str) -> None:
    message = fails(identity_of, store(f"two-keys.{kind}"))
    assert message == (
        "it has 2 private keys ('client', 'second'), and nothing says which one to use; copy one into a "
        "store of its own: keytool -importkeystore -srckeystore FILE -srcalias ALIAS -destkeystore NEW"
    )
    assert fails(trust_of, store("two-keys.p12")) == message


@pytest.mark.parametrize("kind", ["PRIVATE KEY", "RSA PRIVATE KEY", "ENCRYPTED PRIVATE KEY"])
def test_two_keys_of_pem_are_refused(kind: str) -> None:
    one = pem_of("client.pem")
    other = pem_of("server.pem").replace("PRIVATE KEY", kind)
    both = Store((one + other).encode())
    assert fails(identity_of, both) == (
        "it has 2 private keys, and nothing says which one to use; leave one in it"
    )
    assert trust_of(both) == one + other


def test_names_of_keys_are_not_shown_where_one_is_a_password() -> None:
    message = fails(identity_of, store("two-keys.p12", password="client"))
    assert message.startswith("it has 2 private keys, and nothing says")


# Without encrypted certificates and a MAC nothing shows that a password is wrong.
@for_each(
    "name",
    sorted(
        {*CLIENT_STORES, *TRUST_STORES, "two-keys.jks", "empty.jks", "empty.p12"}
        - {"trust-no-password.p12", "client-no-mac.p12"}
    ),
)
def test_a_wrong_password_is_refused(name: str) -> None:
    for password in ("wrong", "", STORE_PASSWORD + " ", STORE_PASSWORD.upper()):
        assert fails(trust_of, store(name, password)).startswith(
            f"{PASSWORD_NAME} is not its password, or the "
        )


def test_a_key_without_a_mac_opens_with_its_password_alone() -> None:
    """The padding of a wrong key is right once in 256 times: that is no key yet."""
    right = store("client-no-mac.p12")
    for number in range(300):
        message = fails(identity_of, replace(right, password=f"wrong {number}"))
        assert message.startswith(f"{PASSWORD_NAME} is not its password")
    assert identity_of(right) == pem_of("client.pem")


def test_a_trust_store_without_a_password_opens_with_any() -> None:
    for password in (None, "", "anything"):
        assert trust_of(store("trust-no-password.p12", password)) == pem_of("authority.pem")


@for_each("name", [*CLIENT_STORES, "trust.jks", "empty.p12"])
def test_a_key_store_needs_its_password(name: str) -> None:
    assert fails(identity_of, store(name, None)) == f"it has a password; set {PASSWORD_NAME}"


def test_a_trust_store_needs_a_password_where_java_needs_it() -> None:
    assert len(blocks_of(trust_of(store("trust.jks", None)))) == 2
    for name in ("trust.p12", "trust-legacy.p12", "empty.p12"):
        assert fails(trust_of, store(name, None)) == f"it has a password; set {PASSWORD_NAME}"


def test_the_password_of_a_key_is_told_from_that_of_its_store() -> None:
    assert fails(identity_of, store("client.jks")) == (
        f"its key has another password than the store; set {KEY_PASSWORD_NAME}"
    )
    for name in ("client.jks", "client-same-password.jks"):
        message = fails(identity_of, store(name, key_password="wrong"))
        assert message == f"{KEY_PASSWORD_NAME} is not the password of its key"
    assert fails(identity_of, store("client.p12", key_password=KEY_PASSWORD)) == (
        f"PKCS12 has one password for the store and its key: set {KEY_PASSWORD_NAME} as {PASSWORD_NAME}, or "
        "leave it out"
    )
    for name in ("client.p12", "client-same-password.jks"):
        assert identity_of(store(name, key_password=STORE_PASSWORD)) == pem_of("client.pem")


def test_passwords_may_have_any_character_in_jks() -> None:
    password, key_password = NOT_ASCII
    found = identity_of(store("not-ascii.jks", password, key_password))
    assert len(blocks_of(found)) == 4
    assert fails(identity_of, store("not-ascii.jks", password)).startswith("its key has another password")


@pytest.mark.parametrize("kind", ["jks", "p12"])
def test_a_store_without_what_it_is_for_is_told(kind: str) -> None:
    assert fails(trust_of, store(f"empty.{kind}")).startswith("it has no certificate to trust")
    for name in ("empty", "trust"):
        assert fails(identity_of, store(f"{name}.{kind}")) == "it has no private key; is it a trust store?"


@pytest.mark.parametrize("kind", ["JCEKS", "BCFKS"])
@pytest.mark.parametrize("read", [trust_of, identity_of])
def test_other_kinds_of_stores_are_refused_by_name(read: Read, kind: str) -> None:
    message = fails(read, store(f"client.{kind.lower()}"))
    assert message.startswith(
        f"{kind} stores are not supported; convert it: keytool -importkeystore -srckeystore "
    )
    assert message.endswith(f"-deststoretype PKCS12 -srcstoretype {kind}")


def test_kinds_are_known_by_what_stores_contain() -> None:
    for name in (*CLIENT_STORES, *TRUST_STORES, "authority.pem"):
        kind = {"jks": "JKS", "p12": "PKCS12", "pem": "PEM"}[name.rpartition(".")[2]]
        assert kind_of(stored(name)) == kind
        # The end of a file does not change that.
        assert kind_of(stored(name)[:40]) == kind
    assert kind_of(b"0 lines of a text that begins as DER\n" + stored("authority.pem")) == "PEM"


@pytest.mark.parametrize("data", [b"", b"0", b"\xfe\xed", b"PK\3\4", bytes(100), b"\x30\x82\x01\x00\x30\x03"])
def test_anything_else_is_told(data: bytes) -> None:
    for read in (trust_of, identity_of):
        assert "neither JKS nor PKCS12" in fails(read, Store(data, "x"))


def test_secrets_are_in_no_repr() -> None:
    shown = repr(store("client.jks", key_password=KEY_PASSWORD))
    assert STORE_PASSWORD not in shown
    assert KEY_PASSWORD not in shown
    assert "FE" not in shown.upper()


@pytest.mark.parametrize(
    "name",
    ["client.jks", "trust.jks", "client.p12", "client-legacy.p12", "client-bc.p12", "client-no-mac.p12",
     "trust-no-password.p12", "trust.p12", "client.pem"],
)  # fmt: skip
def test_every_damage_is_an_error_or_harmless(name: str) -> None:
    data, key_password = stored(name), CLIENT_STORES.get(name)
    right = store(name, key_password=key_password)
    draw = random.Random(name)
    # PKCS12 is opened by work that takes time for each try; what is read before is at its beginning.
    positions = (
        range(len(data)) if name.endswith("jks") else sorted({*range(60), *draw.sample(range(len(data)), 40)})
    )
    damages = [
        data[:pos] + bytes([data[pos] ^ 1 << draw.randrange(8)]) + data[pos + 1 :] for pos in positions
    ]
    damages += [data[:size] for size in range(0, len(data), 7 if name.endswith("jks") else 37)]
    damages += [data + b"\0", data + data, data[1:]]
    # Without a password, too: the hash of JKS is not checked then.
    for damaged in damages:
        for read, password in ((trust_of, None), (identity_of, STORE_PASSWORD)):
            found = read_or_message(read, replace(right, data=damaged, password=password))
            assert blocks_of(found) or (found.isprintable() and STORE_PASSWORD not in found)


def test_a_store_that_takes_hours_to_open_is_refused_at_once() -> None:
    rounds = b"\x02\x03\x00\xc8\x00"
    data = stored("client-bc.p12")
    assert data.count(rounds) == 2
    more = replace(store("client-bc.p12"), data=data.replace(rounds, b"\x02\x03\x7f\xff\xff", 1))
    for read in (trust_of, identity_of):
        assert fails(read, more) == (
            f"its encryption takes {0x7FFFFF + 51200 + 102400} rounds of hashing, more than 5000000; make it "
            "again: keytool -importkeystore -srckeystore FILE -destkeystore NEW"
        )


@pytest.mark.parametrize(
    "inside", [b"\x30\x80" * 500_000, b"\x30\x00" * 500_000, b"\x30\x84\xff\xff\xff\xff", b"\x30\x80\0\0"]
)
def test_nested_and_repeated_elements_are_damage(inside: bytes) -> None:
    for read in (trust_of, identity_of):
        message = fails(read, Store(b"\x30\x80\x02\x01\x03" + inside, "x"))
        assert message.startswith("the file is damaged: its structure is not that of PKCS12")


def test_without_its_library_pkcs12_says_what_to_install() -> None:
    script = """
import sys
sys.modules["cryptography"] = None
from spark_kafkawire.net.stores import Store, StoreError, identity_of, trust_of
from tests.support.java_stores import STORE_PASSWORD, blocks_of, stored
print(len(blocks_of(trust_of(Store(stored("trust.jks"), STORE_PASSWORD)))))
try:
    trust_of(Store(stored("trust.p12"), STORE_PASSWORD))
except StoreError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == (
        "2\nit is a PKCS12 store, which needs a library: pip install 'spark-kafkawire[stores]'; or convert "
        "it: keytool -importkeystore -srckeystore FILE -destkeystore store.jks -deststoretype JKS\n"
    ), done.stderr
