"""Options of the way to the records: the brokers of a cluster, or log directories without brokers; and of the
connections to brokers of both generations: deadlines, retries, versions.

The options that name the brokers choose the generation: Kafka 0.7, or 0.8 to 4.x.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ..errors import LOG, OptionError, printable, quote
from ..model import Broker, Generation, WireFormat
from ..net.client_rack import ClientRack
from ..net.known_versions import BROKER_VERSIONS
from ..net.retry import Bootstrap, RetryPolicy
from ..net.settings import PLAINTEXT, Address, ConnectionSettings, Security
from ..protocol.modern.minimum_versions import MinimumVersions
from .option import (
    BATCH_READ,
    INT32_MAX,
    MODERN,
    V07,
    Group,
    NotAnObject,
    Option,
    RawOptions,
    after_colons,
    bad_value,
    count,
    flag,
    json_object,
    map_words,
    option,
    parse_string,
    seconds,
)
from .security import Layers, parse_layers

if TYPE_CHECKING:
    from ..directories.files import FileSystemOptions
    from ..net.sasl import Sasl


_HOST_AND_PORT: Final = re.compile(r"(?:[^\s:,/\[\]]+|\[[0-9a-fA-F:]+\])(?::([0-9]{1,5}))?")
#: Names of groups and topics of 0.7, which must be valid names of ZooKeeper nodes.
_NODE_NAME: Final = re.compile(r"[^/\x00-\x1f\x7f]+")


def is_node_name(name: str) -> bool:
    """True if a node of ZooKeeper can have the name."""
    return _NODE_NAME.fullmatch(name) is not None and name not in (".", "..")


def _servers(name: str, text: str) -> tuple[Broker, ...]:
    """``host:port,host:port``; Kafka's clients also take ``SSL://host:port`` and empty entries."""
    addresses = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"(?:[A-Za-z_]+://)?(\[[0-9a-fA-F:]+\]|[^\s:,/\[\]]+):([0-9]{1,5})", entry)
        if not match or not _is_port(match[2]) or not entry.isprintable():
            raise bad_value(name, text, "of the form host:port,host:port")
        addresses.append((match[1].strip("[]"), int(match[2])))
    if not addresses:
        raise bad_value(name, text, "of the form host:port,host:port")
    servers = enumerate(dict.fromkeys(addresses), 1)
    return tuple(Broker(-number, *address) for number, address in servers)


def _digest(name: str, text: str) -> tuple[str, str]:
    scheme, _, credential = text.partition(":")
    if scheme != "digest" or ":" not in credential:
        raise OptionError(f"option {name} is not of the form digest:user:password (its value is not shown)")
    return scheme, credential


def _connect(name: str, text: str) -> str:
    connect = ",".join(entry.strip() for entry in text.split(","))
    if not _is_connect_string(connect):
        raise bad_value(name, connect, "of the form host:port,host:port/chroot")
    return connect


def _is_connect_string(text: str) -> bool:
    if not text.isprintable():
        return False
    hosts, slash, chroot = text.partition("/")
    names = chroot.split("/") if slash and chroot else []
    if any(name in ("", ".", "..") or re.search(r"\s", name) for name in names):
        return False
    matches = [_HOST_AND_PORT.fullmatch(host) for host in hosts.split(",")]
    return all(match and (match[1] is None or _is_port(match[1])) for match in matches)


_MAP_EXAMPLE: Final = '{"kafka-0.svc:9092":"127.0.0.1:19092"}'


def _is_port(text: str) -> bool:
    return 0 < int(text) < 65536


def _broker_list(name: str, text: str) -> tuple[Broker, ...]:
    brokers = []
    for entry in (part.strip() for part in text.split(",")):
        match = re.fullmatch(r"([0-9]{1,9}):(\[[0-9a-fA-F:]+\]|[^\s:]+):([0-9]{1,5})", entry)
        if not match or not _is_port(match[3]) or not entry.isprintable():
            raise bad_value(name, text, "of the form id:host:port,id:host:port")
        brokers.append(Broker(int(match[1]), match[2].strip("[]"), int(match[3])))
    if len({broker.id for broker in brokers}) != len(brokers):
        raise OptionError(f"option {name}: {quote(text)} has a broker id twice; give each broker its own")
    return tuple(sorted(brokers))


#: The number of brokers of 0.7, or their ids.
ExpectedBrokers = int | frozenset[int]


@dataclass(frozen=True)
class Discovery(Group, generation=V07):
    """The source of brokers: exactly one of ZooKeeper, a fixed list, and some brokers of a cluster; or log
    directories in their place. Some brokers of a cluster have the ids -1, -2, …, as in Kafka's own clients,
    because their real ids are not known.

    ``expected_brokers`` are the 0.7 brokers that discovery must find.
    """

    servers = option("kafka.bootstrap.servers", _servers, generation=MODERN).means(
        "`h:p,h:p`: some brokers of a cluster of Kafka 0.8 to 4.x"
    )
    zookeeper_connect: Option[str | None] = option("zookeeper.connect", _connect).means(
        "`h:p,h:p/chroot`: the ZooKeeper that lists brokers and topics"
    )
    zookeeper_auth: Option[tuple[str, str] | None] = field(
        default=option("zookeeper.auth", _digest, generation=V07, secrets=after_colons(2)).means(
            "`digest:user:password`: the login to ZooKeeper"
        ),
        repr=False,
    )
    brokers = option("broker.list", _broker_list).means("`id:h:p,id:h:p`: the brokers, without ZooKeeper")
    expected = option("expectedBrokers", parse_string).means(
        "the number of brokers, or their ids, `0,1,2`: fewer or others are an error"
    )
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
    Raises ``OptionError`` (fatal)."""
    of = Discovery
    places = (of.servers, of.zookeeper_connect, of.brokers)
    given, names = options.given(*places), [item.name for item in places]
    if paths := options.given(Directories.path, Directories.path_list):
        return _parse_directories(options, paths[0], given)
    if len(given) != 1:
        none = f"none is set{options.hint_of(names)}"
        problem = f"{' and '.join(given)} are set" if given else none
        raise OptionError(
            f"set exactly one of the options {', '.join(names[:-1])} and {names[-1]}: {problem}"
        )
    if given == [of.brokers.name] and options.given(of.zookeeper_auth):
        raise OptionError(
            "option zookeeper.auth needs zookeeper.connect: with broker.list nothing logs in to ZooKeeper; "
            "leave one of the two out"
        )
    servers, brokers = options[of.servers], options[of.brokers]
    discovery = of(
        zookeeper_auth=options[of.zookeeper_auth] if of.zookeeper_connect.name in given else None,
        zookeeper_connect=options[of.zookeeper_connect],
        bootstrap_servers=servers or (),
        broker_list=brokers or (),
    )
    options.check_generation(discovery.generation, given[0])
    parse_directories(options)  # refuses options of log directories without one
    return replace(discovery, expected_brokers=_parse_expected_brokers(options, discovery.broker_list))


def _parse_directories(options: RawOptions, name: str, others: list[str]) -> Discovery:
    if strangers := others or options.given(Discovery.expected, Discovery.zookeeper_auth, NetOptions.rack):
        raise OptionError(
            f"options {name} and {strangers[0]} are both set: a path is read without brokers; leave out one "
            "of the two"
        )
    discovery = Discovery(directories=parse_directories(options))
    options.check_generation(discovery.generation, name)
    return discovery


def _address_map(name: str, text: str) -> tuple[tuple[Address, Address], ...]:
    """Addresses that brokers advertise, and those to connect to."""
    try:
        result = json_object(text)
    except NotAnObject:
        raise bad_value(name, text, f"of the form {_MAP_EXAMPLE}, each address once") from None
    addresses = []
    for item in (item for pair in result.items() for item in pair):
        match = _HOST_AND_PORT.fullmatch(item.strip()) if isinstance(item, str) else None
        if not match or match[1] is None or not _is_port(match[1]) or not item.isprintable():
            raise bad_value(name, text, f"of the form {_MAP_EXAMPLE}")
        host = item.strip()[: -len(match[1]) - 1]
        addresses.append((host.strip("[]").lower(), int(match[1])))
    return tuple(zip(addresses[::2], addresses[1::2], strict=True))


def _ids(text: str) -> list[int]:
    """Different ids, as ``0,1,2``; none for other texts."""
    entries = [entry.strip() for entry in text.split(",")]
    ids = [int(entry) for entry in entries if re.fullmatch(r"0|[1-9][0-9]{0,8}", entry)]
    return ids if len(ids) == len(set(ids)) == len(entries) else []


def _parse_expected_brokers(options: RawOptions, broker_list: tuple[Broker, ...]) -> ExpectedBrokers | None:
    """``3``: a number; ``0,1,2``: ids."""
    text = options[Discovery.expected]
    if text is None:
        return None
    ids = _ids(text)
    if ids in ([], [0]):
        raise bad_value(
            Discovery.expected.name, text, "how many brokers there must be, or their ids, like 0,1,2"
        )
    expected = ids[0] if len(ids) == 1 else frozenset(ids)
    listed = {broker.id for broker in broker_list}
    if listed and expected not in (len(listed), listed):
        raise OptionError(
            f"option expectedBrokers: {quote(text)} and broker.list do not name the same brokers; "
            "correct one of them, or leave expectedBrokers out"
        )
    return expected


def _parse_list(name: str, text: str) -> list[str]:
    try:
        paths = json.loads(text)
    except ValueError:
        paths = None
    if not isinstance(paths, list) or not paths or not all(isinstance(item, str) for item in paths):
        raise bad_value(name, text, 'a list of paths in JSON, ["/b1","/b2"]')
    return paths


#: Most directories of one read.
_PATHS_COUNT_MAX: Final = 1000


@dataclass(frozen=True)
class Directories(Group, sides=BATCH_READ):
    """Log directories to read. ``broker_ids`` has an id for each path."""

    paths: tuple[str, ...]
    broker_ids: tuple[int, ...]
    generation: Generation
    settings: FileSystemOptions
    path = option("path", parse_string).means(
        "the argument of `load`: a broker's `log.dirs`, read without brokers"
    )
    path_list = option("paths", _parse_list).means(
        'the same of several brokers, `["/b1","/b2"]`; the argument of `load` may be such a list'
    )
    brokers = option("brokers", parse_string, generation=V07).means(
        "`0,1`: the ids of the brokers whose directories are read, in their order; else 0, 1, ..."
    )
    endpoint = option("fs.endpoint", parse_string).means(
        "`http://host:port`: the address of the object store that has the directories"
    )
    region = option("fs.region", parse_string).means("the region of that store")


def parse_directories(options: RawOptions) -> Directories | None:
    """The log directories of the options; None without a path. It looks into them, for their segments choose
    the generation. Raises ``OptionError`` (fatal)."""
    given = options.given(Directories.path, Directories.path_list)
    if not given:
        if strangers := options.given(Directories.brokers, Directories.endpoint, Directories.region):
            raise OptionError(
                f"option {strangers[0]} is for log directories, and no path is set: give a path to load()"
            )
        return None
    if len(given) > 1:
        raise OptionError("options path and paths are both set: set one of them")
    paths = _paths(options)
    from ..directories.files import FileSystemOptions

    settings = FileSystemOptions(options[Directories.endpoint], options[Directories.region])
    return Directories(paths, _broker_ids(options, len(paths)), _generation(paths, settings), settings)


def _paths(options: RawOptions) -> tuple[str, ...]:
    path = options[Directories.path]
    listed = options[Directories.path_list] if path is None else [path]
    result = tuple(item.strip().rstrip("/") or "/" for item in listed or ())
    if "/" in result or "" in result:
        raise OptionError(
            f"option {options.given(Directories.path, Directories.path_list)[0]}: {quote('/')} is not the "
            "path of logs; give one like /backup/kafka-logs"
        )
    if len(set(result)) != len(result):
        twice = next(item for item in result if result.count(item) > 1)
        raise OptionError(f"option paths: {quote(twice)} is there twice; remove one of them")
    if len(result) > _PATHS_COUNT_MAX:
        raise OptionError(
            f"option paths: {len(result)} paths, at most {_PATHS_COUNT_MAX} are read at once; read them in "
            "parts"
        )
    return result


def _broker_ids(options: RawOptions, count: int) -> tuple[int, ...]:
    text = options[Directories.brokers]
    if text is None:
        return tuple(range(count))
    ids = _ids(text)
    if len(ids) != count:
        raise bad_value(
            Directories.brokers.name, text, f"{count} different ids, one for each path, such as 0,1"
        )
    return tuple(ids)


def _generation(paths: tuple[str, ...], settings: FileSystemOptions) -> Generation:
    """The generation of the first log with segments in each directory."""
    from ..directories.scanning import generation_in, scan

    result: dict[Generation, str] = {}
    for path in paths:
        result.setdefault(generation_in(scan(path, settings)), path)
    if len(result) > 1:
        shown = " and ".join(f"those in {printable(path)} of {item.title}" for item, path in result.items())
        raise OptionError(f"option paths: logs are of two kinds, {shown}: read them one after the other")
    [generation] = result
    return generation


#: Most tries of one request. With the longest waits between them that takes three hours.
_RETRIES_MAX: Final = 1000


def _kafka_retries(name: str, given: str) -> int:
    """Kafka's producers try again without end, and are bounded by a deadline instead."""
    return min(count(0, INT32_MAX)(name, given), _RETRIES_MAX)


def _rack(name: str, given: str) -> ClientRack:
    text, (source, _, variable) = given.strip(), given.strip().partition(":")
    if source == "env" and re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", variable):
        return ClientRack(source, variable)
    if not text or not text.isprintable() or source == "env":
        raise bad_value(name, given, "the rack of the executors, env:NAME, aws or gcp")
    return ClientRack(text) if text in ("aws", "gcp") else ClientRack("text", text)


def _kafka_rack(_: str, given: str) -> ClientRack | None:
    """Java takes any text; the empty one is no rack."""
    return ClientRack("text", given.strip()) if given.strip() else None


@dataclass(frozen=True)
class NetOptions(Group):
    """Connections to brokers, and retries."""

    connection: ConnectionSettings
    wire_format = option(
        "wireFormat", map_words({"0.7": None, "proposal": WireFormat.PROPOSAL}), "0.7", generation=V07
    ).means(
        "`proposal`: messages have the format that was proposed for 0.8, for brokers that support it; "
        "see [The New Wire Format Proposal](kafka-0.7.md#the-new-wire-format-proposal)"
    )
    request_timeout = (
        option("requestTimeout", seconds(), "30s")
        .means("the deadline of each wait for a broker or for ZooKeeper")
        .also("kafka.request.timeout.ms")
    )
    broker_down_timeout = option("brokerDownTimeout", seconds(zero=True), "60s").means(
        "the time to wait for a broker that restarts, whatever `retries` is; `120s` for streams, `0s` if "
        "only `retries` is set"
    )
    bootstrap_timeout = option("bootstrapTimeout", seconds(), "20s").means(
        "the time to wait for the first answer of a cluster; bounded by `brokerDownTimeout` or `retries` "
        "if only these are set; in `writeStream` only if set"
    )
    retries = (
        option("retries", count(0, _RETRIES_MAX), "3")
        .means("the number of times that a failed request is tried again; a 0.7 write only connects again")
        .also("kafka.retries", _kafka_retries)
    )
    retry_backoff = (
        option("retryBackoff", seconds(), "100ms")
        .means("the wait before the first retry; it doubles, up to 10 s")
        .also("kafka.retry.backoff.ms")
    )
    client_id = option("kafka.client.id", parse_string, "spark-kafkawire", generation=MODERN).means(
        "the name of this client in the logs and quotas of brokers"
    )
    rack = (
        option("clientRack", _rack, generation=MODERN)
        .means(
            "the rack of each executor: `env:NAME` for an environment variable, `aws` or `gcp` for its zone "
            "there, or a text; see [Read from the nearest replica](tuning.md#read-from-the-nearest-replica)"
        )
        .also("kafka.client.rack", _kafka_rack)
    )
    asks_for_versions = option("kafka.api.version.request", flag, "true", generation=MODERN).means(
        "`false`: do not ask brokers for their versions; all have `kafka.broker.version.fallback`"
    )
    release = option("kafka.broker.version.fallback", parse_string, generation=MODERN).means(
        "the version of brokers that do not answer with one: `0.8`, `0.9`, or an exact version, `0.8.2.2`"
    )
    recovery = option(
        "kafka.metadata.recovery.strategy",
        map_words({"rebootstrap": True, "none": False}),
        "rebootstrap",
        generation=MODERN,
    ).means(
        "`none`: once brokers are known, `kafka.bootstrap.servers` are not asked again, and a cluster that "
        "has moved is an error"
    )
    recovery_trigger = option(
        "kafka.metadata.recovery.rebootstrap.trigger.ms", seconds(zero=True), "300000", generation=MODERN
    ).means(
        "the time without an answer about the cluster after which only `kafka.bootstrap.servers` are asked, "
        "and not known brokers before them"
    )
    address_map = option("brokerAddressMap", _address_map).means(
        '`{"kafka-0.svc:9092":"127.0.0.1:19092"}`: connect to other addresses than brokers advertise; see '
        "[Brokers behind a tunnel](platforms.md#brokers-behind-a-tunnel)"
    )
    include_headers = option("includeHeaders", flag, "false", generation=MODERN).means(
        "`true`: reads have a column `headers`; writes take that column in any case"
    )

    retry: RetryPolicy = RetryPolicy(retries.value, retry_backoff.value, broker_down_timeout.value)
    #: None if brokers are looked up among the known ones only.
    rebootstrap_after_s: float | None = recovery_trigger.value

    @property
    def request_timeout_s(self) -> float:
        """The deadline of each wait for a broker, seconds."""
        return self.connection.timeout_s

    @property
    def discovery_timeout_s(self) -> float:
        """Seconds that ZooKeeper may take for all requests, including a restart if it has answered before."""
        bound_s = self.retry.bootstrap.bound_s
        return max(self.request_timeout_s, self.retry.retry_timeout_s) if bound_s is None else bound_s

    @property
    def request_retry(self) -> RetryPolicy:
        """Retries of a request that only one broker can answer: a coordinator, a controller or a leader may
        move for at least the time of one request."""
        return self.retry.make_lasting(self.request_timeout_s)

    @property
    def delegates(self) -> bool:
        """True if tasks log in with delegation tokens, which the driver gets."""
        return self.connection.security.delegates

    def with_token(self, token: Sasl | None) -> NetOptions:
        """The same for tasks, which log in with a delegation token; see ``Security.with_token``."""
        security = self.connection.security.with_token(token)
        return replace(self, connection=replace(self.connection, security=security))

    @property
    def known(self) -> NetOptions:
        """The same for work on a cluster that has answered while the work was planned."""
        return replace(self, retry=self.retry.known)

    @property
    def patient(self) -> NetOptions:
        """The same without bootstrapTimeout: a failed first contact is logged early, and attempts stop after
        retries and brokerDownTimeout."""
        return replace(
            self, retry=replace(self.retry, bootstrap=replace(self.retry.bootstrap, timeout_s=None))
        )

    def adapt_to_brokers(self, minimum: MinimumVersions) -> NetOptions:
        """The same for brokers that have answered, and offer so much at least."""
        cluster_id = BROKER_VERSIONS.cluster_id(self.connection)
        connection = replace(self.connection, minimum_versions=minimum, cluster_id=cluster_id)
        return replace(self.known, connection=connection)


def parse_wire_format(options: RawOptions, contradictions: Mapping[Option[Any], str]) -> WireFormat | None:
    """The format of messages; None is the generation's own format. Raises ``OptionError`` (fatal) for options
    that contradict the proposal; ``contradictions`` says why."""
    wire_format = options[NetOptions.wire_format]
    given = [option for option in contradictions if options.given(option)]
    if wire_format is WireFormat.PROPOSAL and given:
        raise OptionError(
            f"option {given[0]} cannot be combined with wireFormat=proposal: {contradictions[given[0]]}; "
            "leave out one of the two"
        )
    return wire_format


def parse_net(options: RawOptions, discovery: Discovery) -> NetOptions:
    """Read the options of connections to brokers. Raises ``OptionError`` (fatal)."""
    of = NetOptions
    address_map = options[of.address_map]
    connection = ConnectionSettings(
        discovery.generation,
        options[of.request_timeout],
        options[of.client_id],
        _security(options),
        bootstrap_servers=discovery.bootstrap_servers,
        assumed_release=_parse_release(options),
        address_map=address_map or (),
    )
    if connection.assumed_release is not None and connection.security.sasl is not None:
        raise OptionError(
            f"option {of.release}: brokers of {connection.assumed_release} support no login but Kerberos, "
            f"and a login to them is not supported; leave {of.asks_for_versions} out where they take "
            "kafka.sasl.mechanism"
        )
    # A user who sets a time or a number of attempts means the first contact, too.
    is_bounded = options.given(of.broker_down_timeout, of.retries) and not options.given(of.bootstrap_timeout)
    bootstrap = Bootstrap(discovery.place, None if is_bounded else options[of.bootstrap_timeout])
    # A user who sets only the number of retries means it.
    is_counted = options.given(of.retries) and not options.given(of.broker_down_timeout)
    retries, backoff_s = options[of.retries], options[of.retry_backoff]
    retry_timeout_s = 0.0 if is_counted else options[of.broker_down_timeout]
    retry = RetryPolicy(retries, backoff_s, retry_timeout_s, bootstrap)
    trigger_s = options[of.recovery_trigger]
    return of(connection, retry, trigger_s if options[of.recovery] else None)


def _security(options: RawOptions) -> Security:
    """The encryption and the login. The modules that read them are imported only for them."""
    with_tls, with_sasl = parse_layers(options)
    if not with_tls and not with_sasl:
        return PLAINTEXT
    from .credentials import sasl_of
    from .tls import tls_of

    return Security(
        tls_of(options) if with_tls else None,
        sasl_of(options) if with_sasl else None,
        options[Layers.delegates],
    )


def _parse_release(options: RawOptions) -> str | None:
    """``0.8`` or ``0.9`` if the user says so, in the words of librdkafka; None if brokers are asked.

    Unlike in librdkafka, the release alone has no effect: a failed request is no proof of an older broker.
    """
    of = NetOptions
    asks, text = options[of.asks_for_versions], options[of.release]
    match = re.fullmatch(r"(0\.[89])(?:\.[0-9]{1,3}){0,2}", (text or "").strip())
    if text is not None and not match:
        allowed = "0.8 or 0.9, with or without more numbers: brokers from 0.10 on tell their versions"
        raise bad_value(of.release.name, text, allowed)
    if match and not asks:
        return match[1]
    if not asks:
        raise OptionError(
            f"option {of.asks_for_versions}: false needs {of.release}, 0.8 or 0.9: later brokers are asked"
        )
    if match:
        LOG.warning(
            "option %s has no effect unless %s=false, because brokers report their versions themselves",
            *(of.release, of.asks_for_versions),
        )
    return None
