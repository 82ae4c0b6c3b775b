"""Logins with Kerberos without a KDC: recorded tickets, brokers that play their side with MIT's own library,
and hostile ones. Tests with a KDC are in ``tests/interop/test_kerberos.py``."""

from __future__ import annotations

import gc
import os
import shutil
import struct
import sys
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Final

import psutil
import pytest

from spark_kafkawire.errors import AuthenticationError, KafkaWireError, OptionError, ProtocolError
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.logins.gssapi_library import Context, load
from spark_kafkawire.net.logins.kerberos import (
    FILE_BYTES_MAX,
    GSSAPI,
    ROUND_COUNT_MAX,
    KerberosLogin,
    check_key_tab,
    exchange,
    find_key_tab,
)
from spark_kafkawire.net.sasl import Sasl
from spark_kafkawire.net.settings import ConnectionSettings, Security
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from tests.net.kerberos_peer import RECORDED, gssapi, with_files
from tests.net.login_broker import Login, login_broker
from tests.net.modern_peers import METADATA_RESPONSE
from tests.net.peers import Peer
from tests.support.polling import GRACE_S
from tests.support.settings import settings_modern

CAROL: Final = KerberosLogin("kafka", ticket_cache=os.fspath(RECORDED / "carol.cache"))
KEY_TAB: Final = RECORDED / "kafka.keytab"
HOST: Final = "127.0.0.1"
#: Logins that a leak of one context or name each would make visible, and the bytes that a process may grow.
LOGIN_COUNT: Final = 1_500
GROWTH_MAX: Final = 3 << 20


@pytest.fixture(autouse=True)
def _files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_files(monkeypatch, tmp_path)


def needs_library() -> None:
    """Skip the test where the system's library is missing."""
    try:
        load()
    except OptionError as reason:
        pytest.skip(str(reason))


def settings(login: KerberosLogin = CAROL, timeout_s: float = 10) -> ConnectionSettings:
    return replace(settings_modern(timeout_s), security=Security(sasl=Sasl("GSSAPI", login)))


def fails(login: Login, credentials: KerberosLogin = CAROL, timeout_s: float = 10) -> str:
    """The one line that is reported."""
    needs_library()
    began_s = time.monotonic()
    with Peer(login_broker({"GSSAPI": login})) as peer, pytest.raises(AuthenticationError) as error:
        Client.connect(peer.broker, settings(credentials, timeout_s))
    assert time.monotonic() - began_s < timeout_s + GRACE_S
    assert "\n" not in str(error.value)
    return str(error.value)


def saying(*tokens: bytes) -> Login:
    """A broker that repeats its last token."""

    def login() -> Generator[bytes, bytes, None]:
        yield b""
        yield from tokens
        while True:
            yield tokens[-1]

    return login


def test_a_ticket_lets_in() -> None:
    needs_library()
    with Peer(login_broker({"GSSAPI": gssapi()})) as peer, Client.connect(peer.broker, settings()) as client:
        assert client.request(MetadataRequest(topics=None)) == METADATA_RESPONSE


@pytest.mark.parametrize("layers", [b"\1\0\0\0", b"\7\0\xff\xff", b"\5\0\0\0"])
def test_no_security_layer_is_chosen_of_all_that_are_offered(layers: bytes) -> None:
    needs_library()
    with Peer(login_broker({"GSSAPI": gssapi(layers)})) as peer, Client.connect(peer.broker, settings()):
        assert not peer.failures


@pytest.mark.parametrize("layers", [b"\2\0\xff\xff", b"\4\0\xff\xff", b"\6\0\0\0", b"\0\0\0\0"])
def test_a_broker_that_demands_a_security_layer_is_refused(layers: bytes) -> None:
    message = fails(gssapi(layers))
    assert "the broker demands a security layer of SASL" in message
    assert message.endswith("use kafka.security.protocol=SASL_SSL to encrypt")


@pytest.mark.parametrize("layers", [b"", b"\1", b"\1\0\0", b"\1\0\0\0\0", b"\1" * 100_000])
def test_an_offer_of_another_size_is_refused(layers: bytes) -> None:
    assert "the security layers of the broker are" in fails(gssapi(layers))


@pytest.mark.parametrize("number", [0, 1])
def test_a_broker_without_the_key_is_refused(number: int) -> None:
    assert "the peer does not prove that it is the broker" in fails(gssapi(flips=number))


@pytest.mark.parametrize("token", [b"", b"\0", b"garbage", b"\x60\x03abc", b"\x60" * 1_000_000, bytes(64)])
def test_garbage_is_not_a_proof(token: bytes) -> None:
    message = fails(saying(token))
    assert "the peer does not prove that it is the broker (check its address, and that it has" in message
    assert message.endswith("Invalid token was supplied")


def test_a_token_of_any_size_is_bounded() -> None:
    """The frame is, and the mechanism is not hurt by a longer one."""
    needs_library()
    with (
        Peer(login_broker({"GSSAPI": saying(bytes(10_000_000))})) as peer,
        pytest.raises(ProtocolError, match="announces 10000021 bytes, at most"),
    ):
        Client.connect(peer.broker, settings())
    tokens = GSSAPI.tokens(CAROL, HOST, Deadline.after(10))
    next(tokens)
    with pytest.raises(AuthenticationError, match="in an answer of 10000000 bytes"):
        tokens.send(bytes(10_000_000))


class _Endless(Context):
    """A context that is never complete: MIT's library has none."""

    def __init__(self) -> None:
        self.is_complete = False

    def step(self, _token: bytes) -> bytes:
        return b"more"


def test_a_broker_ends_after_few_rounds() -> None:
    """A broker that repeats the client's token, and a context that never ends."""
    needs_library()
    tokens = GSSAPI.tokens(CAROL, HOST, Deadline.after(10))
    said = next(tokens)
    with pytest.raises(AuthenticationError):
        tokens.send(said)
    tokens = exchange(_Endless(), b"")
    next(tokens)
    assert [tokens.send(b"") for _ in range(ROUND_COUNT_MAX)] == [b"more"] * ROUND_COUNT_MAX
    with pytest.raises(AuthenticationError, match=f"does not end after {ROUND_COUNT_MAX} tokens"):
        tokens.send(b"")


def test_refuse_a_key_of_another_ticket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = KEY_TAB.read_bytes()
    other = tmp_path / "other.keytab"
    other.write_bytes(data[:-6] + bytes([data[-6] ^ 1]) + data[-5:])
    monkeypatch.setenv("KRB5_KTNAME", os.fspath(other))
    assert "the broker refuses the credentials (error 58" in fails(gssapi())


def test_an_expired_ticket_is_reported(tmp_path: Path) -> None:
    # The library notes in the cache that it looked for another ticket.
    cache = shutil.copy(RECORDED / "expired.cache", tmp_path / "cache")
    message = fails(gssapi(), KerberosLogin("kafka", ticket_cache=os.fspath(cache)))
    assert f"'{cache}', which klist shows, gives no ticket: the ticket has expired: run kinit" in message


def test_a_cache_without_tickets_is_reported(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", KEY_TAB):
        message = fails(gssapi(), KerberosLogin("kafka", ticket_cache=os.fspath(path)))
        assert f"SASL GSSAPI: the ticket cache '{path}', which klist shows, gives no ticket: " in message
    other = replace(CAROL, principal="dave@KAFKAWIRE.TEST")
    assert "the cache has no ticket of this user: run kinit" in fails(gssapi(), other)


def test_a_library_that_is_missing_is_reported_with_its_packages() -> None:
    with pytest.raises(OptionError) as error:
        load("libgssapi_of_nobody.so.2")
    assert "libgssapi_of_nobody.so.2" in str(error.value)
    assert "install the package libgssapi-krb5-2 (Debian, Ubuntu) or krb5-libs (RPM)" in str(error.value)
    with pytest.raises(OptionError):
        load("libc.so.6")  # a library of something else


@pytest.mark.slow
def test_a_login_leaves_nothing_behind() -> None:
    needs_library()
    process = psutil.Process()

    def log_in(count: int) -> int:
        for _ in range(count):
            tokens = GSSAPI.tokens(CAROL, HOST, Deadline.after(10))
            next(tokens)
            with pytest.raises(AuthenticationError):
                tokens.send(b"garbage")
        gc.collect()
        return int(process.memory_info().rss)

    before = log_in(LOGIN_COUNT // 10)
    assert log_in(LOGIN_COUNT) - before < GROWTH_MAX


# Key tabs


def refused(path: Path | str, principal: str = "kafka/127.0.0.1") -> str:
    with pytest.raises(AuthenticationError) as error:
        check_key_tab(os.fspath(path), principal)
    assert str(error.value).startswith("SASL GSSAPI: the key tab '")
    assert "\n" not in str(error.value)
    return str(error.value)


def entry(principal: str, realm: str = "R") -> bytes:
    """An entry of a key tab, written out by its format."""
    parts = [part.encode() for part in (realm, *principal.split("/"))]
    names = b"".join(struct.pack(">H", len(part)) + part for part in parts)
    key = b"\0\x12" + struct.pack(">H", 32) + bytes(32)
    body = struct.pack(">H", len(parts) - 1) + names + struct.pack(">IIB", 1, 0, 2) + key
    return struct.pack(">i", len(body)) + body


def test_a_key_tab_has_the_keys_of_some_principals(tmp_path: Path) -> None:
    for principal in ("kafka/127.0.0.1", "kafka/127.0.0.1@KAFKAWIRE.TEST"):
        check_key_tab(os.fspath(KEY_TAB), principal)
    for principal in ("kafka", "127.0.0.1", "kafka/127.0.0.1@OTHER", "KAFKA/127.0.0.1", ""):
        message = refused(KEY_TAB, principal)
        assert f"has no key of the principal '{principal}' of kafka.sasl.jaas.config" in message
        assert message.endswith("it has keys of kafka/127.0.0.1@KAFKAWIRE.TEST; name one of these")
    path = tmp_path / "many.keytab"
    hole = struct.pack(">i", -5) + bytes(5)
    path.write_bytes(b"\5\2" + entry("a@b") + hole + entry("c") * 2 + bytes(4) + b"\xff" * 9)
    check_key_tab(os.fspath(path), "a\\@b")
    check_key_tab(os.fspath(path), "a\\@b@R")
    assert refused(path, "d").endswith(r"it has keys of a\@b@R, c@R; name one of these")


def test_a_key_tab_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    missing = tmp_path / "missing.keytab"
    message = refused(missing)
    assert f"'{missing}' cannot be read where the client connects: No such file or directory" in message
    assert message.endswith("or the name of a file that spark-submit --files sends")
    assert "cannot be a file's name" in refused("a\0b")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "it is a pipe, and a regular file is needed" in refused(pipe)
    assert "Is a directory" in refused(tmp_path)
    long = tmp_path / "long"
    long.write_bytes(bytes(FILE_BYTES_MAX + 1))
    assert f"is longer than {FILE_BYTES_MAX} bytes" in refused(long)
    for data in (b"", b"\5", b"\5\1" + bytes(40), b"text"):
        long.write_bytes(data)
        assert "is not a key tab of version 2" in refused(long)


def test_every_truncation_and_flipped_byte_of_a_key_tab_is_an_error_or_a_principal(tmp_path: Path) -> None:
    data = KEY_TAB.read_bytes() + entry("a")
    damaged = [data[:size] for size in range(len(data))]
    damaged += [bytes([*data[:pos], byte ^ 0xFF, *data[pos + 1 :]]) for pos, byte in enumerate(data)]
    path = tmp_path / "damaged.keytab"
    messages = []
    for item in damaged:
        path.write_bytes(item)
        messages.append(refused(path, "nobody"))
    for kind in ("is damaged", "has no key of the principal", "is not a key tab"):
        assert any(kind in message for message in messages)


def test_a_file_that_spark_sends_is_found_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Spark puts the folder of ``--files`` into the path of Python's modules, on all machines."""
    here, sent = tmp_path / "here", tmp_path / "sent"
    for folder in (here, sent):
        folder.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", [*sys.path, os.fspath(sent)])
    (sent / "a.keytab").touch()
    assert find_key_tab("a.keytab") == os.fspath(sent / "a.keytab")
    assert find_key_tab("FILE:a.keytab") == os.fspath(sent / "a.keytab")
    (here / "a.keytab").touch()
    assert find_key_tab("./a.keytab") == "a.keytab"
    assert find_key_tab("/etc/b.keytab") == "/etc/b.keytab"
    assert find_key_tab("b.keytab") == "b.keytab"
    of_driver = tmp_path / "userFiles-1"
    of_driver.mkdir()
    (of_driver / "b.keytab").touch()
    monkeypatch.setattr(sys, "path", [*sys.path, os.fspath(of_driver / "streaming_job")])
    assert find_key_tab("b.keytab") == os.fspath(of_driver / "b.keytab")


def test_a_key_tab_is_checked_before_a_kdc_is_asked() -> None:
    needs_library()
    for login in (
        KerberosLogin("kafka", "nobody", os.fspath(KEY_TAB)),
        KerberosLogin("kafka", "nobody", "/nowhere/a.keytab"),
    ):
        with pytest.raises(AuthenticationError, match="the key tab '"):
            next(GSSAPI.tokens(login, HOST, Deadline.after(10)))


def test_a_realm_without_a_kdc_may_be_tried_again() -> None:
    needs_library()
    login = KerberosLogin("kafka", "kafka/127.0.0.1", os.fspath(KEY_TAB))
    with pytest.raises(KafkaWireError) as error:
        next(GSSAPI.tokens(login, HOST, Deadline.after(10)))
    assert error.value.retriable
    assert "no KDC is found: check kdc of the realm in krb5.conf (KRB5_CONFIG)" in str(error.value)
