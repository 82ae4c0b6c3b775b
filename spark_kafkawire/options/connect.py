"""Options that reads and writes share: where the brokers are, deadlines, retries."""

from __future__ import annotations

import re

from ..errors import OptionError
from ..model import Broker
from ..net.retry import RetryPolicy
from .raw import RawOptions, bad_value
from .values import Discovery, NetOptions


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
    connect = (options.get("zookeeper.connect") or "").strip()
    hosts, _, chroot = connect.partition("/")
    host = r"(?:[^\s:,/\[\]]+|\[[0-9a-fA-F:]+\])(?::\d{1,5})?"
    if not re.fullmatch(rf"{host}(?:\s*,\s*{host})*", hosts) or re.search(r"//|\s", f"/{chroot}"):
        raise bad_value("zookeeper.connect", connect, "of the form host:port,host:port/chroot")
    return Discovery(zookeeper_connect=connect, zookeeper_auth=(scheme, credential) if auth else None)


def _broker_list(text: str) -> tuple[Broker, ...]:
    brokers = []
    for entry in (part.strip() for part in text.split(",")):
        match = re.fullmatch(r"(\d{1,9}):(\[[0-9a-fA-F:]+\]|[^\s:]+):(\d{1,5})", entry)
        if not match or not 0 < int(match[3]) < 65536:
            raise bad_value("broker.list", text, "of the form id:host:port,id:host:port")
        brokers.append(Broker(int(match[1]), match[2].strip("[]"), int(match[3])))
    if len({broker.id for broker in brokers}) != len(brokers):
        raise OptionError(f"option broker.list: {text!r} has a broker id twice")
    return tuple(sorted(brokers))


def parse_net(options: RawOptions) -> NetOptions:
    retries = options.count("retries", 0, 1000)
    assert retries is not None
    return NetOptions(
        options.seconds("requestTimeout"), RetryPolicy(retries, options.seconds("retryBackoff"))
    )
