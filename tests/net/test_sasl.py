"""Logging in to brokers that play their side with another program's SCRAM, and to hostile ones."""

from __future__ import annotations

import base64
import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Final

import pytest

from spark_kafkawire.errors import (
    AuthenticationError,
    BrokerError,
    ConnectionLost,
    KafkaWireError,
    ProtocolError,
    UnsupportedVersionError,
)
from spark_kafkawire.model import Broker
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.known_versions import BROKER_VERSIONS
from spark_kafkawire.net.logins import Password
from spark_kafkawire.net.logins.aws import AwsLogin, Keys
from spark_kafkawire.net.logins.oauthbearer import Bearer
from spark_kafkawire.net.logins.passwords import ITERATIONS_MAX, UNKNOWN_S, DelegationToken
from spark_kafkawire.net.logins.tokens.token import FixedToken
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.net.sasl import Sasl
from spark_kafkawire.net.settings import ConnectionSettings, Security
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.api import VersionRange
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.fetch import FetchResponse
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from spark_kafkawire.protocol.modern.sasl import SaslHandshakeResponse
from spark_kafkawire.secrecy import Credentials
from tests.support.cases import for_each
from tests.support.noida import NoidaBroker
from tests.support.polling import GRACE_S, poll
from tests.support.settings import settings_modern

from .login_broker import (
    IN_REQUESTS,
    INVALID,
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
    plain,
    reported,
)
from .login_broker import scram as login_of_token
from .modern_peers import METADATA_RESPONSE, OFFERED, answer, api_versions, asked, mutated
from .peers import Peer, Script, read_frame

ALL_TOPICS: Final = MetadataRequest(topics=None)
#: Conversations with a broker of which each is damaged.
CONVERSATION_COUNT: Final = 150
OF_1_0: Final = {**OFFERED, modern.SASL_AUTHENTICATE.key: VersionRange(0, 0)}
BARE: Final = {**OFFERED, modern.SASL_HANDSHAKE.key: VersionRange(0, 0)}


@pytest.fixture(autouse=True)
def _region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", REGION)


def saying(*tokens: bytes) -> Login:
    """A broker that says the same whatever it is told."""

    def login() -> Generator[bytes, bytes, None]:
        yield b""
        for index in range(len(tokens)):
            yield tokens[index]

    return login


def settings(mechanism: str, secret: str | None = None, timeout_s: float = 10) -> ConnectionSettings:
    credentials: Credentials = Password(USER, SECRET if secret is None else secret)
    if mechanism == "OAUTHBEARER":
        token = FixedToken(TOKEN if secret is None else secret)
        credentials = Bearer(token, (("logicalCluster", "lkc"),))
    if mechanism == "AWS_MSK_IAM":
        credentials = AwsLogin(role_keys=Keys(KEY_ID, SECRET if secret is None else secret))
    return replace(settings_modern(timeout_s), security=Security(sasl=Sasl(mechanism, credentials)))


def fails(
    script: Script,
    mechanism: str = "PLAIN",
    secret: str | None = None,
    kind: type[KafkaWireError] = AuthenticationError,
    timeout_s: float = 5,
) -> str:
    hidden = (SECRET, "s3cret", TOKEN, secret or SECRET, base64.b64encode(SECRET.encode()).decode())
    with Peer(script) as peer:
        began_s = time.monotonic()
        how = settings(mechanism, secret, timeout_s)
        message = reported(lambda: Client.connect(peer.broker, how), kind, *hidden)
        assert time.monotonic() - began_s < timeout_s + GRACE_S
    assert message.startswith("broker 7 (127.0.0.1:")
    return message


@for_each("offered", [IN_REQUESTS, OF_1_0, BARE], ids=["in requests", "in their first version", "bare"])
@for_each("mechanism", LOGINS)
def test_who_has_the_secret_is_let_in(mechanism: str, offered: dict[int, VersionRange]) -> None:
    with (
        Peer(login_broker(offered=offered)) as peer,
        Client.connect(peer.broker, settings(mechanism)) as client,
    ):
        assert client.request(ALL_TOPICS) == METADATA_RESPONSE
        assert client.request(ALL_TOPICS) == METADATA_RESPONSE


@pytest.mark.parametrize("mechanism", LOGINS)
def test_an_old_broker_refuses_by_closing(mechanism: str) -> None:
    message = fails(login_broker(offered=BARE), mechanism, secret="wr0ng", kind=ConnectionLost)
    assert "a broker of this age rejects credentials by closing" in message


def test_report_a_mechanism_that_the_broker_does_not_have_with_those_it_has() -> None:
    only = {name: LOGINS[name] for name in ("PLAIN", "SCRAM-SHA-512")}
    message = fails(login_broker(only), "SCRAM-SHA-256")
    assert "kafka.sasl.mechanism=SCRAM-SHA-256; it supports PLAIN, SCRAM-SHA-512; set one" in message
    assert "it supports none; " in fails(login_broker({}))
    hostile = {f"X-{number}\n{SECRET[:0]}": plain for number in range(50)}
    assert "it supports 50 unknown ones; " in fails(login_broker(hostile))


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        (34, AuthenticationError, "SaslHandshake: the broker expects another kafka.security.protocol"),
        (14, BrokerError, "SaslHandshake"),
    ],
    ids=["a listener without logins", "an error that may pass"],
)
def test_report_an_error_in_the_handshake(code: int, kind: type[KafkaWireError], message: str) -> None:
    def refusing(connection: socket.socket) -> None:
        while (question := asked(connection)) is not None:
            response = SaslHandshakeResponse(error_code=code, mechanisms=())
            answer(connection, question, api_versions() if question.api is modern.API_VERSIONS else response)

    assert message in fails(refusing, kind=kind)


def test_a_broker_that_does_not_know_logins_says_so() -> None:
    offered = {key: versions for key, versions in OFFERED.items() if key != modern.SASL_HANDSHAKE.key}
    message = fails(login_broker(offered=offered), kind=UnsupportedVersionError)
    assert "does not offer SaslHandshake" in message


def test_a_broker_older_than_logins_is_never_talked_to_without_one() -> None:
    seen: list[str] = []

    def old(connection: socket.socket) -> None:
        while (question := asked(connection)) is not None:
            seen.append(question.api.name)
            if question.api is modern.API_VERSIONS:
                return
            answer(connection, question, FetchResponse(responses=()))

    with (
        Peer(old) as peer,
        pytest.raises(ConnectionLost, match=r"or later\? Older brokers support no login except Kerberos$"),
    ):
        Client.connect(peer.broker, settings("PLAIN"))
    assert seen == ["ApiVersions", "ApiVersions"]


def test_a_client_without_a_login_reports_that_the_port_may_require_one() -> None:
    with Peer(login_broker()) as peer, Client.connect(peer.broker, settings_modern()) as client:
        with pytest.raises(ConnectionLost) as error:
            client.request(ALL_TOPICS)
        assert str(error.value).endswith(
            "Metadata; see its log; does this port require a login (kafka.security.protocol=SASL_…)?"
        )


def test_noida_db_lets_a_plain_login_in(noida: NoidaBroker) -> None:
    with Client.connect(Broker(-1, "127.0.0.1", noida.port), settings("PLAIN")) as client:
        assert client.request(ALL_TOPICS).brokers


def test_a_secret_that_the_broker_sends_back_is_hidden() -> None:
    def echo() -> Generator[bytes, bytes, None]:
        raise Refused((yield b"").decode())

    fails(login_broker({"PLAIN": echo}))
    for echoed in (f"{TOKEN}", f'{{"status":"{TOKEN}"}}'):
        message = fails(login_broker({"OAUTHBEARER": saying(echoed.encode(), b"")}), "OAUTHBEARER")
        assert f"the broker refuses the token, in an answer of {len(echoed)} bytes; check that" in message


@for_each("secret", ['p"ä\\ss wörd\n%41&', "correct-horse+battery/staple"])
@for_each("spelled", [repr, lambda text: base64.b64encode(text.encode()).decode(), " ".join])
def test_a_text_of_the_brokers_is_not_shown_in_a_login(spelled: Callable[[str], str], secret: str) -> None:
    def echo() -> Generator[bytes, bytes, None]:
        yield b""
        raise Refused(f"no: {spelled(secret)}!")

    refusal = "the broker refuses the credentials (error 58 SASL_AUTHENTICATION_FAILED)"
    said = fails(login_broker({"PLAIN": echo}), secret=secret)
    assert said.endswith(f"{refusal}; {ErrorCode.SASL_AUTHENTICATION_FAILED.remedy}")


@for_each("offered", [IN_REQUESTS, BARE], ids=["in requests", "bare"])
@for_each("said", [b"", b"{}", b'{"status":"invalid_token"}', b"r=1,s=YQ==,i=4096", bytes(1 << 19)])
@for_each("mechanism", LOGINS)
def test_no_client_talks_without_end(mechanism: str, said: bytes, offered: dict[int, VersionRange]) -> None:
    """A broker answers every token with the same bytes, and never comes to an end."""
    tokens: list[bytes] = []

    def login() -> Generator[bytes, bytes, None]:
        token = yield b""
        while token:  # there is none after the client has closed
            tokens.append(token)
            token = yield said
        raise Refused

    with Peer(login_broker({mechanism: login}, offered)) as peer, contextlib.suppress(AuthenticationError):
        Client.connect(peer.broker, settings(mechanism)).close()
    assert 1 <= len(tokens) <= 2
    if mechanism not in ("PLAIN", "OAUTHBEARER"):  # whose secret is the token itself
        assert not any(SECRET.encode() in token for token in tokens)


FIRST: Final = "r={nonce},s={salt},i={rounds}"
SALT: Final = base64.b64encode(b"salt of some size").decode()


def scram_says(first: str, final: bytes = b"v=AAAA") -> Login:
    """A broker whose first message is made from the client's nonce."""

    def login() -> Generator[bytes, bytes, None]:
        nonce = (yield b"").decode().rpartition("r=")[2]
        said = first.replace("{nonce}", nonce + "more").replace("{short}", nonce)
        yield said.replace("{salt}", SALT).replace("{rounds}", "4096").encode()
        yield final

    return login


@for_each(
    ("login", "message"),
    [
        (scram_says(FIRST), "its signature is not that of the password"),
        (scram_says(FIRST, b""), "its last message is malformed"),
        (scram_says(FIRST, b"e=invalid-proof"), "the broker says invalid-proof"),
        (scram_says(FIRST, b"e=something-else"), "the broker says an unknown error"),
        (scram_says(FIRST, b"e=s0mething-else"), "its last message is malformed"),
        (scram_says(FIRST, b"\xff"), "its message is not text"),
        (scram_says(FIRST, b"v=\xc3\xbc"), "its last message is malformed"),
        (scram_says(FIRST, b"v=A"), "not in base 64"),
        (scram_says("r={short},s={salt},i={rounds}"), "it answers another client's message"),
        (scram_says("r=other,s={salt},i={rounds}"), "it answers another client's message"),
        (scram_says("r={nonce},s=A,i={rounds}"), "not in base 64"),
        (scram_says("r={nonce},s={salt},i=1"), "it requires 1 hash iteration; 4096 to"),
        (scram_says("r={nonce},s={salt},i=-5"), "its first message is malformed"),
        (scram_says(f"r={{nonce}},s={{salt}},i={ITERATIONS_MAX + 1}"), "131073 hash iterations"),
        (scram_says("r={nonce},s={salt},i=" + "9" * 18), "hash iterations"),
        (scram_says("r={nonce},s={salt},i=" + "9" * 9000), ""),
        (scram_says("m=x," + FIRST), "its first message is malformed"),
        (saying(b""), "its first message is malformed"),
        (saying(b"\xff\xfe"), "its message is not text"),
        (saying(b"e=unknown-user"), "the broker says unknown-user"),
    ],
)  # fmt: skip
def test_a_broker_that_does_not_prove_itself_is_refused(login: Login, message: str) -> None:
    reported = fails(login_broker({"SCRAM-SHA-256": login}), "SCRAM-SHA-256")
    assert message in reported
    assert "SCRAM" in reported


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (
            b"\x7f\xff\xff\xff",
            ProtocolError,
            "a SASL token announces 2147483647 bytes; at most 1048576 are accepted",
        ),
        (b"\xff\xff\xff\xff", ProtocolError, "a SASL token announces -1 bytes"),
        (b"\0\0\0\x05abc", ConnectionLost, "closed the connection"),
        (b"\0\0", ConnectionLost, "closed the connection"),
    ],
)
def test_hostile_bytes_after_a_token_are_errors(
    data: bytes, kind: type[KafkaWireError], message: str
) -> None:
    def hostile(connection: socket.socket) -> None:
        read_frame(connection)
        connection.sendall(data)

    assert message in fails(handshaken(hostile, BARE), kind=kind)


def relayed(good: Script, changed: Callable[[bytes, bytes], bytes]) -> Script:
    """A broker whose answer to each frame is changed; it closes where nothing is left."""

    def script(connection: socket.socket) -> None:
        client, broker = socket.socketpair()
        with client, broker:
            player = threading.Thread(target=good, args=(broker,))
            player.start()
            while frame := read_frame(connection):
                client.sendall(len(frame).to_bytes(4, "big") + frame)
                if not (said := changed(frame, read_frame(client))):
                    break
                connection.sendall(len(said).to_bytes(4, "big") + said)
            client.shutdown(socket.SHUT_RDWR)
            player.join()

    return script


def said_by_a_broker(mechanism: str) -> bytes:
    """All that a broker says to a client that logs in and asks for Metadata."""
    said = bytearray()

    def overheard(_: bytes, reply: bytes) -> bytes:
        said.extend(len(reply).to_bytes(4, "big") + reply)
        return reply

    with (
        Peer(relayed(login_broker(), overheard)) as peer,
        Client.connect(peer.broker, settings(mechanism)) as client,
    ):
        client.request(ALL_TOPICS)
    return bytes(said)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_mutations_of_all_that_a_broker_says_give_a_connection_or_an_error_of_ours(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_kafkawire.net.channel.time.sleep", lambda _: None)  # where it is throttled
    good, draw = said_by_a_broker(mechanism), random.Random(mechanism)

    def hostile(connection: socket.socket) -> None:
        read_frame(connection)
        connection.sendall(mutated(good, draw))
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass

    outcomes = []
    with Peer(hostile) as peer:
        for _ in range(CONVERSATION_COUNT):
            BROKER_VERSIONS.forget()
            try:
                with Client.connect(peer.broker, settings(mechanism, timeout_s=2)) as client:
                    client.request(ALL_TOPICS)
                outcomes.append("a response")
            except KafkaWireError as error:
                outcomes.append(f"{type(error).__name__}: {error}")
    assert {len(outcome.splitlines()) for outcome in outcomes} == {1}
    assert {"ConnectionLost", "ProtocolError"} <= {outcome.partition(":")[0] for outcome in outcomes}


def test_a_login_that_ends_is_made_again_on_the_same_connection() -> None:
    pool = Pool()
    with Peer(login_broker(session_lifetime_ms=300)) as peer:
        client = pool.take(peer.broker, settings("PLAIN"))
        pool.give_back(client)
        assert pool.take(peer.broker, settings("PLAIN")) is client
        channel = client.channel
        for _ in range(3):
            poll(lambda: time.monotonic() >= channel.login_due_s, "the login ends soon")
            assert client.is_quiet()
            assert client.request(ALL_TOPICS) == METADATA_RESPONSE
            assert channel.login_due_s > time.monotonic()
        assert client.channel is channel
        assert peer.connection_count == 1
        client.close()


def test_responses_in_flight_are_received_in_order_when_a_login_is_made_again() -> None:
    with (
        Peer(login_broker(session_lifetime_ms=300)) as peer,
        Client.connect(peer.broker, settings("SCRAM-SHA-512")) as client,
    ):
        for number in range(3):
            client.send(MetadataRequest(topics=None, allow_auto_topic_creation=number % 2 == 0))
        poll(lambda: time.monotonic() >= client.channel.login_due_s, "the login ends soon")
        client.send(ALL_TOPICS)
        assert client.in_flight == 4
        assert client.has_come()
        answered = [client.receive().request for _ in range(4)]
        assert [item.allow_auto_topic_creation for item in answered[:3]] == [True, False, True]
        assert answered[3] is ALL_TOPICS
        assert client.in_flight == 0
    assert peer.connection_count == 1


@pytest.mark.parametrize("code", [b"", b"\0\x22"], ids=["closes", "refuses"])
def test_a_broker_that_takes_no_second_login_on_a_connection_gets_a_new_one(code: bytes) -> None:
    """A broker refuses the handshake of the second of two logins within a second (KIP-368), as that of a
    listener without logins."""
    handshakes = 0

    def taken_once(frame: bytes, reply: bytes) -> bytes:
        nonlocal handshakes
        is_handshake = frame[:2] == b"\0\x11"
        handshakes += is_handshake
        if not is_handshake or handshakes != 2:
            return reply
        return reply[:4] + code + reply[6:] if code else b""

    with (
        Peer(relayed(login_broker(session_lifetime_ms=300), taken_once)) as peer,
        Client.connect(peer.broker, settings("PLAIN")) as client,
    ):
        poll(lambda: time.monotonic() >= client.channel.login_due_s, "the login ends soon")
        assert client.request(ALL_TOPICS) == METADATA_RESPONSE
        assert (handshakes, peer.connection_count) == (3, 2)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_password_that_was_changed_is_tried_once_when_a_login_is_made_again(mechanism: str) -> None:
    logins = 0

    def changing() -> Generator[bytes, bytes, None]:
        nonlocal logins
        logins += 1
        if logins == 1:
            return (yield from LOGINS[mechanism]())
        yield b""
        raise Refused(INVALID)

    with (
        Peer(login_broker({mechanism: changing}, session_lifetime_ms=300)) as peer,
        Client.connect(peer.broker, settings(mechanism)) as client,
    ):
        poll(lambda: time.monotonic() >= client.channel.login_due_s, "the login ends soon")
        with pytest.raises(AuthenticationError, match="error 58"):
            client.request(ALL_TOPICS)
        assert (logins, peer.connection_count) == (2, 1)


#: A broker's answers to logins with a delegation token.
TOKEN_LOGINS: Final = {
    mechanism: login_of_token(mechanism, ",tokenauth=true")
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
}


def token_settings(mechanism: str, created_s: float | None, timeout_s: float = 10) -> ConnectionSettings:
    token = DelegationToken(USER, SECRET, created_s)
    return replace(settings_modern(timeout_s), security=Security(sasl=Sasl(mechanism, token)))


def too_new(refusals: int) -> Script:
    """A broker that refuses so many logins, as one that does not know a token yet."""
    left = [refusals]
    good = login_broker(TOKEN_LOGINS, session_lifetime_ms=60_000)

    def unknown() -> Generator[bytes, bytes, None]:
        yield b""
        raise Refused("Authentication failed during authentication due to invalid credentials")

    bad = login_broker(dict.fromkeys(TOKEN_LOGINS, unknown))

    def script(connection: socket.socket) -> None:
        left[0] -= 1
        (bad if left[0] >= 0 else good)(connection)

    return script


@pytest.mark.parametrize("mechanism", TOKEN_LOGINS)
def test_a_delegation_token_logs_in(mechanism: str) -> None:
    with (
        Peer(login_broker(TOKEN_LOGINS, session_lifetime_ms=60_000)) as peer,
        Client.connect(peer.broker, token_settings(mechanism, None)) as client,
    ):
        assert client.request(ALL_TOPICS) == METADATA_RESPONSE
        assert client.channel.mechanisms == set(TOKEN_LOGINS)


def test_a_password_is_no_delegation_token() -> None:
    assert "error 58" in fails(login_broker(TOKEN_LOGINS), "SCRAM-SHA-512")


def test_a_new_token_is_tried_again_until_the_broker_knows_it() -> None:
    with (
        Peer(too_new(3)) as peer,
        Client.connect(peer.broker, token_settings("SCRAM-SHA-512", time.time())) as client,
    ):
        assert client.request(ALL_TOPICS) == METADATA_RESPONSE
        assert peer.connection_count == 4


@pytest.mark.parametrize(
    ("refusals", "age_s", "is_asked_once", "problem"),
    [
        (1, None, True, "the broker refuses the delegation token"),
        (1, UNKNOWN_S + 1, True, "the broker refuses the delegation token"),
        (10_000, 0, False, "the broker refuses the delegation token"),
        (None, None, True, "the delegation token has expired"),
    ],
    ids=["of unknown age", "not new", "new and unknown until the deadline", "expired"],
)
def test_report_a_token_that_is_refused(
    refusals: int | None, age_s: float | None, is_asked_once: bool, problem: str
) -> None:
    created_s = None if age_s is None else time.time() - age_s
    # A login for no time at all is that of an expired token.
    script = login_broker(TOKEN_LOGINS) if refusals is None else too_new(refusals)
    how = token_settings("SCRAM-SHA-512", created_s, timeout_s=1 if refusals == 10_000 else 10)
    with Peer(script) as peer:
        assert problem in reported(lambda: Client.connect(peer.broker, how), AuthenticationError, SECRET)
        assert (peer.connection_count == 1) is is_asked_once


def test_connections_of_other_users_are_not_shared() -> None:
    pool = Pool()
    with Peer(login_broker()) as peer:
        pool.give_back(pool.take(peer.broker, settings("PLAIN")))
        with pytest.raises(AuthenticationError):
            pool.take(peer.broker, settings("PLAIN", secret="other"))
        pool.close_idle()
