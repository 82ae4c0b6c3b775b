"""The rack of this machine, from a text, the environment, and the metadata services of Amazon and Google."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

import pytest

from spark_kafkawire.errors import RequestTimedOut
from spark_kafkawire.net.client_rack import METADATA_S, ClientRack
from tests.net.login_broker import asked_for, http_answer
from tests.net.peers import Peer, stalling
from tests.support.cases import for_each

ZONE, ZONE_ID, TOKEN = "us-east-1a", "use1-az1", "AQAEAtoken=="
RACKS: Final = ("other", ZONE)


def amazon(request: bytes) -> bytes:
    line, _, head = request.decode().partition("\r\n")
    if line == "PUT /latest/api/token HTTP/1.1" and "X-aws-ec2-metadata-token-ttl-seconds: 60\r\n" in head:
        return http_answer(TOKEN.encode())
    if f"X-aws-ec2-metadata-token: {TOKEN}\r\n" not in head:
        return http_answer(b"", "401 Unauthorized")
    return of_first_version(request)


def of_first_version(request: bytes) -> bytes:
    path = "GET /latest/meta-data/placement/availability-zone"
    answers = {f"{path} HTTP/1.1": ZONE, f"{path}-id HTTP/1.1": ZONE_ID}
    result = answers.get(request.decode().partition("\r\n")[0])
    return http_answer(result.encode()) if result else http_answer(b"", "404 Not Found")


def without_ids(request: bytes) -> bytes:
    return http_answer(b"", "404 Not Found") if b"zone-id" in request else amazon(request)


def google(request: bytes) -> bytes:
    assert request.startswith(b"GET /computeMetadata/v1/instance/zone HTTP/1.1\r\n")
    assert b"Metadata-Flavor: Google\r\n" in request
    return http_answer(b"projects/123/zones/us-central1-b\n")


@for_each(
    ("service", "racks", "rack"),
    [
        (amazon, RACKS, ZONE),
        (amazon, ("other", ZONE_ID), ZONE_ID),
        (amazon, ("other",), ""),
        (of_first_version, RACKS, ZONE),
        (without_ids, (), ZONE),
    ],
)
def test_a_zone_of_aws_is_the_name_that_brokers_have(
    monkeypatch: pytest.MonkeyPatch,
    service: Callable[[bytes], bytes],
    racks: tuple[str, ...],
    rack: str,
) -> None:
    with Peer(asked_for(service)) as peer:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{peer.broker.port}/")
        for _ in range(2):
            assert ClientRack("aws").found((), lambda: racks) == rack
        assert ClientRack("aws").found((peer.broker,), lambda: (ZONE_ID,)) in (ZONE, ZONE_ID)
        assert peer.connection_count == 3, "once in a process, whatever the clusters are"


def test_a_zone_of_google_is_the_end_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer(asked_for(google)) as peer:
        monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{peer.broker.port}")
        assert ClientRack("gcp").found((), tuple) == "us-central1-b"


def test_a_text_and_an_environment_variable_are_racks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_ZONE", " zone-b ")
    assert ClientRack("text", "aws").found((), tuple) == "aws"
    assert ClientRack("env", "NODE_ZONE").found((), tuple) == "zone-b"


@for_each(
    "script",
    [
        asked_for(http_answer(b"", "403 Forbidden")),
        asked_for(http_answer(b"a b\r\nc")),
        asked_for(http_answer(b"\xff" * 10)),
        asked_for(b""),
        asked_for(http_answer(bytes(2 << 20))),
        stalling(),
    ],
)
@for_each("source", ["aws", "gcp"])
def test_a_service_that_does_not_tell_costs_a_second_and_one_line(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    source: str,
    script: Callable[..., None],
) -> None:
    caplog.clear()
    with Peer(script) as peer, caplog.at_level(logging.WARNING, "spark_kafkawire"):
        location = f"127.0.0.1:{peer.broker.port}"
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://{location}")
        monkeypatch.setenv("GCE_METADATA_HOST", location)
        began_s = time.monotonic()
        assert ClientRack(source).found((), tuple) == ""
        assert time.monotonic() - began_s < 10 * METADATA_S
        assert ClientRack(source).found((peer.broker,), tuple) == ""
    [line] = caplog.messages
    assert line.startswith(f"clientRack={source}: the rack is not known: ")
    assert line.isprintable()


def test_brokers_whose_racks_are_not_known_are_leaders(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def racks() -> tuple[str, ...]:
        raise RequestTimedOut("no answer")

    with Peer(asked_for(amazon)) as peer:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", f"http://127.0.0.1:{peer.broker.port}")
        assert ClientRack("aws").found((), racks) == ""
        assert ClientRack("aws").found((), lambda: RACKS) == ZONE
    assert "the racks of the brokers are not known: no answer" in caplog.text
