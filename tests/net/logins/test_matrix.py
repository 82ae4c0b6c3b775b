"""Each mechanism with and without TLS, with right, wrong, expired and absent credentials; hostile brokers.

A connection is made as the options of a query say, over real sockets, to the broker of ``login_broker``. It
ends in rows, or in one line that says what to do and shows no secret.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from scramp import ScramException, ScramMechanism

from spark_kafkawire.errors import AuthenticationError, KafkaWireError, OptionError
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.logins.passwords import HASHES, scram
from spark_kafkawire.net.sasl import MECHANISMS
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from tests.net.login_broker import (
    KEY_ID,
    LOGINS,
    REGION,
    SECRET,
    TOKEN,
    USER,
    Login,
    Refused,
    handshaken,
    login_broker,
)
from tests.net.modern_peers import METADATA_RESPONSE, answer, api_versions, asked
from tests.net.peers import Peer, Script, drip, read_frame, server_of, serving, stalling
from tests.support.cases import for_each
from tests.support.certificates import SERVER_NAME, Certificates
from tests.support.polling import GRACE_S

WRONG: Final = "wr0ng-one"
PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")
#: Mechanisms whose matrix is in another file, because they need a server of their own.
ELSEWHERE: Final = {"GSSAPI": Path(__file__).with_name("test_gssapi.py")}


@dataclass(frozen=True)
class Rows:
    """The options of one mechanism. ``secret`` becomes the right or the wrong one.

    ``token_count`` is the number of tokens of the client, after the last of which it is let in. ``absent``
    are options without credentials, and the error of each.
    """

    options: Callable[[str], dict[str, str]]
    token_count: int
    absent: tuple[tuple[dict[str, str], str], ...]
    secret: str = SECRET
    environment: Callable[[str], dict[str, str]] = field(default=lambda _: {})


def jaas(module: str, **options: str) -> dict[str, str]:
    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"')

    pairs = "".join(f' {name}="{quoted(value)}"' for name, value in options.items())
    return {"kafka.sasl.jaas.config": f"{module} required{pairs};"}


def of_password(module: str) -> Rows:
    return Rows(
        lambda secret: jaas(module, username=USER, password=secret),
        1 if module == "PlainLoginModule" else 2,
        (
            ({}, "option kafka.sasl.jaas.config is not set, and kafka.sasl.mechanism="),
            (
                jaas(module, username=USER),
                'option kafka.sasl.jaas.config has no password: give it password="…"',
            ),
            (
                jaas(module, username=USER, password=""),
                'option kafka.sasl.jaas.config has no password: give it password="…"',
            ),
            (jaas(module, password="${env:NOT_SET}"), "${env:NOT_SET}: the variable is not set in the"),
        ),
    )


BEARER: Final = "OAuthBearerLoginModule"
IAM: Final = jaas("software.amazon.msk.auth.iam.IAMLoginModule")
ROWS: Final[dict[str, Rows]] = {
    "PLAIN": of_password("PlainLoginModule"),
    "SCRAM-SHA-256": of_password("ScramLoginModule"),
    "SCRAM-SHA-512": of_password("ScramLoginModule"),
    "OAUTHBEARER": Rows(lambda token: jaas(BEARER, token=token, extension_logicalCluster="lkc"), 1,
     (({}, 'option kafka.sasl.jaas.config has no token: give it token="…", or set kafka.sasl.oauthbearer'),
     (jaas(BEARER, token=""), 'option kafka.sasl.jaas.config has no token: give it token="…", or set '),
     ({"kafka.sasl.oauthbearer.token.endpoint.url": "file:///no/such/token"},
     "'/no/such/token' cannot be read where the client connects: No such file")), secret=TOKEN),
    "AWS_MSK_IAM": Rows(lambda _: IAM, 1, (({}, "credentials"), (IAM, "credentials")),
     environment=lambda secret: {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": secret}),
}  # fmt: skip
MATRIX: Final = [(mechanism, protocol) for mechanism in ROWS for protocol in PROTOCOLS]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials of this machine, and a home without files."""
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", REGION)


@dataclass(frozen=True)
class Door:
    """A listener with a login, and how a query gets there."""

    mechanism: str
    protocol: str
    certificates: Certificates
    monkeypatch: pytest.MonkeyPatch

    @property
    def rows(self) -> Rows:
        return ROWS[self.mechanism]

    def listener(self, script: Script) -> Peer:
        with_tls = self.protocol == "SASL_SSL"
        return Peer(serving(server_of(self.certificates.server), script) if with_tls else script)

    def connect(self, peer: Peer, options: dict[str, str], secret: str = "") -> object:
        """The cluster that a logged-in client sees."""
        for name, value in (self.rows.environment(secret) if secret else {}).items():
            self.monkeypatch.setenv(name, value)
        trust = {"kafka.ssl.truststore.location": str(self.certificates.authority)}
        parsed = ReadOptions.parse(
            {
                "subscribe": "t",
                "kafka.bootstrap.servers": f"{SERVER_NAME}:{peer.broker.port}",
                "kafka.security.protocol": self.protocol,
                "kafka.sasl.mechanism": self.mechanism,
                **(trust if self.protocol == "SASL_SSL" else {}),
                **options,
            }
        )
        [server] = parsed.discovery.bootstrap_servers
        with Client.connect(server, parsed.net.connection) as client:
            return client.request(MetadataRequest(topics=None))

    def refused(self, peer: Peer, options: dict[str, str], secret: str = "") -> str:
        """The one line of a login that fails, without a secret in it or in its causes."""
        with pytest.raises(KafkaWireError) as caught:
            self.connect(peer, options, secret)
        whole = "".join(traceback.format_exception(caught.value))
        assert not [item for item in (SECRET, TOKEN, WRONG) if item in whole]
        assert "\n" not in str(caught.value)
        assert isinstance(caught.value, AuthenticationError | OptionError) or secret
        return f"{type(caught.value).__name__}: {caught.value}"


@pytest.fixture(params=MATRIX, ids=" by ".join)
def door(request: pytest.FixtureRequest, certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> Door:
    mechanism, protocol = request.param
    return Door(mechanism, protocol, certificates, monkeypatch)


def test_each_mechanism_has_rows() -> None:
    assert {*ROWS} <= {*MECHANISMS} <= {*LOGINS, *ELSEWHERE}
    for mechanism in {*MECHANISMS} - {*ROWS}:
        assert ELSEWHERE[mechanism].exists(), f"{mechanism} has neither rows nor a file of tests"


def test_right_credentials_are_let_in(door: Door) -> None:
    with door.listener(login_broker()) as peer:
        result = door.connect(peer, door.rows.options(door.rows.secret), door.rows.secret)
    assert result == METADATA_RESPONSE


def test_right_credentials_need_no_extra_but_those_of_aws(door: Door) -> None:
    aws = () if door.mechanism == "AWS_MSK_IAM" else ("botocore", "botocore.session")
    for module in (*aws, "cryptography"):
        door.monkeypatch.setitem(sys.modules, module, None)
    test_right_credentials_are_let_in(door)


def test_wrong_credentials_are_refused(door: Door) -> None:
    with door.listener(login_broker()) as peer:
        message = door.refused(peer, door.rows.options(WRONG), WRONG)
    assert message.startswith("AuthenticationError: bootstrap server (localhost:")
    assert f"SASL {door.mechanism}: the broker refuses the credentials (error 58" in message
    assert "; check " in message


def expired(login: Login, token_count: int) -> Login:
    """A broker to which the credentials are right, and not valid any more."""

    def side() -> Generator[bytes, bytes, None]:
        judge = login()
        said = next(judge)
        for _ in range(token_count):
            said = judge.send((yield said))
        raise Refused("Authentication failed: the credentials have expired")

    return side


def test_expired_credentials_are_refused(door: Door) -> None:
    login = expired(LOGINS[door.mechanism], door.rows.token_count)
    with door.listener(login_broker({door.mechanism: login})) as peer:
        message = door.refused(peer, door.rows.options(door.rows.secret), door.rows.secret)
    assert f"SASL {door.mechanism}: the broker refuses the credentials (error 58" in message
    assert "; check " in message


def test_absent_credentials_are_missed_without_a_word_to_the_broker(door: Door) -> None:
    said: list[object] = []

    def listening(connection: socket.socket) -> None:
        while (question := asked(connection)) is not None and question.api is modern.API_VERSIONS:
            answer(connection, question, api_versions())
        said.append(question)

    with door.listener(listening) as peer:
        for options, problem in door.rows.absent:
            assert problem in door.refused(peer, options)
    assert set(said) <= {None}


def dripping(data: bytes, rest: bytes = b"\0") -> Script:
    """Send the data, and then the rest again and again, byte by byte, until the client closes."""

    def script(connection: socket.socket) -> None:
        read_frame(connection)
        connection.sendall(data)
        drip(connection, rest)

    return script


#: Answers to a token: silence, a frame that does not end, a frame that is too long, no frame.
HOSTILE: Final[dict[str, Script]] = {
    "silent": stalling(),
    "dripping": dripping(b"\0\0\x10\0"),
    "dripping one frame's length": dripping(b"", b"\0"),
    "long": dripping(b"\x7f\xff\xff\xff", bytes(1 << 16)),
    "garbage": dripping(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
}


#: All of them for one mechanism, and one for each of the others: they share the code of frames and deadlines.
HOSTILE_DOORS: Final = [
    (door, hostile)
    for door in MATRIX
    for hostile in HOSTILE
    if door[0] == "PLAIN" or (door[1], hostile) == ("SASL_SSL", "dripping")
]


@pytest.mark.slow
@pytest.mark.parametrize(("door", "hostile"), HOSTILE_DOORS, indirect=["door"], ids=str)
def test_a_login_ends_within_the_request_timeout(door: Door, hostile: str) -> None:
    logins: list[socket.socket] = []

    def login(connection: socket.socket) -> None:
        logins.append(connection)
        HOSTILE[hostile](connection)

    with door.listener(handshaken(login)) as peer:
        # A busy machine may need longer to learn the versions, on one connection or two, before it logs in.
        for timeout_s in (1, 4, 16):
            began_s = time.monotonic()
            options = {**door.rows.options(door.rows.secret), "requestTimeout": f"{timeout_s}s"}
            message = door.refused(peer, options, door.rows.secret)
            assert time.monotonic() - began_s < timeout_s + GRACE_S
            if logins:
                break
        assert len(logins) == 1
    assert "bootstrap server (localhost:" in message


# --- SCRAM's messages: the RFC's example, another program as the broker, and texts as Kafka has them ---

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
    monkeypatch.setattr(
        "spark_kafkawire.net.logins.passwords.secrets.token_hex", lambda: "rOprNGfwEbeRWgbNEkqO"
    )
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


def test_every_login_has_its_nonce_and_passes_over_extensions() -> None:
    nonces = {next(scram("SCRAM-SHA-256", "user", "x")).rpartition(b"r=")[2] for _ in range(100)}
    assert len(nonces) == 100
    assert min(map(len, nonces)) >= 32
    tokens = scram("SCRAM-SHA-256", "user", "x")
    nonce = next(tokens).rpartition(b"r=")[2]
    final = tokens.send(b"r=" + nonce + b"more,s=AAAA,i=4096,tokenauth=true")
    assert final.startswith(b"c=biws,r=" + nonce + b"more,p=")
    with pytest.raises(AuthenticationError, match="its signature is not that of the password"):
        tokens.send(b"v=AAAA,x=y")
