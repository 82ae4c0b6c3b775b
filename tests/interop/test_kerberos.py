"""Kerberos: logins at Apache Kafka with tickets of MIT's KDC, errors of those that fail, and tickets that end
while a stream runs. KRB5_CONFIG names the KDC to clients of this process; it is read for each login."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from spark_kafkawire.broker.cluster import ChildProcess
from spark_kafkawire.errors import ConnectFailed, RequestTimedOut
from spark_kafkawire.kept import forget_all
from spark_kafkawire.net.logins.kerberos import KerberosLogin, first_token
from spark_kafkawire.net.transport import Deadline
from tests.support import librdkafka, ours
from tests.support.certificates import SERVER_NAME, Certificates
from tests.support.foreign import Record, values
from tests.support.noida import HOST, free_port, listens
from tests.support.polling import DEADLINE_S, poll
from tests.support.stream_kills import Stream, driver

from .apache_kafka import LISTENERS, ApacheKafka
from .jars import kept
from .secured import connect, is_served, refused, trust
from .versions import VERSIONS, needs_broker, newest

if TYPE_CHECKING:
    from typing_extensions import Self


#: Lists of packages are some 10 MB, the packages of a KDC 5 MB.
_APT_TIMEOUT_S: Final = 180.0
#: Not needed to run programs, and large.
_LEFT_OUT: Final = ("bind9-libs", "bind9-host", "krb5-locales")
PACKAGES: Final = ("krb5-kdc", "krb5-admin-server", "krb5-user")
#: A foreign client, and its plugin for Kerberos.
KCAT_PACKAGES: Final = ("kcat", "libsasl2-modules-gssapi-mit")
#: Another clock for a process.
CLOCK_PACKAGES: Final = ("libfaketime",)
REALM: Final = "KAFKAWIRE.TEST"
SERVICE: Final = "kafka"
START_TIMEOUT_S: Final = 60.0
MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule required"
#: The hosts that the tests' brokers advertise, by listener.
HOSTS: Final = {"SASL_PLAINTEXT": HOST, "SASL_SSL": SERVER_NAME}
#: How long a login without TLS lasts, ms: long reads and streams log in again and again.
LOGIN_MS: Final = 8_000
_CLIENT: Final = """\
[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
{more}
[realms]
{realm} = {{
kdc = {host}:{port}
}}
[domain_realm]
localhost = {realm}
"""
_SERVER: Final = """\
[kdcdefaults]
kdc_listen = {host}:{port}
kdc_tcp_listen = {host}:{port}
[realms]
{realm} = {{
database_name = {folder}/principals
key_stash_file = {folder}/stash
acl_file = {folder}/acl
supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
}}
[dbmodules]
db_module_dir = {plugins}
[logging]
kdc = FILE:{folder}/requests.log
"""


@dataclass(frozen=True)
class Programs:
    """Programs of Debian packages in a folder with what these need."""

    root: Path

    @classmethod
    def of(cls, *packages: str) -> Programs:
        """The programs of these packages, which are unpacked once a user: nothing is installed. Skips the
        test where apt is missing or does not get them."""
        name = f"debian-{zlib.crc32(' '.join(sorted(packages)).encode()):08x}"
        return cls(kept(name, partial(_unpack, packages)))

    def path(self, program: str) -> Path:
        """The path of a program."""
        return next(
            result
            for part in ("usr/bin", "usr/sbin", "bin", "sbin")
            if (result := self.root / part / program).exists()
        )

    @property
    def libraries(self) -> Path:
        """The folder of the packages' libraries."""
        return next(self.root.glob("usr/lib/*-linux-gnu*"))

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of these programs."""
        return {**os.environ, "LD_LIBRARY_PATH": os.fspath(self.libraries)}


def _unpack(packages: Sequence[str], root: Path) -> None:
    what, temporary = ", ".join(packages), root.parent
    if missing := [program for program in ("apt-get", "dpkg-deb") if shutil.which(program) is None]:
        pytest.skip(f"{what} are Debian packages: {missing[0]} is not in PATH")
    # The lists of packages are its own, as others may be old, or root's alone.
    for item in ("lists/partial", "cache/archives/partial"):
        Path(temporary, item).mkdir(parents=True)
    root.mkdir()
    apt = ["apt-get", "--quiet", "--option", f"Dir::State::Lists={temporary}/lists"]
    apt += ["--option", f"Dir::Cache={temporary}/cache", "--option", "APT::Sandbox::User="]
    _run([*apt, "update"], temporary, what)
    simulated = [*apt, "install", "--simulate", "--reinstall", "--no-install-recommends", *packages]
    lines = _run(simulated, temporary, what).splitlines()
    names = {line.split()[1] for line in lines if line.startswith("Inst ")}
    _run([*apt, "download", *sorted(names.difference(_LEFT_OUT))], temporary, what)
    for package in temporary.glob("*.deb"):
        _run(["dpkg-deb", "--extract", str(package), str(root)], temporary, what)


def _run(command: Sequence[str], folder: Path, what: str) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_APT_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"apt did not get {what} in {_APT_TIMEOUT_S:g} s")
    if done.returncode != 0:
        pytest.skip(f"apt does not get {what}: {(done.stderr.strip().splitlines() or ['no reason'])[-1]}")
    return done.stdout


class Kdc:
    """A KDC from ``start`` (or ``with``) to ``stop``. ``environment`` is for its process alone."""

    def __init__(
        self, programs: Programs, folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._programs, self._folder = programs, folder
        self.port = free_port()
        self.configuration = self.configuration_of("krb5.conf", self.port)
        plugins = programs.libraries / "krb5/plugins/kdb"
        server = folder / "kdc.conf"
        server.write_text(
            _SERVER.format(host=HOST, port=self.port, realm=REALM, folder=folder, plugins=plugins)
        )
        self._environment = {
            **programs.environment,
            "KRB5_CONFIG": os.fspath(self.configuration),
            "KRB5_KDC_PROFILE": os.fspath(server),
        }
        self._of_process = environment or {}
        self._process: ChildProcess | None = None
        self._run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)

    def configuration_of(self, name: str, port: int, more: str = "") -> Path:
        """A configuration of clients that looks for the KDC at another port, or with more lines."""
        path = self._folder / name
        path.write_text(_CLIENT.format(realm=REALM, host=HOST, port=port, more=more))
        return path

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        command = [str(self._programs.path("krb5kdc")), "-n"]
        log, environ = self._folder / "kdc.log", {**self._environment, **self._of_process}
        self._process = ChildProcess("the KDC", command, output=log, log=log, environ=environ)
        self._process.wait_until(lambda: listens(HOST, self.port) or None, "listening", START_TIMEOUT_S)

    def stop(self) -> None:
        """End it; ``start`` goes on with its principals."""
        if self._process:
            self._process.kill()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def add(self, principal: str, lifetime: str = "1 day") -> Path:
        """Add a principal, whose tickets last that long. Returns a key tab with its keys."""
        key_tab = self._folder / f"{principal.replace('/', '-')}.keytab"
        self._ask(f'add_principal -randkey -maxlife "{lifetime}" {principal}')
        self._ask(f"ktadd -k {key_tab} {principal}")
        return key_tab

    def delete(self, principal: str) -> None:
        """Delete a principal."""
        self._ask(f"delete_principal -force {principal}")

    def change_key(self, principal: str) -> None:
        """Give a principal another key, which no key tab has."""
        self._ask(f"change_password -randkey {principal}")

    def kinit(self, principal: str, key_tab: Path, cache: Path) -> None:
        """Put a new ticket into a cache."""
        self._run("kinit", "-k", "-t", str(key_tab), "-c", str(cache), principal)

    def ticket_count(self, principal: str) -> int:
        """The number of tickets for itself that the KDC has given to a principal."""
        lines = (self._folder / "requests.log").read_text().splitlines()
        issued = [line for line in lines if "AS_REQ" in line and ": ISSUE: " in line]
        return sum(f" {principal}@{REALM} for krbtgt/" in line for line in issued)

    def of_broker(self) -> dict[str, Any]:
        """Arguments of ``ApacheKafka`` for a broker that takes tickets at both listeners with logins."""
        lines = [
            "sasl.enabled.mechanisms=GSSAPI,SCRAM-SHA-256,PLAIN",
            f"sasl.kerberos.service.name={SERVICE}",
            f"listener.name.sasl_plaintext.gssapi.connections.max.reauth.ms={LOGIN_MS}",
        ]
        for listener, host in HOSTS.items():
            principal = f"{SERVICE}/{host}"
            key_tab = self._folder / f"{SERVICE}-{host}.keytab"
            if not key_tab.exists():
                self.add(principal)
            jaas = (
                f'{MODULE} useKeyTab=true storeKey=true keyTab="{key_tab}" principal="{principal}@{REALM}";'
            )
            lines.append(f"listener.name.{listener.lower()}.gssapi.sasl.jaas.config={jaas}")
        return {"settings": lines, "java_options": (f"-Djava.security.krb5.conf={self.configuration}",)}

    def _ask(self, query: str) -> None:
        self._run("kadmin.local", "-q", query)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs.path(program)), *arguments]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=60)
        # kadmin.local ends with 0 whatever it says: "… while creating …".
        assert done.returncode == 0, f"{done.stdout} {done.stderr}"
        assert " while " not in done.stderr, done.stderr


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
    return Programs.of(*PACKAGES, *KCAT_PACKAGES, *CLOCK_PACKAGES)


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


def by_key_tab(key_tab: Path | str, principal: str = "alice", service: str = SERVICE) -> dict[str, Any]:
    jaas = f'{MODULE} useKeyTab=true storeKey=true keyTab="{key_tab}" principal="{principal}";'
    return login(jaas, service)


def by_cache(cache: Path) -> dict[str, Any]:
    return login(f'{MODULE} useTicketCache=true ticketCache="{cache}";')


def login(jaas: str, service: str = SERVICE) -> dict[str, Any]:
    return {"sasl__mechanism": "GSSAPI", "sasl__kerberos__service__name": service, "sasl__jaas__config": jaas}


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


# Causes of a failure that only a KDC knows


@newest
def test_an_unknown_principal_is_reported(kafka: ApacheKafka, kdc: Kdc) -> None:
    ghost = kdc.add("ghost")
    kdc.delete("ghost")
    message = refused(kafka, "SASL_PLAINTEXT", **by_key_tab(ghost, "ghost"))
    assert "the KDC has no such principal: check principal of kafka.sasl.jaas.config" in message
    changed = kdc.add("changed")
    kdc.change_key("changed")
    message = refused(kafka, "SASL_PLAINTEXT", **by_key_tab(changed, "changed"))
    assert "the KDC has another key of the principal than the key tab" in message


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
            assert "SASL GSSAPI: the KDC: no answer within 5 s (requestTimeout); " in message
            assert "; check kdc of the realm in krb5.conf" in message


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
        forget_all()
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

    streams = {"copy": Stream(reads, {**options, **once, "topic": copy}, send)}
    settings = {"spark.files": os.fspath(key_tab)}
    with driver(streams, tmp_path, settings) as running:
        began = poll(lambda: (tmp_path / "copy" / "runs").exists() and time.monotonic(), "it began", 300)

        def is_over() -> bool:
            send([b"%d" % number for number in range(len(sent), len(sent) + SENT_COUNT)])
            if time.monotonic() - began < LIFETIME_S / 2:
                tickets[:] = [kdc.ticket_count(user)]
            assert running.is_running, (tmp_path / "log").read_text()[-4000:]
            return time.monotonic() - began > OUTLIVED_S

        poll(is_over, "the tickets have ended", OUTLIVED_S + 300)
        (tmp_path / "complete").touch()
        running.await_end(0)
    failures = tmp_path / "copy" / "failures"
    assert not failures.exists(), failures.read_text()
    copied = librdkafka.consume(plain, copy, isolation_level="read_committed")
    assert sorted(filter(None, values(copied))) == sorted(sent)
    assert kdc.ticket_count(user) > tickets[0] > 0
