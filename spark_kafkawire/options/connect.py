"""Options that reads and writes share: where the brokers are, deadlines, retries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from ..errors import LOG, OptionError, quoted
from ..model import Broker, WireFormat
from ..net.retry import RetryPolicy
from ..net.settings import ConnectionSettings
from .raw import RawOptions, bad_value
from .security import parse_security
from .values import Discovery, ExpectedBrokers, NetOptions

#: Most tries of one request. With the longest waits between them that takes three hours.
_RETRIES_MAX: Final = 1000
_HOST_AND_PORT: Final = re.compile(r"(?:[^\s:,/\[\]]+|\[[0-9a-fA-F:]+\])(?::([0-9]{1,5}))?")
#: Whether brokers are asked for their versions, and the release that they are of where they are not.
_ASKS: Final = "kafka.api.version.request"
_RELEASE: Final = "kafka.broker.version.fallback"
#: By the values of ``wireFormat``.
_WIRE_FORMATS: Final[Mapping[str, WireFormat | None]] = {"0.7": None, "proposal": WireFormat.PROPOSAL}


def parse_discovery(options: RawOptions) -> Discovery:
    """Where the brokers are. It chooses the generation, so options of the other one are refused here."""
    given = options.given(*_DISCOVERY)
    if len(given) != 1:
        none = f"none is set{options.hint_of(tuple(_DISCOVERY))}"
        problem = f"{' and '.join(given)} are set" if given else none
        raise OptionError(f"set exactly one of the options {_listed(_DISCOVERY)}: {problem}")
    discovery = _DISCOVERY[given[0]](options)
    options.check_generation(discovery.generation, given[0])
    return replace(discovery, expected_brokers=_expected_brokers(options, discovery.broker_list))


def _expected_brokers(options: RawOptions, broker_list: tuple[Broker, ...]) -> ExpectedBrokers | None:
    """``3``: so many; ``0,1,2``: these."""
    text = options.get("expectedBrokers")
    if text is None:
        return None
    entries = [entry.strip() for entry in text.split(",")]
    ids = [int(entry) for entry in entries if re.fullmatch(r"0|[1-9][0-9]{0,8}", entry)]
    if len(ids) != len(entries) or len(set(ids)) != len(ids) or ids == [0]:
        raise bad_value("expectedBrokers", text, "how many brokers there must be, or their ids, like 0,1,2")
    expected = ids[0] if len(ids) == 1 else frozenset(ids)
    listed = {broker.id for broker in broker_list}
    if listed and expected not in (len(listed), listed):
        raise OptionError(
            f"option expectedBrokers: {quoted(text)} and broker.list do not name the same brokers"
        )
    return expected


def _bootstrap(options: RawOptions) -> Discovery:
    """``host:port,host:port``; Kafka's clients also take ``SSL://host:port`` and empty entries."""
    text = options.get("kafka.bootstrap.servers") or ""
    addresses = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"(?:[A-Za-z_]+://)?(\[[0-9a-fA-F:]+\]|[^\s:,/\[\]]+):([0-9]{1,5})", entry)
        if not match or not _is_port(match[2]) or not entry.isprintable():
            raise bad_value("kafka.bootstrap.servers", text, "of the form host:port,host:port")
        addresses.append((match[1].strip("[]"), int(match[2])))
    if not addresses:
        raise bad_value("kafka.bootstrap.servers", text, "of the form host:port,host:port")
    servers = enumerate(dict.fromkeys(addresses), 1)
    return Discovery(bootstrap_servers=tuple(Broker(-number, *address) for number, address in servers))


def _fixed(options: RawOptions) -> Discovery:
    if options.get("zookeeper.auth") is not None:
        raise OptionError("option zookeeper.auth goes with zookeeper.connect, not with broker.list")
    return Discovery(broker_list=_broker_list(options.get("broker.list") or ""))


def _zookeeper(options: RawOptions) -> Discovery:
    auth = options.get("zookeeper.auth")
    scheme, separator, credential = (auth or "").partition(":")
    if auth is not None and (scheme != "digest" or ":" not in credential or not separator):
        raise OptionError(
            "option zookeeper.auth: not of the form digest:user:password (its value is not shown)"
        )
    entries = (options.get("zookeeper.connect") or "").split(",")
    connect = ",".join(entry.strip() for entry in entries)
    if not _is_connect_string(connect):
        raise bad_value("zookeeper.connect", connect, "of the form host:port,host:port/chroot")
    return Discovery(zookeeper_connect=connect, zookeeper_auth=(scheme, credential) if auth else None)


#: The options that say where brokers are, and what each becomes.
_DISCOVERY: Final[dict[str, Callable[[RawOptions], Discovery]]] = {
    "kafka.bootstrap.servers": _bootstrap,
    "zookeeper.connect": _zookeeper,
    "broker.list": _fixed,
}


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}"


def _is_connect_string(text: str) -> bool:
    if not text.isprintable():
        return False
    hosts, slash, chroot = text.partition("/")
    names = chroot.split("/") if slash and chroot else []
    if any(name in ("", ".", "..") or re.search(r"\s", name) for name in names):
        return False
    matches = [_HOST_AND_PORT.fullmatch(host) for host in hosts.split(",")]
    return all(match and (match[1] is None or _is_port(match[1])) for match in matches)


def _is_port(text: str) -> bool:
    return 0 < int(text) < 65536


def _broker_list(text: str) -> tuple[Broker, ...]:
    brokers = []
    for entry in (part.strip() for part in text.split(",")):
        match = re.fullmatch(r"([0-9]{1,9}):(\[[0-9a-fA-F:]+\]|[^\s:]+):([0-9]{1,5})", entry)
        if not match or not _is_port(match[3]) or not entry.isprintable():
            raise bad_value("broker.list", text, "of the form id:host:port,id:host:port")
        brokers.append(Broker(int(match[1]), match[2].strip("[]"), int(match[3])))
    if len({broker.id for broker in brokers}) != len(brokers):
        raise OptionError(f"option broker.list: {quoted(text)} has a broker id twice")
    return tuple(sorted(brokers))


def parse_wire_format(options: RawOptions, contradictions: Mapping[str, str]) -> WireFormat | None:
    """What messages travel in; None is the generation's own format.

    Raises ``OptionError`` (fatal) for options that contradict the proposal; ``contradictions`` tells why.
    """
    wire_format = _WIRE_FORMATS[options.choice("wireFormat", *_WIRE_FORMATS)]
    given = options.given(*contradictions)
    if wire_format is WireFormat.PROPOSAL and given:
        raise OptionError(
            f"option {given[0]} does not go with wireFormat=proposal: {contradictions[given[0]]}; leave out "
            "one of the two"
        )
    return wire_format


def parse_net(options: RawOptions, discovery: Discovery) -> NetOptions:
    """How to connect to the brokers that are found so, and how often to try again."""
    timeout_s = options.seconds(options.one_of("requestTimeout", "kafka.request.timeout.ms"))
    backoff_s = options.seconds(options.one_of("retryBackoff", "kafka.retry.backoff.ms"))
    connection = ConnectionSettings(
        discovery.generation,
        timeout_s,
        options.get("kafka.client.id"),
        parse_security(options),
        bootstrap_servers=discovery.bootstrap_servers,
        assumed_release=_assumed_release(options),
    )
    if connection.assumed_release is not None and connection.security.sasl is not None:
        raise OptionError(
            f"option {_RELEASE}: brokers of {connection.assumed_release} know no login but Kerberos, which "
            f"is not supported; leave {_ASKS} out where they take kafka.sasl.mechanism"
        )
    return NetOptions(connection, RetryPolicy(_retries(options), backoff_s, _patience_s(options)))


def _patience_s(options: RawOptions) -> float:
    """Who says how often, and not how long, means it."""
    if options.given("retries", "kafka.retries") and not options.given("patience"):
        return 0.0
    return options.seconds("patience", zero=True)


def _assumed_release(options: RawOptions) -> str | None:
    """``0.8`` or ``0.9`` where the user says so, in the words of librdkafka; None where brokers are asked.

    Unlike there, the release alone says nothing: a failed question is no reason to speak older versions.
    """
    asks, text = options.flag(_ASKS), options.get(_RELEASE)
    match = re.fullmatch(r"(0\.[89])(?:\.[0-9]{1,3}){0,2}", (text or "").strip())
    if text is not None and not match:
        allowed = "0.8 or 0.9, with or without more numbers: brokers from 0.10 on tell their versions"
        raise bad_value(_RELEASE, text, allowed)
    if match and not asks:
        return match[1]
    if not asks:
        raise OptionError(f"option {_ASKS}: false needs {_RELEASE}, 0.8 or 0.9: later brokers are asked")
    if match:
        LOG.warning("option %s means nothing unless %s=false: the brokers are asked", _RELEASE, _ASKS)
    return None


def _retries(options: RawOptions) -> int:
    name = options.one_of("retries", "kafka.retries")
    # Kafka's producers try again without end, and are bounded by a deadline instead.
    retries = options.count(name, 0, _RETRIES_MAX if name == "retries" else (1 << 31) - 1)
    assert retries is not None
    return min(retries, _RETRIES_MAX)
