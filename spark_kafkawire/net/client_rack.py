"""Rack of the machine that this process runs on, such as a zone of a cloud: brokers in it are near.

Each process finds it once. Machines of a cloud ask their metadata service, which has plain http at an address
that only the machine reaches.

Source: KIP-392, KIP-1123; Amazon EC2 User Guide, instance metadata (IMDSv2); Google Compute Engine, VM
metadata.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from ..errors import LOG, ConnectFailed, KafkaWireError, printable
from ..kept import Kept
from ..model import Broker
from .transport import Deadline

#: Time for all requests to a metadata service, seconds.
METADATA_S: Final = 1.0
_NAME: Final = re.compile(r"[!-~]{1,200}")
_OK: Final = 200
_AWS: Final = "http://169.254.169.254"
_AWS_ZONE: Final = "/latest/meta-data/placement/availability-zone"
_AWS_TOKEN: Final = "X-aws-ec2-metadata-token"


@dataclass(frozen=True, slots=True)
class ClientRack:
    """The place where a process finds its rack: ``source`` is ``text``, ``env``, ``aws`` or ``gcp``. ``name``
    is the rack itself, or the environment variable."""

    source: str
    name: str = ""

    def found(self, cluster: tuple[Broker, ...], racks: Callable[[], Collection[str]]) -> str:
        """The rack of this process in a cluster; "" if it is not known, which is logged once.

        ``racks`` are those of the brokers. A zone of AWS has two names, and the one that is a rack counts.
        """
        key = self, cluster
        if (known := _FOUND.get(key)) is not None:
            return known
        names = _NAMES.get(self)
        if names is None:
            names = _NAMES.keep(self, self._names())
        if len(names) < 2:
            return _FOUND.keep(key, "".join(names))
        try:
            there = racks()
        except KafkaWireError as error:
            LOG.warning("%s: the racks of the brokers are not known: %s; %s", self, error, _FROM_LEADERS)
            return ""
        rack = next((name for name in names if name in there), "")
        if not rack:
            shown = printable(", ".join(sorted(there)[:_LISTED_MAX]))
            LOG.warning("%s: no broker is in %s; racks are: %s; %s", self, names, shown, _FROM_LEADERS)
        return _FOUND.keep(key, rack)

    def _names(self) -> tuple[str, ...]:
        """The names of the rack; none, which is logged, if it is not found."""
        try:
            return _SOURCES[self.source](self.name)
        except KafkaWireError as error:
            LOG.warning("%s: the rack is not known: %s; %s", self, error, _FROM_LEADERS)
            return ()

    def __str__(self) -> str:
        return f"clientRack={printable(':'.join(filter(None, (self.source, self.name))))}"


_FROM_LEADERS: Final = "this process uses the leaders of partitions, wherever they are"
_LISTED_MAX: Final = 12
#: What each process has found.
_NAMES: Final = Kept[ClientRack, tuple[str, ...]](100)
_FOUND: Final = Kept[tuple[ClientRack, tuple[Broker, ...]], str](100)


def _of_environment(name: str) -> tuple[str, ...]:
    value = os.environ.get(name, "").strip()
    if not value:
        raise ConnectFailed(f"the environment variable {printable(name)} is not set on this executor")
    return (value,)


def _of_aws(_: str) -> tuple[str, ...]:
    """The name of the zone, which differs between accounts, and its id, which does not."""
    base = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT") or _AWS
    base, deadline = base.rstrip("/"), Deadline.after(METADATA_S, "metadata service")
    # A machine with the first version of the service has no tokens.
    token = _asked("PUT", f"{base}/latest/api/token", {f"{_AWS_TOKEN}-ttl-seconds": "60"}, deadline)
    headers = {_AWS_TOKEN: token} if token and _NAME.fullmatch(token) else {}
    names = (_asked("GET", f"{base}{_AWS_ZONE}{part}", headers, deadline) for part in ("", "-id"))
    return _check_names(tuple(name for name in names if name))


def _of_gcp(_: str) -> tuple[str, ...]:
    host = os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
    address = f"http://{host}/computeMetadata/v1/instance/zone"
    deadline = Deadline.after(METADATA_S, "metadata service")
    zone = _asked("GET", address, {"Metadata-Flavor": "Google"}, deadline) or ""
    return _check_names((zone.rpartition("/")[2],) if zone else ())


def _check_names(names: tuple[str, ...]) -> tuple[str, ...]:
    if not names or not all(map(_NAME.fullmatch, names)):
        raise ConnectFailed("the metadata service does not tell the zone of this machine")
    return names


def _asked(method: str, address: str, headers: Mapping[str, str], deadline: Deadline) -> str | None:
    """The text of a good answer; None if the service refuses. Raises ``TransportError``."""
    from .http import Url, ask  # few processes speak HTTP

    if (url := Url.parse(address)) is None or url.scheme != "http":
        raise ConnectFailed(f"{printable(address)} is not an http address; correct the environment variable")
    answer = ask(url, method, headers, b"" if method == "PUT" else None, None, deadline)
    return answer.body.decode("ascii", "replace").strip() if answer.status == _OK else None


_SOURCES: Final[Mapping[str, Callable[[str], tuple[str, ...]]]] = {
    "text": lambda name: (name,),
    "env": _of_environment,
    "aws": _of_aws,
    "gcp": _of_gcp,
}
