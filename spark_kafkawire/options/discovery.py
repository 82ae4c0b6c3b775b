"""Options that name the brokers of a cluster. They choose the generation: Kafka 0.7, or 0.8 to 4.x."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..errors import OptionError, quoted
from ..model import Broker, Generation
from .directories import PATH, PATHS, Directories, parse_directories
from .option import MODERN, V07, Option, after_colons, bad_value, option, string
from .raw import RawOptions

BOOTSTRAP_SERVERS: Final = option(
    "kafka.bootstrap.servers",
    string,
    generation=MODERN,
    meaning="`h:p,h:p`: some brokers of a cluster of Kafka 0.8 to 4.x",
)
ZOOKEEPER_CONNECT: Final = option(
    "zookeeper.connect",
    string,
    generation=V07,
    meaning="`h:p,h:p/chroot`: the ZooKeeper that lists brokers and topics",
)
ZOOKEEPER_AUTH: Final = option(
    "zookeeper.auth",
    string,
    generation=V07,
    meaning="`digest:user:password`: the login to ZooKeeper",
    secrets=after_colons(2),
)
BROKER_LIST: Final = option(
    "broker.list", string, generation=V07, meaning="`id:h:p,id:h:p`: the brokers, without ZooKeeper"
)
EXPECTED_BROKERS: Final = option(
    "expectedBrokers",
    string,
    generation=V07,
    meaning="the number of brokers, or their ids, `0,1,2`: fewer or others are an error",
)

_HOST_AND_PORT: Final = re.compile(r"(?:[^\s:,/\[\]]+|\[[0-9a-fA-F:]+\])(?::([0-9]{1,5}))?")
#: Names of groups and topics of 0.7, which must be valid names of ZooKeeper nodes.
_NODE_NAME: Final = re.compile(r"[^/\x00-\x1f\x7f]+")


def is_node_name(name: str) -> bool:
    """True if a node of ZooKeeper can have the name."""
    return _NODE_NAME.fullmatch(name) is not None and name not in (".", "..")


#: The number of brokers of 0.7, or their ids.
ExpectedBrokers = int | frozenset[int]


@dataclass(frozen=True, slots=True)
class Discovery:
    """The source of brokers: exactly one of ZooKeeper, a fixed list, and some brokers of a cluster; or log
    directories in their place. Some brokers of a cluster have the ids -1, -2, …, as in Kafka's own clients,
    because their real ids are not known.

    ``expected_brokers`` are the 0.7 brokers that discovery must find.
    """

    zookeeper_connect: str | None = None
    zookeeper_auth: tuple[str, str] | None = field(default=None, repr=False)
    broker_list: tuple[Broker, ...] = ()
    bootstrap_servers: tuple[Broker, ...] = ()
    expected_brokers: ExpectedBrokers | None = None
    directories: Directories | None = None

    @property
    def place(self) -> str:
        """The option that says where the brokers are, ``name=value``, brokers sorted. It holds no secret."""
        if self.directories is not None:
            return f"path={','.join(self.directories.paths)}"
        if self.zookeeper_connect is not None:
            return f"zookeeper.connect={self.zookeeper_connect}"
        if self.broker_list:
            brokers = (f"{broker.id}:{broker.host}:{broker.port}" for broker in self.broker_list)
            return f"broker.list={','.join(brokers)}"
        servers = sorted(f"{broker.host}:{broker.port}" for broker in self.bootstrap_servers)
        return f"kafka.bootstrap.servers={','.join(servers)}"

    @property
    def generation(self) -> Generation:
        """The generation of the brokers' protocol. Here it is chosen, and nowhere else."""
        if self.directories is not None:
            return self.directories.generation
        return Generation.MODERN if self.bootstrap_servers else Generation.V07


def parse_discovery(options: RawOptions) -> Discovery:
    """The place of the brokers. It chooses the generation, so options of the other one are refused here.

    Raises ``OptionError`` (fatal).
    """
    given = options.given(*_DISCOVERY)
    if paths := options.given(PATH, PATHS):
        return _of_directories(options, paths[0], given)
    names = [option.name for option in _DISCOVERY]
    if len(given) != 1:
        none = f"none is set{options.hint_of(names)}"
        problem = f"{' and '.join(given)} are set" if given else none
        raise OptionError(
            f"set exactly one of the options {', '.join(names[:-1])} and {names[-1]}: {problem}"
        )
    [parse] = (parse for option, parse in _DISCOVERY.items() if option.name in given)
    discovery = parse(options)
    options.check_generation(discovery.generation, given[0])
    parse_directories(options)  # refuses options of log directories without one
    return replace(discovery, expected_brokers=_expected_brokers(options, discovery.broker_list))


def _of_directories(options: RawOptions, name: str, others: list[str]) -> Discovery:
    if strangers := others or options.given(EXPECTED_BROKERS, ZOOKEEPER_AUTH):
        raise OptionError(
            f"options {name} and {strangers[0]} are both set: a path is read without brokers; leave out one "
            "of the two"
        )
    discovery = Discovery(directories=parse_directories(options))
    options.check_generation(discovery.generation, name)
    return discovery


def _expected_brokers(options: RawOptions, broker_list: tuple[Broker, ...]) -> ExpectedBrokers | None:
    """``3``: a number; ``0,1,2``: ids."""
    text = options[EXPECTED_BROKERS]
    if text is None:
        return None
    entries = [entry.strip() for entry in text.split(",")]
    ids = [int(entry) for entry in entries if re.fullmatch(r"0|[1-9][0-9]{0,8}", entry)]
    if len(ids) != len(entries) or len(set(ids)) != len(ids) or ids == [0]:
        raise bad_value(
            EXPECTED_BROKERS.name, text, "how many brokers there must be, or their ids, like 0,1,2"
        )
    expected = ids[0] if len(ids) == 1 else frozenset(ids)
    listed = {broker.id for broker in broker_list}
    if listed and expected not in (len(listed), listed):
        raise OptionError(
            f"option expectedBrokers: {quoted(text)} and broker.list do not name the same brokers; "
            "correct one of them, or leave expectedBrokers out"
        )
    return expected


def _bootstrap(options: RawOptions) -> Discovery:
    """``host:port,host:port``; Kafka's clients also take ``SSL://host:port`` and empty entries."""
    text = options[BOOTSTRAP_SERVERS] or ""
    addresses = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"(?:[A-Za-z_]+://)?(\[[0-9a-fA-F:]+\]|[^\s:,/\[\]]+):([0-9]{1,5})", entry)
        if not match or not _is_port(match[2]) or not entry.isprintable():
            raise bad_value(BOOTSTRAP_SERVERS.name, text, "of the form host:port,host:port")
        addresses.append((match[1].strip("[]"), int(match[2])))
    if not addresses:
        raise bad_value(BOOTSTRAP_SERVERS.name, text, "of the form host:port,host:port")
    servers = enumerate(dict.fromkeys(addresses), 1)
    return Discovery(bootstrap_servers=tuple(Broker(-number, *address) for number, address in servers))


def _fixed(options: RawOptions) -> Discovery:
    if options[ZOOKEEPER_AUTH] is not None:
        raise OptionError(
            "option zookeeper.auth needs zookeeper.connect: with broker.list nothing logs in to ZooKeeper; "
            "leave one of the two out"
        )
    return Discovery(broker_list=_broker_list(options[BROKER_LIST] or ""))


def _zookeeper(options: RawOptions) -> Discovery:
    auth = options[ZOOKEEPER_AUTH]
    scheme, separator, credential = (auth or "").partition(":")
    if auth is not None and (scheme != "digest" or ":" not in credential or not separator):
        raise OptionError(
            "option zookeeper.auth is not of the form digest:user:password (its value is not shown)"
        )
    entries = (options[ZOOKEEPER_CONNECT] or "").split(",")
    connect = ",".join(entry.strip() for entry in entries)
    if not _is_connect_string(connect):
        raise bad_value(ZOOKEEPER_CONNECT.name, connect, "of the form host:port,host:port/chroot")
    return Discovery(zookeeper_connect=connect, zookeeper_auth=(scheme, credential) if auth else None)


#: The options that name the brokers, and the parser of each.
_DISCOVERY: Final[Mapping[Option[Any], Callable[[RawOptions], Discovery]]] = {
    BOOTSTRAP_SERVERS: _bootstrap,
    ZOOKEEPER_CONNECT: _zookeeper,
    BROKER_LIST: _fixed,
}


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
            raise bad_value(BROKER_LIST.name, text, "of the form id:host:port,id:host:port")
        brokers.append(Broker(int(match[1]), match[2].strip("[]"), int(match[3])))
    if len({broker.id for broker in brokers}) != len(brokers):
        raise OptionError(
            f"option broker.list: {quoted(text)} has a broker id twice; give each broker its own"
        )
    return tuple(sorted(brokers))
