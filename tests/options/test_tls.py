"""Java's stores, versions and cipher suites, from options to the settings of TLS."""

from __future__ import annotations

import logging
import pickle
import shutil
import ssl
import subprocess
from pathlib import Path
from ssl import TLSVersion
from typing import Final

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.net.tls import OF_REGISTRY, Tls, TlsLimits, context
from spark_kafkawire.options import ReadOptions, tls, tls_limits
from spark_kafkawire.options.raw import RawOptions
from spark_kafkawire.options.security import tls_options
from spark_kafkawire.options.tls_limits import TLS_1_2_SUITES, TLS_1_3_SUITES
from tests.support.cases import for_each
from tests.support.java_stores import (
    CLIENT_STORES,
    FOLDER,
    KEY_PASSWORD,
    STORE_PASSWORD,
    TRUST_STORES,
    blocks_of,
    pem_of,
)

ALL_1_3: Final = ",".join(TLS_1_3_SUITES)
GCM: Final = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
SECRETS: Final = (STORE_PASSWORD, KEY_PASSWORD, "PRIVATE KEY", "wrong-password")


@pytest.fixture(autouse=True)
def _warnings_come_again() -> None:
    for once in (tls._warn_of_kind, tls._warn_of_password, tls_limits._warn_of_older):
        once.cache_clear()


def read(**changes: str) -> ReadOptions:
    options = {
        "kafka.bootstrap.servers": "a:9092",
        "kafka.security.protocol": "SSL",
        "subscribe": "t",
        **{f"kafka.ssl.{name.replace('__', '.')}": value for name, value in changes.items()},
    }
    return ReadOptions.parse(options)


def tls_with(**changes: str) -> Tls:
    found = read(**changes).net.connection.security.tls
    assert found is not None
    return found


def fails(**changes: str) -> str:
    with pytest.raises(OptionError) as error:
        read(**changes)
    message = str(error.value)
    assert message.isprintable()
    assert not any(secret in message for secret in SECRETS)
    return message


def client(name: str, **more: str) -> dict[str, str]:
    key_password = CLIENT_STORES[name]
    return {
        "keystore__location": str(FOLDER / name),
        "keystore__password": STORE_PASSWORD,
        **({} if key_password is None else {"key__password": key_password}),
        **more,
    }


def trust(name: str, **more: str) -> dict[str, str]:
    return {"truststore__location": str(FOLDER / name), "truststore__password": STORE_PASSWORD, **more}


@for_each("name", CLIENT_STORES)
def test_a_key_store_travels_as_pem_without_its_passwords(name: str) -> None:
    options = read(**client(name), **trust("trust.jks"))
    found = options.net.connection.security.tls
    assert found is not None
    assert (found.identity, found.key_password) == (pem_of("client.pem"), None)
    sent = pickle.dumps(options)
    assert STORE_PASSWORD.encode() not in sent
    assert KEY_PASSWORD.encode() not in sent
    assert b"BEGIN PRIVATE KEY" in sent
    for shown in (repr(options), str(options.net.connection.security)):
        assert not any(secret in shown for secret in SECRETS)


@pytest.mark.parametrize("name", TRUST_STORES)
def test_a_trust_store_travels_as_pem(name: str) -> None:
    found = tls_with(**trust(name)).trust or ""
    assert sorted(blocks_of(found)) == sorted(blocks_of(pem_of(*TRUST_STORES[name])))


@pytest.mark.parametrize(
    ("store", "said", "logged"),
    [
        ("trust.p12", "JKS", "the store is PKCS12, not JKS, and is read as that"),
        ("trust.jks", "pkcs12", "the store is JKS, not PKCS12, and is read as that"),
        ("trust.jks", "PEM", "the store is JKS, not PEM, and is read as that"),
        ("authority.pem", "jks", "the store is PEM, not JKS, and is read as that"),
    ],
)
def test_a_wrong_type_is_logged_once(
    store: str, said: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    more = {} if store.endswith("pem") else {"truststore__password": STORE_PASSWORD}
    for _ in range(3):
        tls_with(truststore__location=str(FOLDER / store), truststore__type=said, **more)
    assert caplog.messages == [f"option kafka.ssl.truststore.type: {logged}"]


@pytest.mark.parametrize("store", ["trust.jks", "trust.p12"])
def test_a_right_type_or_none_is_logged_never(store: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    tls_with(**trust(store))
    tls_with(**trust(store, truststore__type="JKS" if store.endswith("jks") else "pkcs12"))
    assert caplog.messages == []


def test_the_password_of_a_store_of_pem_is_logged_as_unused(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    for _ in range(3):
        tls_with(**trust("authority.pem"))
        tls_with(**client("client.p12", keystore__location=str(FOLDER / "client.pem")))
    assert caplog.messages == [
        "option kafka.ssl.truststore.password has no effect, because the store is PEM",
        "option kafka.ssl.keystore.password has no effect, because the store is PEM",
    ]


@pytest.mark.parametrize("kind", ["JCEKS", "bcfks", "BKS"])
def test_other_types_are_refused_by_name(kind: str) -> None:
    for store in ("truststore", "keystore"):
        message = fails(**{f"{store}__type": kind})
        assert message.startswith(f"option kafka.ssl.{store}.type: {kind.upper()} stores are not supported; ")
    assert "'JKZ' is not JKS or PKCS12 or PEM" in fails(truststore__type="jkz")


def test_errors_of_a_store_name_its_option_its_path_and_what_to_do() -> None:
    def at(name: str) -> str:
        return f"option kafka.ssl.keystore.location: '{FOLDER / name}': "

    wrong = fails(**client("client.p12", keystore__password="wrong-password"))
    assert wrong == at("client.p12") + (
        "kafka.ssl.keystore.password is not its password, or the file is damaged; check both with "
        "keytool -list"
    )
    assert fails(**client("client.jks", key__password="wrong-password")) == at("client.jks") + (
        "kafka.ssl.key.password is not the password of its key"
    )
    for name in ("client.jks", "client.p12"):
        message = fails(keystore__location=str(FOLDER / name))
        assert message == f"{at(name)}it has a password; set kafka.ssl.keystore.password"
    two = fails(keystore__location=str(FOLDER / "two-keys.p12"), keystore__password=STORE_PASSWORD)
    assert two.startswith(at("two-keys.p12") + "it has 2 private keys ('client', 'second'), ")
    assert fails(**trust("empty.jks")).startswith(
        f"option kafka.ssl.truststore.location: '{FOLDER / 'empty.jks'}': it has no certificate to trust"
    )


def test_a_password_needs_its_store() -> None:
    for store in ("truststore", "keystore"):
        message = fails(**{f"{store}__password": STORE_PASSWORD})
        assert message == f"option kafka.ssl.{store}.password needs kafka.ssl.{store}.location"
    text = {"truststore__certificates": pem_of("authority.pem"), "truststore__password": STORE_PASSWORD}
    assert fails(**text) == "option kafka.ssl.truststore.password needs kafka.ssl.truststore.location"


def test_a_certificate_that_openssl_refuses_is_told_with_its_file(tmp_path: Path) -> None:
    """Without a password nothing else shows that a JKS store is damaged."""
    data = bytearray((FOLDER / "trust.jks").read_bytes())
    start = data.index(b"\x30\x82")
    data[start] ^= 1
    path = tmp_path / "damaged.jks"
    path.write_bytes(data)
    message = fails(truststore__location=str(path))
    assert message.startswith("options kafka.ssl.truststore.*: cannot read a certificate: ")
    assert message.endswith(f" (kafka.ssl.truststore.location is '{path}')")


def test_each_suite_has_the_name_that_openssl_says() -> None:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl is not in PATH")
    listed = subprocess.run(
        [program, "ciphers", "-stdname", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = {line.split()[0]: line.split()[2] for line in listed.splitlines()}
    assert {suite: names[suite] for suite in TLS_1_2_SUITES} == TLS_1_2_SUITES
    assert all(names[suite] == suite for suite in TLS_1_3_SUITES)


def test_the_suites_are_those_of_java() -> None:
    lines = (FOLDER / "suites-java-17.txt").read_text().split()
    assert {*TLS_1_2_SUITES, *TLS_1_3_SUITES, "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"} == set(lines)


@pytest.mark.parametrize("given", ["", " ", " , ", "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"])
def test_no_suites_leave_the_choice_to_openssl(given: str) -> None:
    assert tls_with(cipher__suites=given).limits == TlsLimits()


def offered(found: Tls) -> list[str]:
    """The suites of TLS 1.2 that OpenSSL offers, in its order."""
    return [str(each["name"]) for each in context(found).get_ciphers() if each["protocol"] != "TLSv1.3"]


def test_suites_are_offered_in_the_order_given_and_leave_tls_1_3_out() -> None:
    suites = "tls_ecdhe_rsa_with_aes_128_gcm_sha256 , TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    found = tls_with(cipher__suites=suites)
    assert offered(found) == ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"]
    made = context(found)
    assert (made.minimum_version, made.maximum_version) == (TLSVersion.TLSv1_2, TLSVersion.TLSv1_2)


def test_all_suites_of_tls_1_3_leave_it_in() -> None:
    made = context(tls_with(cipher__suites=f"{ALL_1_3},{GCM}"))
    assert (made.minimum_version, made.maximum_version) == (TLSVersion.TLSv1_2, TLSVersion.MAXIMUM_SUPPORTED)
    made = context(tls_with(cipher__suites=ALL_1_3))
    assert (made.minimum_version, made.maximum_version) == (TLSVersion.TLSv1_3, TLSVersion.MAXIMUM_SUPPORTED)


def test_some_suites_of_tls_1_3_cannot_be_chosen() -> None:
    assert fails(cipher__suites=f"TLS_AES_256_GCM_SHA384,{GCM}") == (
        "option kafka.ssl.cipher.suites: Python cannot choose suites of TLS 1.3, all of them are offered: "
        "leave TLS_AES_256_GCM_SHA384 out, which leaves TLS 1.2 only, or name "
        "TLS_AES_256_GCM_SHA384, TLS_AES_128_GCM_SHA256, TLS_CHACHA20_POLY1305_SHA256"
    )
    # Without TLS 1.3 they have no effect, as in Java.
    found = tls_with(cipher__suites=f"TLS_AES_256_GCM_SHA384,{GCM}", enabled__protocols="TLSv1.2")
    assert offered(found) == ["ECDHE-RSA-AES256-GCM-SHA384"]


def test_unknown_suites_are_refused() -> None:
    assert fails(cipher__suites=f"{GCM},TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA38") == (
        "option kafka.ssl.cipher.suites: 'TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA38' is no cipher suite of TLS "
        f"1.2 by its name in Java; did you mean {GCM}?"
    )
    assert fails(cipher__suites="NULL").endswith("by its name in Java; leave it out")


def test_suites_that_this_openssl_lacks_are_refused() -> None:
    lacking = TlsLimits(suites=("ECDHE-RSA-AES256-GCM-SHA384", "NO-SUCH-SUITE"))
    for limits in (lacking, TlsLimits(suites=("NO-SUCH-SUITE",))):
        with pytest.raises(OptionError) as error:
            context(Tls(limits=limits))
        assert str(error.value) == (
            f"option kafka.ssl.cipher.suites: {ssl.OPENSSL_VERSION} of this machine does not offer "
            "NO-SUCH-SUITE (OpenSSL's names); leave them out"
        )


@for_each(
    ("given", "lowest", "highest"),
    [
        ({}, 2, 3),
        ({"enabled__protocols": ""}, 2, 3),
        ({"enabled__protocols": "TLSv1.2,TLSv1.3"}, 2, 3),
        ({"enabled__protocols": " tlsv1.3 , TLSv1.2 "}, 2, 3),
        ({"enabled__protocols": "TLSv1.2"}, 2, 2),
        ({"enabled__protocols": "TLSv1.3"}, 3, 3),
        ({"protocol": "TLS"}, 2, 3),
        ({"protocol": "SSL"}, 2, 3),
        ({"protocol": "TLSv1.3"}, 2, 3),
        ({"protocol": "TLSv1.2"}, 2, 2),
        ({"protocol": "TLSv1.2", "enabled__protocols": "TLSv1.2,TLSv1.3"}, 2, 2),
    ],
)
def test_versions_are_those_that_the_options_leave(given: dict[str, str], lowest: int, highest: int) -> None:
    version = {2: TLSVersion.TLSv1_2, 3: TLSVersion.TLSv1_3}
    found = tls_with(**given)
    assert found.limits == TlsLimits(version[lowest], version[highest])
    made = context(found)
    assert made.minimum_version == version[lowest]
    assert made.maximum_version == (version[2] if highest == 2 else TLSVersion.MAXIMUM_SUPPORTED)


def test_older_versions_are_left_out_with_a_line_or_refused(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "spark_kafkawire")
    for _ in range(3):
        found = tls_with(enabled__protocols="TLSv1.2,TLSv1.1,TLSv1")
        assert found.limits.highest == TLSVersion.TLSv1_2
    assert caplog.messages == [
        "option kafka.ssl.enabled.protocols: versions before TLS 1.2 are not supported and are left out"
    ]
    assert fails(enabled__protocols="TLSv1,TLSv1.1") == (
        "option kafka.ssl.enabled.protocols: versions before TLS 1.2 are not supported; set TLSv1.2,TLSv1.3"
    )
    assert fails(protocol="TLSv1.1") == (
        "option kafka.ssl.protocol: 'TLSV1.1' is not TLSv1.2 or TLSv1.3: older ones are not supported"
    )
    assert "'TLSV1.4' is not TLSv1.2 or TLSv1.3" in fails(enabled__protocols="TLSv1.2,TLSv1.4")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"protocol": "TLSv1.2", "enabled__protocols": "TLSv1.3"}, ("enabled.protocols", "protocol")),
        ({"cipher__suites": GCM, "enabled__protocols": "TLSv1.3"}, ("enabled.protocols", "cipher.suites")),
        ({"cipher__suites": ALL_1_3, "protocol": "TLSv1.2"}, ("protocol", "cipher.suites")),
    ],
)
def test_options_that_leave_no_version_are_told(given: dict[str, str], named: tuple[str, ...]) -> None:
    names = " and ".join(f"kafka.ssl.{name}" for name in named)
    assert fails(**given) == f"options {names} leave no version of TLS; give them one in common"


def test_options_of_another_peer_have_their_own_names_in_errors() -> None:
    names = tls_options("schema.registry.ssl", None)
    given = {
        "schema.registry.ssl.keystore.location": str(FOLDER / "client.jks"),
        "schema.registry.ssl.keystore.password": STORE_PASSWORD,
        "schema.registry.ssl.truststore.location": str(FOLDER / "trust.jks"),
    }
    with pytest.raises(OptionError) as error:
        tls.tls_of(RawOptions(given, names, ()), names, OF_REGISTRY)
    assert str(error.value) == (
        f"option schema.registry.ssl.keystore.location: '{FOLDER / 'client.jks'}': its key has another "
        "password than the store; set schema.registry.ssl.key.password"
    )
    given["schema.registry.ssl.key.password"] = KEY_PASSWORD
    found = tls.tls_of(RawOptions(given, names, ()), names, OF_REGISTRY)
    assert (found.identity, found.names) == (pem_of("client.pem"), OF_REGISTRY)
