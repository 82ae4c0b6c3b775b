"""Programs of Debian packages, which are unpacked once a user, beside the jars: nothing is installed.

programs = Programs.of("krb5-kdc", "kcat")
subprocess.run([programs.path("kcat"), "-V"], env=programs.environment)
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: Lists of packages are some 10 MB, the packages of a KDC 5 MB.
TIMEOUT_S: Final = 180.0
#: Not needed to run programs, and large.
_LEFT_OUT: Final = ("bind9-libs", "bind9-host", "krb5-locales")


class NoPackages(Exception):
    """Why there are no such programs on this machine, in one line."""


@dataclass(frozen=True)
class Programs:
    """Programs in a folder with what their packages need."""

    root: Path

    @classmethod
    def of(cls, *packages: str) -> Programs:
        """The programs of these packages. Raises ``NoPackages`` where apt is missing or does not get them."""
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        name = f"debian-{zlib.crc32(' '.join(sorted(packages)).encode()):08x}"
        folder = Path(home, "spark-kafkawire-tests", name)
        if not folder.is_dir():
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _alone(folder.parent):
                if not folder.is_dir():
                    _unpack(packages, folder)
        return cls(folder)

    def path(self, program: str) -> Path:
        """The path of a program."""
        return next(
            found
            for part in ("usr/bin", "usr/sbin", "bin", "sbin")
            if (found := self.root / part / program).exists()
        )

    @property
    def libraries(self) -> Path:
        """The folder of the packages' libraries."""
        return next(self.root.glob("usr/lib/*-linux-gnu*"))

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of these programs."""
        return {**os.environ, "LD_LIBRARY_PATH": os.fspath(self.libraries)}


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _unpack(packages: Sequence[str], folder: Path) -> None:
    what = ", ".join(packages)
    if missing := [program for program in ("apt-get", "dpkg-deb") if shutil.which(program) is None]:
        raise NoPackages(f"{what} are Debian packages: {missing[0]} is not in PATH")
    # Complete or not there at all. The lists of packages are its own, as others may be old, or root's alone.
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        for each in ("lists/partial", "cache/archives/partial", "root"):
            Path(temporary, each).mkdir(parents=True)
        apt = ["apt-get", "--quiet", "--option", f"Dir::State::Lists={temporary}/lists"]
        apt += ["--option", f"Dir::Cache={temporary}/cache", "--option", "APT::Sandbox::User="]
        _run([*apt, "update"], temporary, what)
        simulated = [*apt, "install", "--simulate", "--reinstall", "--no-install-recommends", *packages]
        lines = _run(simulated, temporary, what).splitlines()
        names = {line.split()[1] for line in lines if line.startswith("Inst ")}
        _run([*apt, "download", *sorted(names.difference(_LEFT_OUT))], temporary, what)
        for package in Path(temporary).glob("*.deb"):
            _run(["dpkg-deb", "--extract", str(package), f"{temporary}/root"], temporary, what)
        Path(temporary, "root").rename(folder)


def _run(command: Sequence[str], folder: str, what: str) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise NoPackages(f"apt did not get {what} in {TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it says no reason"])[-1]
        raise NoPackages(f"apt does not get {what}: {reason}")
    return done.stdout
