"""The client of a schema registry over real sockets: what it asks, keeps, retries and refuses."""

from __future__ import annotations

import json
import logging
import pickle
import random
import socket
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from spark_kafkawire.errors import (
    AuthenticationError,
    ConnectFailed,
    KafkaWireError,
    LimitError,
    OptionError,
    RegistryError,
    RequestTimedOut,
    TransportError,
    UnknownSchemaError,
)
from spark_kafkawire.net.http import Url
from spark_kafkawire.net.logins.tokens.oauth import ClientCredentials
from spark_kafkawire.net.retry import RetryPolicy
from spark_kafkawire.net.tls import OF_REGISTRY, Tls
from spark_kafkawire.registry import (
    UNKNOWN_KEPT_S,
    BasicLogin,
    BearerToken,
    Login,
    Reference,
    Registry,
    RegistrySettings,
    Schema,
    registry_of,
    subject_of,
)
from tests.net.login_broker import asked_for, granted, http_answer
from tests.net.peers import Peer, server_of, serving
from tests.support.certificates import Certificates
from tests.support.fake_registry import (
    FakeRegistry,
    Fault,
    cut,
    raw,
    refusal,
    slow,
    status,
)
from tests.support.polling import GRACE_S

TEXT: Final = '{"type": "record", "name": "R", "fields": [{"name": "größe", "type": "long"}]}'
SECRET: Final = "s3cret:€-of-the-registry"
NO_WAIT: Final = RetryPolicy(retries=3, backoff_s=0.01)
ONCE: Final = RetryPolicy(retries=0)


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with FakeRegistry() as registry:
        yield registry


def settings_of(*urls: str, **changes: Any) -> RegistrySettings:
    parsed = [Url.parse(url) for url in urls]
    known = tuple(url for url in parsed if url is not None)
    assert len(known) == len(urls)
    return replace(RegistrySettings(known, timeout_s=10, retry=NO_WAIT), **changes)


def client_of(*fakes: FakeRegistry, **changes: Any) -> Registry:
    return Registry(settings_of(*(fake.url for fake in fakes), **changes))


def closed_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_schema_is_found_by_id_guid_version_and_as_the_latest_one(fake: FakeRegistry) -> None:
    first, second = fake.add("s", '"string"'), fake.add("s", TEXT)
    registry = client_of(fake)
    assert (registry.schema(first).text, registry.schema(first).format) == ('"string"', "AVRO")
    assert registry.schema(second).text == TEXT
    assert registry.schema_of_guid(fake.guid(second)).text == TEXT
    version = registry.version("s", 1)
    assert (version.id, version.subject, version.version) == (first, "s", 1)
    latest = registry.latest("s")
    assert (latest.id, latest.version, latest.text) == (second, 2, TEXT)
    assert fake.requests == [
        f"GET /schemas/ids/{first}",
        f"GET /schemas/ids/{second}",
        f"GET /schemas/guids/{uuid.UUID(bytes=fake.guid(second))}",
        "GET /subjects/s/versions/1",
        "GET /subjects/s/versions/latest",
    ]


def test_each_schema_is_asked_for_once_in_a_process_however_many_threads_need_it(fake: FakeRegistry) -> None:
    ids = [fake.add("s", f'"{kind}"') for kind in ("string", "long", "int")]
    settings = settings_of(fake.url)
    result: list[str] = []

    def read() -> None:
        result.extend(registry_of(pickle.loads(pickle.dumps(settings))).schema(number).text for number in ids)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(result) == 24
    assert sorted(fake.requests) == [f"GET /schemas/ids/{number}" for number in ids]


def test_the_latest_version_is_asked_for_each_time(fake: FakeRegistry) -> None:
    registry = client_of(fake)
    fake.add("s", '"string"')
    assert registry.latest("s").version == 1
    fake.add("s", '"bytes"')
    assert registry.latest("s").version == 2


def test_a_schema_is_registered_once_and_looked_up(fake: FakeRegistry) -> None:
    registry = client_of(fake)
    schema = Schema("PROTOBUF", 'syntax = "proto3"; import "a.proto";', (Reference("a.proto", "a", 1),))
    schema_id = registry.register("a/b c:ä", schema)
    assert registry.register("a/b c:ä", schema) == registry.look_up("a/b c:ä", schema) == schema_id
    assert fake.requests[0] == "POST /subjects/a%2Fb%20c%3A%C3%A4/versions"
    assert fake.schemas[schema_id]["references"] == [{"name": "a.proto", "subject": "a", "version": 1}]
    assert list(fake.subjects) == ["a/b c:ä"]
    avro = registry.register("avro", Schema("AVRO", TEXT))
    assert fake.schemas[avro] == {"schema": TEXT}
    assert len(fake.requests) == 3


def test_imports_come_with_their_texts_each_after_its_own(fake: FakeRegistry) -> None:
    fake.add("base", "B", "PROTOBUF")
    fake.add("left", "L", "PROTOBUF", (("base.proto", "base", 1),))
    fake.add("right", "R", "PROTOBUF", (("base.proto", "base", 1),))
    whole = fake.add("top", "T", "PROTOBUF", (("left.proto", "left", 1), ("right.proto", "right", 1)))
    registry = client_of(fake)
    result = registry.schema(whole)
    assert result.dependencies == (("base.proto", "B"), ("left.proto", "L"), ("right.proto", "R"))
    assert result.references == dict(result.dependencies)
    registry.latest("top")
    assert sum("/subjects/base/" in request for request in fake.requests) == 1


def test_imports_in_a_circle_end(fake: FakeRegistry) -> None:
    fake.add("a", "A", "PROTOBUF", (("b.proto", "b", 1),))
    fake.add("b", "B", "PROTOBUF", (("a.proto", "a", 1),))
    with pytest.raises(LimitError, match="nested more than 64 deep"):
        client_of(fake).latest("a")


def test_two_imports_of_one_name_are_an_error(fake: FakeRegistry) -> None:
    fake.add("a", "1", "PROTOBUF")
    fake.add("a", "2", "PROTOBUF")
    whole = fake.add("top", "T", "PROTOBUF", (("a.proto", "a", 1), ("a.proto", "a", 2)))
    message = r"name a\.proto: version 1 of subject a and version 2 of subject a"
    with pytest.raises(RegistryError, match=message):
        client_of(fake).schema(whole)


def test_too_many_imports_are_an_error(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_kafkawire.registry.DEPENDENCIES_MAX", 2)
    for name in "abc":
        fake.add(name, name, "PROTOBUF")
    whole = fake.add("top", "T", "PROTOBUF", tuple((f"{name}.proto", name, 1) for name in "abc"))
    with pytest.raises(LimitError, match="imports more than 2 others"):
        client_of(fake).schema(whole)


def test_an_import_that_is_missing_does_not_make_the_schema_an_unknown_one(fake: FakeRegistry) -> None:
    whole = fake.add("top", "T", "PROTOBUF", (("a.proto", "a", 1),))
    with pytest.raises(RegistryError, match="an imported schema is missing") as error:
        client_of(fake).schema(whole)
    assert not isinstance(error.value, UnknownSchemaError)


def test_subjects_and_ids_of_a_context_are_asked_for_in_it(fake: FakeRegistry) -> None:
    fake.add(":.dev:a", "A", "PROTOBUF")
    whole = fake.add(":.dev:top", "T", "PROTOBUF", (("a.proto", "a", 1),))
    registry = client_of(fake)
    assert registry.latest(":.dev:top").references == {"a.proto": "A"}
    assert registry.schema(whole, ":.dev:top").references == {"a.proto": "A"}
    assert fake.requests == [
        "GET /subjects/%3A.dev%3Atop/versions/latest",
        "GET /subjects/%3A.dev%3Aa/versions/1?deleted=true",
        f"GET /schemas/ids/{whole}?subject=%3A.dev%3Atop",
    ]


@pytest.mark.parametrize("what", ["schema", "guid", "version", "latest", "look up"])
def test_what_the_registry_does_not_have_is_unknown_at_once(what: str, fake: FakeRegistry) -> None:
    fake.add("s", '"string"')
    registry = client_of(fake)
    asked: dict[str, Callable[[], object]] = {
        "schema": lambda: registry.schema(77),
        "guid": lambda: registry.schema_of_guid(bytes(16)),
        "version": lambda: registry.version("s", 7),
        "latest": lambda: registry.latest("other"),
        "look up": lambda: registry.look_up("s", Schema("AVRO", TEXT)),
    }
    with pytest.raises(UnknownSchemaError, match="no such schema, subject or version") as error:
        asked[what]()
    assert fake.url in str(error.value)
    assert len(fake.requests) == 1


def test_an_unknown_id_is_asked_for_again_after_a_while(
    fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = client_of(fake)
    for _ in range(3):
        with pytest.raises(UnknownSchemaError, match="schema id 1: "):
            registry.schema(1)
    assert len(fake.requests) == 1
    later_s = time.monotonic() + UNKNOWN_KEPT_S
    monkeypatch.setattr("spark_kafkawire.kept.time.monotonic", lambda: later_s)
    fake.add("s", TEXT)
    assert registry.schema(1).text == TEXT


TEMPORARY: Final[dict[str, Fault]] = {
    "500": status(500, b"oops"),
    "500 with a code": refusal(500, 50001, "Error in the backend data store"),
    "503": status(503),
    "429": status(429),
    "408": status(408),
    "cut": cut,
    "nothing": raw(b""),
    "not HTTP": raw(b"\0\0\0\x05abcde"),
    "half": raw(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"schema": "'),
    "half a head": raw(b"HTTP/1.1 404 Not Found\r\nContent-Le"),
    "a page": status(200, b"<html>Welcome</html>"),
    "a list": status(200, b"[]"),
    "deep": status(200, b"[" * 100_000),
    "no schema": status(200, b"{}"),
    "a schema that is no text": status(200, b'{"schema": 5}'),
    "a type that is no text": status(200, b'{"schema": "s", "schemaType": 5}'),
    "an unknown type": status(200, b'{"schema": "s", "schemaType": "XML"}'),
    "references that are no list": status(200, b'{"schema": "s", "references": {}}'),
    "a reference that is no object": status(200, b'{"schema": "s", "references": [1]}'),
    "a reference without a version": status(
        200, b'{"schema": "s", "references": [{"name": "a", "subject": "b"}]}'
    ),
    "a reference to version true": status(
        200, b'{"schema": "s", "references": [{"name": "a", "subject": "b", "version": true}]}'
    ),
    "another id": status(200, b'{"schema": "s", "id": 2}'),
    "an id that is no number": status(200, b'{"schema": "s", "id": "1"}'),
    "404 of a proxy": status(404, b"no such page"),
    "404 of nothing": status(404),
    "404 with another code": status(404, b'{"error_code": "40403"}'),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", TEMPORARY.values(), ids=TEMPORARY)
def test_a_broken_answer_is_asked_for_again_and_never_an_unknown_schema(
    fault: Fault, fake: FakeRegistry
) -> None:
    assert fake.add("s", TEXT) == 1
    fake.faults += [fault] * 2
    assert client_of(fake).schema(1).text == TEXT
    fake.faults += [fault] * 10
    message = r"^schema registry: schema id 1: gave up after 4 attempts"
    registry = client_of(fake)
    with pytest.raises(TransportError, match=message) as error:
        registry.schema(1)
    assert len(fake.faults) == 6
    assert str(error.value).isprintable()
    # A failure is not kept.
    fake.faults.clear()
    assert registry.schema(1).text == TEXT


VERSION: Final[dict[str, object]] = {"subject": "s", "version": 1, "id": 1, "schema": TEXT}


@pytest.mark.parametrize(
    "changed",
    [{"id": None}, {"version": None}, {"version": 2}, {"subject": "other"}, {"subject": ":.dev:other"}],
)
def test_a_version_is_not_taken_for_another_one(changed: dict[str, object], fake: FakeRegistry) -> None:
    fake.add("s", TEXT)
    fake.faults.append(status(200, json.dumps(VERSION | changed).encode()))
    registry = client_of(fake)
    assert (registry.version("s", 1).id, registry.version("s", 1).text) == (1, TEXT)
    assert len(fake.requests) == 2


def test_a_version_may_have_its_context_in_the_answer(fake: FakeRegistry) -> None:
    fake.faults.append(status(200, json.dumps(VERSION | {"subject": ":.dev:s"}).encode()))
    assert client_of(fake, retry=ONCE).version("s", 1).subject == ":.dev:s"


def test_a_guid_is_not_taken_for_another_one(fake: FakeRegistry) -> None:
    fake.add("s", '"string"')
    fake.add("s", TEXT)
    other = {"guid": str(uuid.UUID(bytes=fake.guid(1))), "schema": '"string"'}
    fake.faults.append(status(200, json.dumps(other).encode()))
    assert client_of(fake).schema_of_guid(fake.guid(2)).text == TEXT
    fake.faults.append(status(200, json.dumps({"schema": TEXT}).encode()))
    assert client_of(fake, retry=ONCE).schema_of_guid(fake.guid(2)).text == TEXT


def test_a_slow_registry_is_left_at_the_deadline(fake: FakeRegistry) -> None:
    fake.add("s", TEXT)
    fake.faults.append(slow(3))
    began_s = time.monotonic()
    with pytest.raises(RequestTimedOut, match=r"no answer within 0\.3 s \(requestTimeout\)"):
        client_of(fake, timeout_s=0.3, retry=ONCE).schema(1)
    assert time.monotonic() - began_s < 0.3 + GRACE_S


def imports_of(shape: str, fake: FakeRegistry) -> tuple[int, list[str]]:
    """The id of a schema, and the subjects of all that it imports, so many that they take many answers."""
    chance, subjects = random.Random(43), [f"s{number}" for number in range(60)]
    for number, subject in enumerate(subjects):
        below = subjects[:number]
        drawn = chance.sample(below, min(len(below), chance.randrange(3)))
        imported = {"wide": [], "deep": below[-1:], "drawn": drawn}[shape]
        fake.add(subject, f"of {subject}", "PROTOBUF", tuple((item, item, 1) for item in imported))
    top = tuple((item, item, 1) for item in ([subjects[-1]] if shape == "deep" else subjects))
    return fake.add("top", "top", "PROTOBUF", top), subjects


SHAPES: Final = ("wide", "deep", "drawn")


def hold_each_answer(fake: FakeRegistry, seconds: float) -> None:
    """Let each answer come, late."""

    def wait(*_: object) -> None:
        time.sleep(seconds)

    fake.lie = wait


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_schema_with_all_its_imports_has_one_deadline(shape: str, fake: FakeRegistry) -> None:
    top, _ = imports_of(shape, fake)
    hold_each_answer(fake, 0.1)
    with pytest.raises(
        RequestTimedOut, match=r"gave up after 2 .*: no answer within 0\.4 s \(requestTimeout\)"
    ):
        client_of(fake, timeout_s=0.4, retry=RetryPolicy(retries=1, backoff_s=0.01)).schema(top)
    # An attempt has time for four answers at most, and may have sent the next request.
    assert len(fake.requests) <= 2 * 5


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_imports_that_came_in_time_are_kept_for_the_next_attempt(shape: str, fake: FakeRegistry) -> None:
    top, subjects = imports_of(shape, fake)
    hold_each_answer(fake, 0.02)
    result = client_of(fake, timeout_s=0.2, retry=RetryPolicy(retries=1000, backoff_s=0.001)).schema(top)
    assert result.references == {item: f"of {item}" for item in subjects}
    assert len([item for item in fake.requests if "/ids/" in item]) > 1


def test_a_server_that_is_slow_with_imports_takes_no_time_of_the_next_one(fake: FakeRegistry) -> None:
    with FakeRegistry() as slow_one:
        for item in (slow_one, fake):
            top, _ = imports_of("drawn", item)
        hold_each_answer(slow_one, 0.3)
        assert (
            client_of(slow_one, fake, timeout_s=1.0, retry=RetryPolicy(retries=50)).schema(top).text == "top"
        )
        assert slow_one.requests
        assert fake.requests


def test_patience_outlasts_a_restart_and_is_logged_once(
    fake: FakeRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    fake.add("s", TEXT)
    fake.faults += [status(503)] * 6
    with caplog.at_level(logging.INFO):
        registry = client_of(fake, retry=RetryPolicy(retries=0, backoff_s=0.01, retry_timeout_s=60))
        assert registry.schema(1).text == TEXT
    assert len(caplog.messages) == 2


def test_an_answer_that_is_too_long_is_an_error(fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_kafkawire.registry.ANSWER_BYTES_MAX", 10_000)
    fake.add("s", TEXT + " " * 20_000)
    with pytest.raises(ConnectFailed, match="the answer is longer than 10000 bytes"):
        client_of(fake, retry=ONCE).schema(1)


def test_the_next_server_is_asked_if_one_is_away_and_stays_the_first_one(fake: FakeRegistry) -> None:
    ids = [fake.add("s", f'"{kind}"') for kind in ("string", "long")]
    with FakeRegistry() as broken:
        broken.faults += [status(500)] * 10
        registry = Registry(settings_of(closed_url(), broken.url, fake.url, retry=ONCE))
        assert [registry.schema(number).text for number in ids] == ['"string"', '"long"']
        assert len(broken.requests) == 1


def test_the_word_of_one_server_that_a_schema_is_unknown_is_enough(fake: FakeRegistry) -> None:
    with FakeRegistry() as other:
        with pytest.raises(UnknownSchemaError):
            client_of(fake, other).schema(5)
        assert other.requests == []


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (refusal(409, 409, "Incompatible: READER_FIELD_MISSING"), "code 409: 'Incompatible: READER_FIELD"),
        (refusal(422, 42201, "Invalid schema\n\x1b[31m"), r"code 42201: 'Invalid schema\\n\\x1b"),
        (status(302, b"", Location="http://elsewhere/"), "redirects to another address"),
        (status(301, b"{}"), r"set schema\.registry\.url to that address"),
    ],
)
def test_a_refusal_is_shown_as_it_is_and_not_tried_again(
    fault: Fault, message: str, fake: FakeRegistry
) -> None:
    fake.faults += [fault] * 2
    with pytest.raises(RegistryError, match=message) as error:
        client_of(fake).register("s", Schema("AVRO", TEXT))
    assert str(error.value).startswith("schema registry: register a schema in subject s: http://127.0.0.1:")
    assert str(error.value).isprintable()
    assert len(fake.requests) == 1


@pytest.mark.parametrize("login", [BasicLogin("me", SECRET), BearerToken("token-of-mine")])
def test_a_login_is_sent_and_a_refused_one_is_not_tried_again(login: Login) -> None:
    with FakeRegistry(users={"me": SECRET}, tokens=("token-of-mine",)) as fake:
        fake.add("s", TEXT)
        registry = client_of(fake, login=login, headers=(("target-sr-cluster", "lsrc-1"),))
        assert registry.schema(1).text == TEXT
        assert fake.headers["target-sr-cluster"] == "lsrc-1"
        fake.users, fake.tokens = {"me": "other"}, ("other",)
        with pytest.raises(AuthenticationError, match="refuses the login: HTTP status 401"):
            registry.latest("s")
        assert len(fake.requests) == 2
        fake.faults.append(refusal(403, 40301, f"{SECRET} token-of-mine may not"))
        with pytest.raises(AuthenticationError, match="HTTP status 403") as error:
            registry.latest("s")
    shown = "".join(traceback.format_exception(error.value)) + repr(registry._settings)
    assert "s3cret" not in shown
    assert "token-of-mine" not in shown


def test_words_of_the_registry_hold_no_secret(fake: FakeRegistry) -> None:
    fake.faults.append(refusal(422, 42201, f"you sent {SECRET}"))
    with pytest.raises(RegistryError, match="you sent ") as error:
        client_of(fake, login=BasicLogin("me", SECRET)).register("s", Schema("AVRO", TEXT))
    assert "s3cret" not in str(error.value)


def test_tokens_of_an_authorization_server_are_asked_for_once(certificates: Certificates) -> None:
    token_answer = asked_for(http_answer(granted("token-of-the-server")))
    with (
        Peer(serving(server_of(certificates.server), token_answer)) as endpoint,
        FakeRegistry(tokens=("token-of-the-server",)) as fake,
    ):
        fake.add("s", TEXT)
        trust = Tls(certificates.authority.read_text())
        url = f"https://localhost:{endpoint.broker.port}/"
        registry = client_of(fake, login=ClientCredentials(url, "me", SECRET, tls=trust))
        assert registry.schema(1).text == registry.latest("s").text == TEXT
        assert endpoint.connection_count == 1


def test_a_registry_with_tls_is_trusted_by_its_authority_and_may_ask_for_a_certificate(
    certificates: Certificates,
) -> None:
    tls = Tls(certificates.authority.read_text(), certificates.client.read_text(), names=OF_REGISTRY)
    with FakeRegistry(server=certificates.server, clients=certificates.authority) as fake:
        fake.add("s", TEXT)
        assert client_of(fake, tls=tls).schema(1).text == TEXT
        not_trusted = r"server's certificate is not trusted.*set schema\.registry\.ssl\.truststore\.location"
        with pytest.raises(AuthenticationError, match=not_trusted):
            client_of(fake, tls=replace(tls, trust=certificates.other_authority.read_text())).schema(1)
        asks_for_one = r"certificate, set schema\.registry\.ssl\.keystore\.location"
        with pytest.raises(AuthenticationError, match=asks_for_one):
            client_of(fake, tls=replace(tls, identity=None)).schema(1)
        assert len(fake.requests) == 1


def test_a_registry_without_tls_is_named(fake: FakeRegistry) -> None:
    url = fake.url.replace("http://127.0.0.1", "https://localhost")
    message = r"does not speak TLS; .*http:// in schema\.registry\.url"
    with pytest.raises(AuthenticationError, match=message):
        Registry(settings_of(url, tls=Tls(names=OF_REGISTRY))).schema(1)


def test_a_url_may_have_a_path() -> None:
    with FakeRegistry(path="/apis/ccompat/v7") as fake:
        fake.add("s", TEXT)
        assert client_of(fake).schema(1).text == TEXT
        assert Registry(settings_of(f"{fake.url}/")).latest("s").text == TEXT


def test_random_answers_are_schemas_or_errors_of_this_package(fake: FakeRegistry) -> None:
    fake.add("a", "A", "PROTOBUF")
    fake.add("s", TEXT, "PROTOBUF", (("a.proto", "a", 1),))
    draw = random.Random(34)
    good = json.dumps(fake.schemas[2]).encode()
    outcomes = set()
    for _ in range(300):
        changed = bytearray(good)
        for _ in range(draw.randint(1, 3)):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        fake.faults = [status(200, bytes(changed))]
        try:
            client_of(fake, retry=ONCE).schema(2)
            outcomes.add("schema")
        except KafkaWireError as error:
            outcomes.add(type(error).__name__)
    assert {"schema", "ConnectFailed"} <= outcomes
    assert "UnknownSchemaError" not in outcomes


# --- Names of subjects by each strategy ---


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("TopicName", "t-value"), ("RecordName", "a.R"), ("TopicRecordName", "t-a.R")],
)
def test_a_strategy_names_the_subject(strategy: str, expected: str) -> None:
    assert subject_of(strategy, "t", "a.R", is_key=False) == expected
    assert subject_of("TopicName", "t", None, is_key=True) == "t-key"


def test_a_strategy_of_records_needs_a_name() -> None:
    with pytest.raises(
        OptionError, match="RecordName needs a schema that has a name, and this one has none; set keySubject"
    ):
        subject_of("RecordName", "t", None, is_key=True)
