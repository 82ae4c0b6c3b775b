"""Error for ``zookeeper.connect`` (Kafka 0.7) with brokers of Kafka 0.8 and later: it names the right option.

Later brokers register in ZooKeeper as JSON, ``version`` 1 to 5: all with ``host`` and ``port``, since 0.9
also with ``endpoints``, a list of ``LISTENER://host:port``, and since 0.10.2 with
``listener_security_protocol_map``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from spark_kafkawire.errors import DiscoveryError, printable
from spark_kafkawire.options.strict_json import NotAnObject, json_object

#: Most addresses in the error. A client needs one address that answers.
_NAMED_MAX: Final = 3
_PLAINTEXT: Final = "PLAINTEXT"
_ENDPOINT: Final = re.compile(r"([A-Za-z0-9_.-]+)://((?:\[[0-9a-fA-F:]+\]|[^\s:,/\[\]]+):[0-9]{1,5})")

#: A security protocol, and ``host:port``.
Listener = tuple[str, str]


def check_none_is_later(registrations: Iterable[bytes | None]) -> None:
    """Raise ``DiscoveryError`` (fatal) if brokers of Kafka 0.8 or later have registered."""
    later = [found for data in registrations if data and (found := _registration(data)) is not None]
    if later:
        listeners = [listener for each in later if (listener := _listener(each)) is not None]
        protocol = listeners[0][0] if listeners else _PLAINTEXT
        addresses = [address for listened, address in listeners if listened == protocol]
        raise later_brokers("brokers of Kafka 0.8 or later have registered here", addresses, protocol)


def later_brokers(found: str, addresses: Sequence[str], protocol: str = _PLAINTEXT) -> DiscoveryError:
    """The error for later brokers that were ``found`` instead of those of 0.7."""
    servers = ",".join(addresses[:_NAMED_MAX]) or "HOST:PORT"
    with_protocol = "" if protocol == _PLAINTEXT else f" and kafka.security.protocol={printable(protocol)}"
    return DiscoveryError(
        f"{found}; zookeeper.connect is for Kafka 0.7: set kafka.bootstrap.servers={printable(servers)}"
        f"{with_protocol} instead"
    )


def _registration(data: bytes) -> Mapping[str, Any] | None:
    """The registration of a broker of 0.8 or later; None for any other data."""
    try:
        found = json_object(data.decode("utf-8", "replace"))
    except NotAnObject:
        return None
    return found if "host" in found or "endpoints" in found else None


def _listener(registration: Mapping[str, Any]) -> Listener | None:
    """The listener for the error: preferably one without encryption and authentication."""
    protocols = registration.get("listener_security_protocol_map")
    protocols = protocols if isinstance(protocols, dict) else {}
    endpoints = registration.get("endpoints")
    matches = [_ENDPOINT.fullmatch(str(each)) for each in endpoints] if isinstance(endpoints, list) else []
    listeners = [(str(protocols.get(match[1], match[1])), match[2]) for match in matches if match]
    if not listeners:
        host = str(registration.get("host"))
        address = f"[{host}]" if ":" in host else host
        match = _ENDPOINT.fullmatch(f"{_PLAINTEXT}://{address}:{registration.get('port')}")
        return (_PLAINTEXT, match[2]) if match else None
    return next((each for each in listeners if each[0] == _PLAINTEXT), listeners[0])
