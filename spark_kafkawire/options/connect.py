"""Options that reads and writes share: where the brokers are, deadlines, retries."""

from __future__ import annotations

import re
from typing import Final

from ..errors import OptionError
from ..model import Broker
from ..net.retry import RetryPolicy
from ..net.settings import ConnectionSettings
from ..protocol import v07
from .raw import RawOptions, bad_value, shown
from .values import Discovery, NetOptions

_HOST_AND_PORT: Final = re.compile(r"(?:[^\s:,/\[\]]+|\[[0-9a-fA-F:]+\])(?::(\d{1,5}))?")


def parse_discovery(options: RawOptions) -> Discovery:
    given = options.given("zookeeper.connect", "broker.list")
    if len(given) != 1:
        problem = "none is set" if not given else "both are set"
        raise OptionError(f"set exactly one of the options zookeeper.connect and broker.list: {problem}")
    auth = options.get("zookeeper.auth")
    if given == ["broker.list"]:
        if auth is not None:
            raise OptionError("option zookeeper.auth goes with zookeeper.connect, not with broker.list")
        return Discovery(broker_list=_broker_list(options.get("broker.list") or ""))
    scheme, separator, credential = (auth or "").partition(":")
    if auth is not None and (scheme != "digest" or ":" not in credential or not separator):
        raise OptionError(
            "option zookeeper.auth: not of the form digest:user:password (its value is not shown)"
        )
    connect = re.sub(r"\s*,\s*", ",", (options.get("zookeeper.connect") or "").strip())
    if not _is_connect_string(connect):
        raise bad_value("zookeeper.connect", connect, "of the form host:port,host:port/chroot")
    return Discovery(zookeeper_connect=connect, zookeeper_auth=(scheme, credential) if auth else None)


def _is_connect_string(text: str) -> bool:
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
        match = re.fullmatch(r"(\d{1,9}):(\[[0-9a-fA-F:]+\]|[^\s:]+):(\d{1,5})", entry)
        if not match or not _is_port(match[3]):
            raise bad_value("broker.list", text, "of the form id:host:port,id:host:port")
        brokers.append(Broker(int(match[1]), match[2].strip("[]"), int(match[3])))
    if len({broker.id for broker in brokers}) != len(brokers):
        raise OptionError(f"option broker.list: {shown(text)} has a broker id twice")
    return tuple(sorted(brokers))


def parse_net(options: RawOptions) -> NetOptions:
    retries = options.count("retries", 0, 1000)
    assert retries is not None
    connection = ConnectionSettings(v07.DIALECT, options.seconds("requestTimeout"))
    return NetOptions(connection, RetryPolicy(retries, options.seconds("retryBackoff")))
