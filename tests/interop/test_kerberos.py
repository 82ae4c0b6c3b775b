"""Kerberos: logins at real brokers with tickets of a real KDC, errors of those that fail, and tickets that
end while a stream runs."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

from spark_kafkawire.errors import ConnectFailed, KafkaWireError, RequestTimedOut
from spark_kafkawire.net.logins.kerberos.tickets import KerberosLogin, first_token, forget_tickets
from spark_kafkawire.net.transport import Deadline
from tests.support import librdkafka, ours
from tests.support.certificates import Certificates
from tests.support.foreign import Record, values
from tests.support.noida import HOST, free_port
from tests.support.polling import DEADLINE_S, poll
from tests.support.stream_kills import Stream, driver

from .apache_kafka import LISTENERS, ApacheKafka
from .debian import Programs
from .kerberos import CLOCK_PACKAGES, HOSTS, KCAT_PACKAGES, MODULE, PACKAGES, REALM, SERVICE, Kdc
from .needs import needed_programs, needs_broker
from .secured import connect, is_served, refused, trust
from .versions import VERSIONS, newest

#: The lifetime of a ticket that is renewed, seconds: a login may take a fifth of it.
BRIEF_S: Final = 20
#: The lifetime of a ticket in a stream, seconds, and what is sent to it each time.
LIFETIME_S: Final = 60
SENT_COUNT: Final = 20
#: How long the stream runs, three times that.
OUTLIVED_S: Final = 180
listeners = pytest.mark.parametrize("listener", HOSTS)


@pytest.fixture(scope="session")
def programs() -> Programs:
    return needed_programs(*PACKAGES, *KCAT_PACKAGES, *CLOCK_PACKAGES)


@pytest.fixture(scope="session")
def kdc(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with Kdc(programs, tmp_path_factory.mktemp("kdc")) as kdc:
        yield kdc


@pytest.fixture(scope="session")
def alice(kdc: Kdc) -> Path:
    """The key tab of alice."""
    return kdc.add("alice")


@pytest.fixture(scope="session", params=VERSIONS)
def kafka(
    request: pytest.FixtureRequest,
    kdc: Kdc,
    tmp_path_factory: pytest.TempPathFactory,
    certificates: Certificates,
) -> Iterator[ApacheKafka]:
    needs_broker(request.param)
    folder = tmp_path_factory.mktemp(f"kafka-{request.param}")
    with ApacheKafka(request.param, folder, certificates, **kdc.of_broker()) as broker:
        yield broker


@pytest.fixture(autouse=True)
def _environment(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CONFIG", os.fspath(kdc.configuration))
    monkeypatch.delenv("KRB5CCNAME", raising=False)
    forget_tickets()


def by_key_tab(key_tab: Path | str, principal: str = "alice", service: str = SERVICE) -> dict[str, Any]:
    jaas = f'{MODULE} useKeyTab=true storeKey=true keyTab="{key_tab}" principal="{principal}";'
    return login(jaas, service)


def by_cache(cache: Path) -> dict[str, Any]:
    return login(f'{MODULE} useTicketCache=true ticketCache="{cache}";')


def login(jaas: str, service: str = SERVICE) -> dict[str, Any]:
    return {
        "sasl__mechanism": "GSSAPI",
        "sasl__kerberos__service__name": service,
        "sasl__jaas__config": jaas,
    }


def trusted(listener: str, certificates: Certificates) -> dict[str, Any]:
    return trust(certificates) if listener == "SASL_SSL" else {}


def options_of(
    kafka: ApacheKafka, listener: str, certificates: Certificates, how: dict[str, Any]
) -> dict[str, Any]:
    """The options of a query."""
    named = {
        "bootstrap__servers": kafka.bootstrap_servers(listener),
        "security__protocol": LISTENERS[listener],
        **how,
        **trusted(listener, certificates),
    }
    return {f"kafka.{name.replace('__', '.')}": value for name, value in named.items()}


@listeners
def test_tickets_of_a_key_tab_and_of_a_cache_let_in(
    kafka: ApacheKafka,
    certificates: Certificates,
    kdc: Kdc,
    alice: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    listener: str,
) -> None:
    more = trusted(listener, certificates)
    for name in ("alice", f"alice@{REALM}"):
        assert is_served(connect(kafka, listener, **by_key_tab(alice, name), **more))
    cache = tmp_path / "cache"
    kdc.kinit("alice", alice, cache)
    assert is_served(connect(kafka, listener, **by_cache(cache), **more))
    monkeypatch.setenv("KRB5CCNAME", os.fspath(cache))
    assert is_served(connect(kafka, listener, **login(f"{MODULE} useTicketCache=true;"), **more))


@listeners
def test_kcat_reads_ours_and_we_read_what_kcat_wrote(
    kafka: ApacheKafka, certificates: Certificates, programs: Programs, alice: Path, listener: str
) -> None:
    topic = librdkafka.create_topic(kafka.bootstrap_servers())
    options = options_of(kafka, listener, certificates, by_key_tab(alice))
    servers = options.pop("kafka.bootstrap.servers")
    ours.produce(servers, topic, [Record(b"ours"), Record(b"too")], **options)
    command = [str(programs.path("kcat")), "-b", servers]
    for name, value in {
        "security.protocol": LISTENERS[listener],
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": SERVICE,
        "sasl.kerberos.principal": "alice",
        "sasl.kerberos.keytab": str(alice),
        "sasl.kerberos.kinit.cmd": f"{programs.path('kinit')} -k -t {alice} alice",
        "ssl.ca.location": str(certificates.authority),
    }.items():
        command += ["-X", f"{name}={value}"]
    environment = {
        **programs.environment,
        "SASL_PATH": os.fspath(programs.libraries / "sasl2"),
        "KRB5CCNAME": f"{alice.parent}/kcat-{listener}",
    }

    def kcat(*arguments: str, said: bytes = b"") -> bytes:
        done = subprocess.run(
            [*command, *arguments], env=environment, input=said, capture_output=True, timeout=DEADLINE_S
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    assert kcat("-C", "-t", topic, "-o", "beginning", "-e", "-q") == b"ours\ntoo\n"
    kcat("-P", "-t", topic, said=b"kcat's\n")
    assert values(ours.consume(servers, topic, **options)) == [b"ours", b"too", b"kcat's"]


# Six causes of a failure, and as many messages


@newest
def test_a_missing_key_tab_is_reported(kafka: ApacheKafka, tmp_path: Path) -> None:
    message = refused(kafka, "SASL_PLAINTEXT", **by_key_tab(tmp_path / "missing.keytab"))
    assert "missing.keytab' cannot be read where the client connects: No such file or directory" in message


@newest
def test_an_unknown_principal_is_reported(kafka: ApacheKafka, kdc: Kdc, alice: Path) -> None:
    message = refused(kafka, "SASL_PLAINTEXT", **by_key_tab(alice, "bob"))
    assert f"has no key of the principal 'bob' of kafka.sasl.jaas.config; it has keys of alice@{REALM}" in (
        message
    )
    ghost = kdc.add("ghost")
    kdc.delete("ghost")
    message = refused(kafka, "SASL_PLAINTEXT", **by_key_tab(ghost, "ghost"))
    assert "the KDC has no such principal: check principal of kafka.sasl.jaas.config" in message
    changed = kdc.add("changed")
    kdc.change_key("changed")
    message = refused(kafka, "SASL_PLAINTEXT", **by_key_tab(changed, "changed"))
    assert "the KDC has another key of the principal than the key tab" in message


@newest
def test_an_expired_ticket_is_reported_and_a_new_one_is_found(
    kafka: ApacheKafka, kdc: Kdc, alice: Path, tmp_path: Path
) -> None:
    key_tab, cache = kdc.add("instant", "2 seconds"), tmp_path / "cache"
    kdc.kinit("instant", key_tab, cache)

    def expired() -> str:
        try:
            is_served(connect(kafka, "SASL_PLAINTEXT", **by_cache(cache)))
        except KafkaWireError as error:
            return str(error)
        return ""

    message = poll(expired, "the ticket expires")
    assert "cache': the ticket has expired: run kinit as the user of the driver" in message
    kdc.kinit("alice", alice, cache)
    assert is_served(connect(kafka, "SASL_PLAINTEXT", **by_cache(cache)))


@newest
def test_a_clock_that_is_wrong_is_reported(
    kafka: ApacheKafka, programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = {"LD_PRELOAD": f"{programs.libraries}/faketime/libfaketime.so.1", "FAKETIME": "+1h"}
    with Kdc(programs, tmp_path, ahead) as kdc:
        # By default clients go by the clock of the KDC.
        strict = kdc.configuration_of("strict.conf", kdc.port, "kdc_timesync = 0")
        key_tab = kdc.add("alice")
        monkeypatch.setenv("KRB5_CONFIG", os.fspath(strict))
        message = refused(kafka, "SASL_PLAINTEXT", **by_key_tab(key_tab))
    assert "the clocks of this machine and of the KDC differ by more than Kerberos allows" in message


@newest
def test_a_wrong_service_is_reported(kafka: ApacheKafka, alice: Path) -> None:
    message = refused(kafka, "SASL_PLAINTEXT", **by_key_tab(alice, service="kafkaX"))
    assert (
        f"no ticket of kafkaX/{HOST}: the KDC has no such service: check kafka.sasl.kerberos.serv" in message
    )
    assert "that brokers have the host names of their principals, not addresses" in message
    # A ticket for another host of the same service.
    service = f"localhost:{kafka.ports['SASL_PLAINTEXT']}"
    message = refused(kafka, "SASL_PLAINTEXT", **by_key_tab(alice), bootstrap__servers=service)
    assert "SASL GSSAPI: the broker refuses the credentials (error 58" in message


@newest
def test_a_kdc_that_is_away_is_reported_and_may_be_tried_again(
    kafka: ApacheKafka, kdc: Kdc, alice: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = kdc.configuration_of("nobody.conf", free_port())
    monkeypatch.setenv("KRB5_CONFIG", os.fspath(nobody))
    message = refused(kafka, "SASL_PLAINTEXT", ConnectFailed, **by_key_tab(alice))
    assert "no KDC answers: check kdc of the realm in krb5.conf (KRB5_CONFIG)" in message
    assert ConnectFailed("").retriable


@newest
def test_a_kdc_that_never_answers_hangs_nothing(
    kafka: ApacheKafka, kdc: Kdc, alice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    kdc.kinit("alice", alice, cache)
    with socket.create_server((HOST, 0)) as silent:
        hanging = kdc.configuration_of("silent.conf", silent.getsockname()[1])
        monkeypatch.setenv("KRB5_CONFIG", os.fspath(hanging))
        for how in (by_key_tab(alice), by_cache(cache)):
            message = refused(kafka, "SASL_PLAINTEXT", RequestTimedOut, **how)
            assert "SASL GSSAPI: the KDC: no answer within 5 s (requestTimeout); check kdc of" in message


# Tickets that end


def test_a_ticket_is_renewed_before_its_end(kdc: Kdc) -> None:
    login = KerberosLogin(SERVICE, "brief", os.fspath(kdc.add("brief", f"{BRIEF_S} seconds")))
    kdc.add(f"{SERVICE}/renewing")

    def renewed() -> bool:
        first_token(login, "renewing", Deadline.after(30))
        return kdc.ticket_count("brief") >= 2

    began_s = time.monotonic()
    poll(renewed, "a second ticket")
    # One ticket serves many logins.
    assert time.monotonic() - began_s > BRIEF_S / 2


def test_a_ticket_is_used_until_its_end_while_the_kdc_is_away(kdc: Kdc, alice: Path) -> None:
    login = KerberosLogin(SERVICE, "alice", os.fspath(alice))
    kdc.add(f"{SERVICE}/lasting")
    first_token(login, "lasting", Deadline.after(30))
    kdc.stop()
    try:
        # It is time to renew the ticket.
        assert first_token(login, "lasting", Deadline.after(30), used_part=0.0)[1]
        forget_tickets()
        with pytest.raises(ConnectFailed):
            first_token(login, "lasting", Deadline.after(30))
    finally:
        kdc.start()


@newest
@pytest.mark.nightly
@pytest.mark.jvm
@pytest.mark.timeout(900)
def test_a_stream_outlives_its_tickets(
    kafka: ApacheKafka, certificates: Certificates, kdc: Kdc, tmp_path: Path
) -> None:
    """Both its reads and its writes log in every few seconds. Spark sends the key tab."""
    user = "minute"
    key_tab = kdc.add(user, f"{LIFETIME_S} seconds")
    plain = kafka.bootstrap_servers()
    topic, copy = librdkafka.create_topic(plain), librdkafka.create_topic(plain)
    options = options_of(kafka, "SASL_PLAINTEXT", certificates, by_key_tab(key_tab.name, user))
    reads = {**options, "subscribe": topic, "startingOffsets": "earliest"}
    once = {"delivery": "exactly-once", "kafka.transactional.id": copy}
    sent: list[bytes] = []
    tickets: list[int] = []

    def send(more: list[bytes]) -> None:
        librdkafka.produce(plain, topic, [Record(value) for value in more])
        sent.extend(more)

    streams = {
        "files": Stream(reads, {}, send),
        "copy": Stream(reads, {**options, **once, "topic": copy}, send),
    }
    settings = {"spark.files": os.fspath(key_tab)}
    with driver(streams, tmp_path, settings) as running:
        began = poll(lambda: (tmp_path / "copy" / "runs").exists() and time.monotonic(), "both began", 300)

        def is_over() -> bool:
            send([b"%d" % number for number in range(len(sent), len(sent) + SENT_COUNT)])
            if time.monotonic() - began < LIFETIME_S / 2:
                tickets[:] = [kdc.ticket_count(user)]
            assert running.is_running, (tmp_path / "log").read_text()[-4000:]
            return time.monotonic() - began > OUTLIVED_S

        poll(is_over, "the tickets have ended", OUTLIVED_S + 300)
        (tmp_path / "complete").touch()
        running.await_end(0)
    for name in streams:
        assert not (tmp_path / name / "failures").exists(), (tmp_path / name / "failures").read_text()
    table = pq.read_table(tmp_path / "files" / "out", columns=["value"])
    assert sorted(table.column("value").to_pylist()) == sorted(sent)
    copied = librdkafka.consume(plain, copy, isolation_level="read_committed")
    assert sorted(filter(None, values(copied))) == sorted(sent)
    assert kdc.ticket_count(user) > tickets[0] > 0
