"""MIT's KDC in a process on loopback, its principals and key tabs, and brokers that take its tickets.

    with Kdc(programs, folder) as kdc:
        key_tab = kdc.add("alice")
        monkeypatch.setenv("KRB5_CONFIG", str(kdc.configuration))
        broker = ApacheKafka(version, folder, certificates, **kdc.of_broker())

Clients of this process find it by the environment: KRB5_CONFIG is read for each login.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_kafkawire.broker.processes import ChildProcess
from tests.support.certificates import SERVER_NAME
from tests.support.noida import HOST, free_port, listens

from .debian import Programs

if TYPE_CHECKING:
    from typing_extensions import Self

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
