"""Check of the options of a job, step by step, without Spark.

Options may come from code of Spark. Those of Spark's own connector are shown as ours. A step does what a
read does there. It finds where a read fails; the text of the failure is that of the read.

    options ─► names ─► tcp ─► tls ─► versions ─► login ─► listeners ─► topics ─► leaders ─► offsets ─► …
                         └──► zookeeper (0.7) ──────────────┘
"""

from __future__ import annotations

import ast
import json
import math
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa

from ..clients.reading.fetcher import read_range
from ..clients.reading.task import FetchTask
from ..cluster import Cluster, cluster_of
from ..cluster.asking import side_by_side
from ..errors import (
    AuthenticationError,
    KafkaWireError,
    OptionError,
    RegistryError,
    TransportError,
    UnknownSchemaError,
    counted,
    list_some,
    one_line,
    printable,
)
from ..model import Broker, Generation, TopicPartition
from ..net.client import Client
from ..net.retry import RetryPolicy
from ..net.transport import Deadline, Transport, addresses
from ..options import ReadOptions, WriteOptions
from ..options.option import is_kafka_property, pass_over
from ..options.read import read_options_of
from ..options.table import OPTIONS, STREAM_OPTIONS, find_why_ignored, keep_secrets, reading_options
from ..planner.batch import plan, select
from ..planner.schemas import fix_schemas
from ..protocol.modern.error_codes import ErrorCode
from ..protocol.modern.fetch import FETCH
from ..secrecy import HIDDEN, without_secrets
from .arguments import arg, connection_args, flag, topic_args
from .files import read_file
from .progress import Progress

T = TypeVar("T")

#: A step that takes longer is slow, seconds.
_SLOW_S: Final = 1.0
#: The clocks of two machines may differ by so much, seconds.
_SKEW_S: Final = 5.0
#: Seconds of a day, and the days before its end in which a certificate is worth a warning.
_DAY_S: Final = 86_400
_EXPIRY_DAYS: Final = 14
#: Names that a text lists, and topics of which a record is read.
_LISTED_MAX: Final = 3
_READ_MAX: Final = 20
#: What retries add to the error of the last attempt: a read makes others.
_ATTEMPTS: Final = re.compile(r"gave up after [0-9]+ attempts? in [0-9.]+ s \([\w, ]+\): ")
_SELECTION: Final = frozenset(("subscribe", "subscribepattern", "assign", "path", "paths"))
_NO_RIGHT: Final = frozenset(name for name in ErrorCode if name.name.endswith("_AUTHORIZATION_FAILED"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """Options of a run. ``code`` is a file with code of Spark; ``connection`` beats its options."""

    selection: Mapping[str, str] = topic_args("check", group="checks", default="those of the options")
    code: Path | None = arg("--code", "a file with Spark code that has the options; - is stdin", Path)
    from_spark: bool = flag("--from-spark", 'print the options of format("kafka") as ours; check nothing')
    connection: Mapping[str, str] = connection_args(typed=True)

    def raw(self) -> dict[str, str]:
        """The options of the job. Raises ``OptionError`` (fatal)."""
        given = {**self.connection, **self.selection}
        if self.code is None:
            return given
        file = Path("/dev/stdin") if str(self.code) == "-" else self.code
        names = {name.lower() for name in given} | (_SELECTION if self.selection else set())
        return {**options_in(read_file(file, "--code"), names), **given}


#: A text, and any value, in code of Spark, in Python or Scala.
_TEXT: Final = r'"""(?:[^"\\]|\\.|"(?!""))*"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''
_VALUE: Final = rf"{_TEXT}|[^\s,()\[\]{{}}]+(?:[(\[][^()\[\]]*[)\]])?"
#: A comment; an option; a pair of a dictionary or a Map; an argument with a name; another text.
_TOKEN: Final = re.compile(
    rf"(?:#|//)[^\n]*|\.\s*option\(\s*(?P<a>{_TEXT})\s*,\s*(?P<av>{_VALUE})|(?P<b>{_TEXT})\s*(?::|->)\s*"
    rf"(?P<bv>{_VALUE})|(?<=[(,\s])(?P<c>\w+)\s*=\s*(?P<cv>{_VALUE})(?=\s*[,)])|{_TEXT}",
    re.DOTALL,
)
_CHAIN: Final = re.compile(r"\.\s*(?:readStream|read|writeStream|write)\b")
_FORMAT: Final = re.compile(r"""format\(\s*["']kafka(?:wire)?["']""")
#: Options of the query, and of other sources.
_OF_SPARK: Final = frozenset(("checkpointlocation", "queryname"))


def options_in(code: str, given: Collection[str] = ()) -> dict[str, str]:
    """The options of the first Kafka source or sink of the code, of all of it if it names no format; without
    those that are ``given``, by their names in lower case.

    Raises ``OptionError`` (fatal) for a value that is no text.
    """
    chains = [chain for chain in _CHAIN.split(code) if _FORMAT.search(chain)]
    result: dict[str, str] = {}
    for match in _TOKEN.finditer(chains[0] if chains else code):
        if (group := match.lastgroup) is None:
            continue
        name, value = _literal(match[group[0]]) or match[group[0]], _literal(match[group])
        if name.lower() in given or name.lower() in _OF_SPARK:
            continue
        if value is None:
            raise OptionError(
                f"argument --code: the value of {printable(name)} is no text in the code; give it with "
                f"--option {printable(name)}=VALUE"
            )
        result[name] = value
    if not result:
        raise OptionError("argument --code: there is no option of Kafka in the code; paste .option(...) too")
    keep_secrets(result)
    return result


def _literal(literal: str) -> str | None:
    if literal.lower() in ("true", "false") or literal.isdecimal():
        return literal.lower()
    if literal[:1] not in ("'", '"'):
        return None
    try:
        return str(ast.literal_eval(literal))
    except (ValueError, SyntaxError):
        return None


#: What differs without an error, by the option in lower case.
_DIFFERENCES: Final = {
    "minpartitions": "also splits a partition that holds most of the data",
    "maxrecordsperpartition": "is used by each batch read, whatever minPartitions is",
    "subscribepattern": "takes what patterns of topic names need; anything else is an error",
    "failondataloss": "false: a stream keeps its place where the end of a partition falls",
    "kafka.max.request.size": "bounds all of a request; a record may have as much",
    "maxoffsetspertrigger": "needs Spark 4.2, or queryTrigger=processingTime; 0 or less is an error",
    "minoffsetspertrigger": "needs Spark 4.2, or queryTrigger=processingTime; 0 or less is an error",
    "topic": 'a batch write needs .mode("append")',
}


def as_ours(raw: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Options of ``format("kafka")`` as those of ``format("kafkawire")``, without secrets, and what differs,
    by names."""
    known = {option.name.lower(): option for option in (*OPTIONS, *STREAM_OPTIONS)}
    keep_secrets(raw)
    is_read, names = "topic" not in raw, [option.name for option in known.values()]
    ours: dict[str, str] = {}
    remarks: dict[str, str] = {}
    for name, value in raw.items():
        option = known.get(name.lower())
        if option is not None:
            ours[option.name] = HIDDEN if option.secrets and "${" not in value else without_secrets(value)
            if (difference := _DIFFERENCES.get(name.lower())) is not None:
                remarks[option.name] = difference
        elif is_kafka_property(name):
            try:
                pass_over(name, read=is_read)
                remarks[name] = "has no effect and is left out"
            except OptionError as error:
                remarks[name] = str(error)
        elif (ignored := find_why_ignored(name, names, is_read, stream=False)) is not None:
            remarks[name] = f"{ignored[1]}; left out"
        else:
            remarks[name] = "is unknown, which is an error; left out"
    return ours, remarks


class _Doubt(str):
    """A text about a step that passes, and that may be a reason for later failures."""


class Examination:
    """The steps so far: name, status (``ok``, ``slow``, ``warning`` or ``failed``), seconds, and a text.
    ``failure`` is the first one that failed, with its error."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.failure: tuple[str, KafkaWireError] | None = None

    def step(self, name: str, look: Callable[[], tuple[T, str]]) -> T | None:
        """Take a step; its result, None if it failed."""
        began_s, result, status = time.monotonic(), None, "ok"
        try:
            result, text = look()
        except KafkaWireError as error:
            name, status = _step_of(name, error), "failed"
            text = _ATTEMPTS.sub("", str(error))
            self.failure = self.failure or (name, type(error)(text))
        seconds = round(time.monotonic() - began_s, 3)
        if status == "ok" and (seconds > _SLOW_S or isinstance(text, _Doubt)):
            status = "warning" if isinstance(text, _Doubt) else "slow"
        self.steps.append({"name": name, "status": status, "seconds": seconds, "text": one_line(text)})
        return result


def _step_of(name: str, error: KafkaWireError) -> str:
    """The step that an error belongs to."""
    if getattr(error, "code", None) in _NO_RIGHT:
        return "access"
    if name == "registry" and isinstance(error, (RegistryError, OptionError)):
        return "schema"
    # With TLS 1.3 a broker refuses a certificate after the handshake.
    return "tls" if name == "versions" and isinstance(error, AuthenticationError) else name


def _passing(
    servers: Iterable[Broker], look: Callable[[Broker], str], read: Callable[[], object], needs_all: bool
) -> tuple[list[Broker], str]:
    """The servers that pass. Raises the error of a read if none does; if it ``needs_all``, also if it fails
    for such a reason."""

    def tried(server: Broker) -> str | KafkaWireError:
        try:
            return look(server)
        except KafkaWireError as error:
            return error if str(server) in str(error) else error.locate(str(server))

    result = side_by_side(servers, tried)
    passed = [server for server, outcome in result.items() if isinstance(outcome, str)]
    errors = [outcome for outcome in result.values() if isinstance(outcome, KafkaWireError)]
    if not errors:
        texts = list(dict.fromkeys(item for item in result.values() if isinstance(item, str)))
        kind = _Doubt if any(isinstance(item, _Doubt) for item in texts) else str
        return passed, kind(list_some(texts, _LISTED_MAX))
    if needs_all or not passed:
        try:
            read()
        except KafkaWireError as error:
            if not needs_all or isinstance(error, (TransportError, AuthenticationError)):
                raise
    if not passed:
        raise errors[0]
    return passed, _Doubt(errors[0])


def examined(raw: Mapping[str, str]) -> Examination:
    """Check the options of a job. Steps that need one that failed are left out."""
    result = Examination()
    read = result.step("options", lambda: _parsed(raw))
    if read is None:
        return result
    cluster = cluster_of(read)
    is_connected = read.discovery.directories is not None or _connected(result, read, cluster)
    names = {name.lower() for name in raw}
    if is_connected and names & {*_SELECTION, "topic"}:
        _read(result, read, cluster)
    if read.typed:  # in any case
        result.step("registry", partial(_schemas, read, "topic" in names and not names & _SELECTION))
    return result


def _schemas(read: ReadOptions, is_write: bool) -> tuple[bool, str]:
    try:
        return True, f"{counted(len(fix_schemas(read)), 'schema')} found"
    except UnknownSchemaError as error:
        if is_write:  # which may register it
            return True, _Doubt(error)
        raise


def _parsed(raw: Mapping[str, str]) -> tuple[ReadOptions, str]:
    names = {name.lower(): name for name in raw}
    if not names.keys() & _SELECTION:
        chosen = {"subscribePattern": ".*"}
        if "topic" in names:
            WriteOptions.parse(raw)
            chosen = {"subscribe": raw[names["topic"]]}
        raw = {**reading_options(raw), **chosen}
    read = read_options_of(raw)
    if (tls := read.net.connection.security.tls) is not None:
        from ..net.tls import context

        context(tls)
    bootstrap, net = read.net.retry.bootstrap, read.net
    # Without retries.
    retry = RetryPolicy(0, net.retry.backoff_s, 0.0, replace(bootstrap, timeout_s=None))
    timeout_s = min(net.request_timeout_s, bootstrap.timeout_s or math.inf)
    net = replace(net, retry=retry, connection=replace(net.connection, timeout_s=timeout_s))
    return replace(read, net=net, planning_retry=retry), read.discovery.place


def _connected(result: Examination, read: ReadOptions, cluster: Cluster) -> bool:
    """Take the steps up to the brokers' own addresses. True if a read gets there."""
    settings, discovery = read.net.connection, read.discovery
    is_modern = discovery.generation is Generation.MODERN
    tls, sasl = settings.security.tls, settings.security.sasl

    def deadline() -> Deadline:
        return Deadline.after(settings.timeout_s)

    def target(server: Broker) -> Broker:
        # The map is of brokers.
        return server if discovery.zookeeper_connect is not None else settings.target(server)

    def named(server: Broker) -> str:
        host = target(server)
        return f"{host.host} is {addresses(host, deadline())[0][4][0]}"

    def dialed(server: Broker) -> str:
        Transport.connect(target(server), deadline()).close()
        return f"{server.host}:{server.port}"

    def certified(server: Broker) -> str:
        from ..net.tls import TlsTransport

        assert tls is not None
        transport = TlsTransport.over(
            Transport.connect(target(server), deadline()), tls, server.host, deadline()
        )
        version, end_s = transport.peer
        transport.close()
        days = int((end_s - time.time()) / _DAY_S)
        text = f"{version}, and the certificate of {server.host} is good for {counted(days, 'day')}"
        return _Doubt(f"{text}: renew it") if days < _EXPIRY_DAYS else text

    def versions(server: Broker) -> str:
        plain = replace(settings, security=replace(settings.security, sasl=None))
        with Client.connect(server, plain) as client:
            return f"Fetch up to version {client.version_of(FETCH)}"

    def joined(server: Broker) -> str:
        Client.connect(server, settings).close()
        return f"broker {server.id} is {server.host}:{server.port}"

    servers: Sequence[Broker] = (*discovery.bootstrap_servers, *discovery.broker_list)
    if discovery.zookeeper_connect is not None:
        from ..cluster.v07.zookeeper_client import servers_of

        servers = servers_of(discovery)
    looks = [("names", named), ("tcp", dialed)]
    looks += [("tls", certified)] * (tls is not None) + [("versions", versions)] * is_modern
    for name, look in looks:
        servers = result.step(name, partial(_passing, servers, look, cluster.brokers, False)) or ()
        if not servers:
            return False
    if not discovery.broker_list:
        login = "login", "none is required" if sasl is None else sasl.mechanism
        name, text = login if is_modern else ("zookeeper", "brokers are registered")
        servers = result.step(name, lambda: (cluster.brokers(), text)) or ()
    reach = partial(_passing, servers, joined, lambda: plan(read), True)
    return bool(servers and result.step("listeners", reach))


def _read(result: Examination, read: ReadOptions, cluster: Cluster) -> None:
    """Take the steps of a read of the topics."""

    def topics() -> tuple[Sequence[TopicPartition], str]:
        partitions = select(read.selection, cluster, may_be_empty=True)
        names = list_some(sorted({tp.topic for tp in partitions}), _LISTED_MAX)
        return partitions, f"{names}: {counted(len(partitions), 'partition')}"

    def planned() -> tuple[Sequence[FetchTask], str]:
        tasks, unit = plan(read), read.discovery.generation.offset_unit.value
        return tasks, f"a read has {sum(task.range.size for task in tasks):,} {unit}"

    partitions = result.step("topics", topics)
    if not partitions:
        return
    leaders = result.step("leaders", lambda: (cluster.leaders_of(partitions), "each partition has one"))
    if (group := read.group_id) is not None:
        result.step("group", lambda: (cluster.groups.offsets(group, partitions), printable(group)))
    tasks = result.step("offsets", planned) if leaders else None
    if not tasks:
        return

    def first() -> tuple[bool, str]:
        # The right to read is one of a topic.
        chosen = list({task.range.topic_partition.topic: task for task in tasks}.values())[:_READ_MAX]
        for task in chosen:
            next(read_range(task, read.of_tasks, pa.schema([("value", pa.binary())])), None)
        return True, f"of {counted(len(chosen), 'topic')}"

    def clocks() -> tuple[bool, str]:
        times = [item.max_ms or 0 for item in cluster.record_times(partitions).values()]
        ahead_s = max(times) / 1000 - time.time()
        if ahead_s > _SKEW_S:
            return True, _Doubt(f"the newest record is {ahead_s:.0f} s ahead of this machine: set the clocks")
        return True, "no record is ahead of this machine"

    if result.step("records", first):
        result.step("clock", clocks)


def run_doctor(options: DoctorOptions, progress: Progress, as_json: bool) -> dict[str, Any]:
    """Print the steps, or return them as the summary ``as_json``. Raises the error of the first step that
    failed, after all steps are printed."""
    raw = options.raw()
    if options.from_spark:
        ours, remarks = as_ours(raw)
        if as_json:
            return {"options": ours, "differences": remarks}
        for name, text in ours.items():
            print(f".option({json.dumps(name)}, {json.dumps(text)})")
        for name, text in remarks.items():
            print(one_line(f"# {name}: {text}"))
        return {}
    progress.step("checking the options of the job")
    result = examined(raw)
    verdict = f"{result.failure[0]} failed" if result.failure else "a job with these options works"
    summary = {"verdict": verdict, "steps": result.steps}
    if not as_json:
        for step in result.steps:
            print("{name:<9}  {status:<7}  {seconds:6.3f} s  {text}".format(**step))
        print(f"verdict    {verdict}")
    elif result.failure:
        print(json.dumps(summary))
    if result.failure:
        raise result.failure[1].locate(verdict)
    return summary if as_json else {}
