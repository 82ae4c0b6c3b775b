"""``kafkawire doctor``: broken set-ups of real servers, each named by its step, with the error of a read."""

from __future__ import annotations

import json
import re
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from spark_kafkawire import encode_message_set
from spark_kafkawire.broker import EmbeddedCluster, ZooKeeperServer
from spark_kafkawire.clients.reading.fetcher import read_range
from spark_kafkawire.commands.doctor import JOB
from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.jobs.doctor import Examination, examined
from spark_kafkawire.jobs.ending import ExitCode
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.planner.batch import plan
from spark_kafkawire.planner.schemas import fix_schemas
from spark_kafkawire.protocol.modern import fetch, group_offsets, metadata
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from tests.net.login_broker import USER, login_broker, plain
from tests.net.peers import Peer, Script, closed_port, server_of, serving, stalling
from tests.records.batches import batch, record
from tests.support.cases import forget_all
from tests.support.certificates import Certificates
from tests.support.embedded import SharingCluster, wait_registered
from tests.support.embedded import produce as produce_07
from tests.support.fake_registry import FakeRegistry
from tests.support.foreign import Record
from tests.support.java_stores import FOLDER as STORES
from tests.support.librdkafka import produce
from tests.support.log_server import HOST, LogServer
from tests.support.memory_log import MemoryLog
from tests.support.mock_cluster import NO_LEADER, MockCluster
from tests.support.noida import NoidaBroker

Options = dict[str, str]
#: Starts the servers of a set-up. Returns the options of a job.
Setup = Callable[[ExitStack, Certificates], Options]
HTTP: Final = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
#: Short waits, and no retries: the doctor makes none.
QUICK: Final = {"requestTimeout": "1s", "retries": "0", "subscribe": "t"}


def at(address: str, **more: str) -> Options:
    options = {f"kafka.{name.replace('__', '.')}": text for name, text in more.items()}
    return {"kafka.bootstrap.servers": address, **QUICK, **options}


def listening(stack: ExitStack, script: Script, host: str = HOST) -> str:
    return f"{host}:{stack.enter_context(Peer(script)).broker.port}"


def http(connection: socket.socket) -> None:
    connection.recv(1 << 16)
    connection.sendall(HTTP)


def tls(pem: str, trusted: str = "authority", host: str = "localhost") -> Setup:
    def setup(stack: ExitStack, certificates: Certificates) -> Options:
        address = listening(stack, serving(server_of(getattr(certificates, pem)), login_broker()), host)
        location = str(getattr(certificates, trusted))
        return at(address, security__protocol="SSL", ssl__truststore__location=location)

    return setup


def demanding(stack: ExitStack, certificates: Certificates) -> Options:
    """A listener that wants a certificate of its clients."""
    server = server_of(certificates.server)
    server.verify_mode, trusted = ssl.CERT_REQUIRED, str(certificates.authority)
    server.load_verify_locations(trusted)
    address = listening(stack, serving(server, login_broker()), "localhost")
    return at(address, security__protocol="SSL", ssl__truststore__location=trusted)


def login(jaas: str, mechanism: str = "PLAIN") -> Setup:
    kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    text = f"org.apache.kafka.common.security.{kind}LoginModule required {jaas};"
    more = {"security__protocol": "SASL_PLAINTEXT", "sasl__mechanism": mechanism, "sasl__jaas__config": text}
    return lambda stack, _: at(listening(stack, login_broker({"PLAIN": plain})), **more)


def logs(stack: ExitStack, kind: type[Any] | None = None, **change: Any) -> Options:
    """A broker with a record, which changes its answers to a request."""
    server = stack.enter_context(LogServer({"t": [MemoryLog(batch([record(0, b"v")]))]}))
    if kind is not None:
        server.broker.alter(kind, lambda result, *_: replace(result, **change))
    return at(server.bootstrap_servers)


def changed(kind: type[Any], **change: Any) -> Setup:
    return lambda stack, _: {**logs(stack, kind, **change), "kafka.group.id": "g"}


def unread(stack: ExitStack, _: Certificates) -> Options:
    """A user who may describe the topic and not read it."""
    server = stack.enter_context(LogServer({"t": [MemoryLog(batch([record(0, b"v")]))]}))

    def refused(found: Any, *_: Any) -> Any:
        topics = [
            replace(topic, partitions=tuple(replace(item, error_code=29) for item in topic.partitions))
            for topic in found.responses
        ]
        return replace(found, responses=tuple(topics))

    server.broker.alter(fetch.FetchRequest, refused)
    return at(server.bootstrap_servers)


def unknown_group(stack: ExitStack, _: Certificates) -> Options:
    server = stack.enter_context(LogServer({"t": [MemoryLog(batch([record(0, b"v")]))]}))

    def refused(found: Any, *_: Any) -> Any:
        coordinators = tuple(replace(item, error_code=30) for item in found.coordinators)
        return replace(found, error_code=0, coordinators=coordinators)

    server.broker.alter(group_offsets.FindCoordinatorRequest, refused)
    return {**at(server.bootstrap_servers), "kafka.group.id": "g", "startingOffsets": "committed"}


def typed(stack: ExitStack, *, is_there: bool = True, user: str = "u:right") -> Options:
    registry = FakeRegistry(users={"u": "right"})
    if is_there:
        stack.enter_context(registry)
    else:
        registry._server.server_close()
    login = {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": user}
    return {**logs(stack), "valueFormat": "avro", "schema.registry.url": registry.url, **login}


def without_leader(stack: ExitStack, _: Certificates) -> Options:
    cluster = stack.enter_context(MockCluster(brokers=1))
    cluster.create_topic("t")
    cluster.set_leader("t", 0, NO_LEADER)
    return at(cluster.bootstrap_servers)


def v07(stack: ExitStack) -> EmbeddedCluster:
    return stack.enter_context(EmbeddedCluster(brokers=1, partitions=1, zookeeper=False))


NO_RIGHT: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NOWHERE: Final = (metadata.MetadataBroker(node_id=0, host=HOST, port=closed_port().port),)
STORE: Final = {"security__protocol": "SSL", "ssl__keystore__location": str(STORES / "client.p12")}
#: Set-ups by what is wrong, with the step that fails.
SETUPS: Final[dict[str, tuple[str, Setup]]] = {
    "unresolvable name": ("names", lambda *_: at("no-such-host.invalid:9092")),
    "wrong port": ("tcp", lambda *_: at(f"{HOST}:{closed_port().port}")),
    "TLS on a plain port": ("tls", lambda stack, _: {**logs(stack), "kafka.security.protocol": "SSL"}),
    "expired certificate": ("tls", tls("expired")),
    "wrong authority": ("tls", tls("server", "other_authority")),
    "wrong host name": ("tls", tls("server", host=HOST)),
    "no client certificate": ("tls", demanding),
    "plain on a TLS port": (
        "versions",
        lambda stack, files: at(listening(stack, serving(server_of(files.server), login_broker()))),
    ),
    "silent port": ("versions", lambda stack, _: at(listening(stack, stalling()))),
    "HTTP server": ("versions", lambda stack, _: at(listening(stack, http))),
    "Kafka 0.7 taken for later": ("versions", lambda stack, _: at(f"{HOST}:{v07(stack).brokers[0].port}")),
    "wrong password": ("login", login(f'username="{USER}" password="wrong"')),
    "unknown mechanism": ("login", login('username="u" password="p"', "SCRAM-SHA-512")),
    "no login": ("login", lambda stack, _: at(listening(stack, login_broker()))),
    "password missing": ("options", login('username="u"')),
    "wrong password of the key store": (
        "options",
        lambda *_: at(f"{HOST}:1", **STORE, ssl__keystore__password="wrong"),
    ),
    "unknown option": ("options", lambda *_: {**at(f"{HOST}:1"), "fetchBtyes": "1"}),
    "listener that leads nowhere": ("listeners", changed(metadata.MetadataRequest, brokers=NOWHERE)),
    "unknown topic": ("topics", lambda stack, _: {**logs(stack), "subscribe": "other"}),
    "topic without leader": ("leaders", without_leader),
    "no right to the topic": ("access", changed(metadata.MetadataTopic, error_code=NO_RIGHT)),
    "no right to read": ("access", unread),
    "no right to the group": ("access", unknown_group),
    "offset that is gone": ("offsets", lambda s, _: {**logs(s), "startingOffsets": '{"t":{"0":7}}'}),
    "registry with another login": ("registry", lambda stack, _: typed(stack, user="u:wrong")),
    "registry down": ("registry", lambda stack, _: typed(stack, is_there=False)),
    "no subject": ("schema", lambda stack, _: typed(stack)),
}


def of_read(options: Options) -> str:
    """The error of a read: on the driver, then in a task."""
    forget_all()
    try:
        read = ReadOptions.parse(options)
        fix_schemas(read)
        for task in plan(read):
            schema = pa.schema([("value", pa.binary())])
            list(read_range(task, read.of_tasks, schema))
    except KafkaWireError as error:
        return str(error)
    raise AssertionError("the read does not fail")


def without_attempts(text: str) -> str:
    return re.sub(r"gave up after .*? in [0-9.]+ s \([\w, ]+\): ", "", text)


def failed_step(found: Examination) -> tuple[str, str]:
    step, *_ = [step for step in found.steps if step["status"] == "failed"]
    return step["name"], step["text"]


def test_a_broken_set_up_is_named_by_its_step_with_the_error_of_a_read(
    certificates: Certificates, subtests: pytest.Subtests
) -> None:
    for what, (name, setup) in SETUPS.items():
        with subtests.test(what), ExitStack() as stack:
            options = setup(stack, certificates)
            result, text = failed_step(examined(options))
            assert (result, without_attempts(text)) == (name, without_attempts(of_read(options)))
        forget_all()


@pytest.mark.jvm
def test_what_is_wrong_about_zookeeper_is_named(
    zookeeper: ZooKeeperServer, subtests: pytest.Subtests, tmp_path: Path
) -> None:
    with SharingCluster(zookeeper, [tmp_path]) as cluster, NoidaBroker() as modern:
        connect = cluster.zookeeper_connect
        produce_07(cluster, "t", encode_message_set([b"v"]))
        wait_registered(cluster, "t")
        wrong = {
            f"{HOST}:{closed_port().port}": "tcp",
            f"{connect}/no-such-chroot": "zookeeper",
            modern.bootstrap_servers: "zookeeper",
        }
        for address, name in wrong.items():
            with subtests.test(address):
                options = {"zookeeper.connect": address, **QUICK, "bootstrapTimeout": "1s"}
                result, text = failed_step(examined(options))
                assert result == name
                assert without_attempts(text) == without_attempts(of_read(options))
        good = examined({"zookeeper.connect": connect, **QUICK})
        assert good.failure is None
        assert [step["name"] for step in good.steps][-6:] == [
            *("listeners", "topics", "leaders", "offsets", "records", "clock")
        ]
    with subtests.test("without brokers"):
        options = {"zookeeper.connect": connect, **QUICK, "brokerDownTimeout": "0s"}
        result, text = failed_step(examined(options))
        assert (result, "no Kafka broker is alive" in text) == ("zookeeper", True)


def test_a_job_that_works_is_said_to(noida: NoidaBroker, capsys: pytest.CaptureFixture[str]) -> None:
    topic = noida.create_topic(partitions=2)
    ahead_ms = int(1000 * (time.time() + 600))
    produce(noida.bootstrap_servers, topic, [Record(b"v", timestamp_ms=ahead_ms)])
    servers = f"kafka.bootstrap.servers={noida.bootstrap_servers},{HOST}:{closed_port().port}"
    argv = [f"--option={servers}", "--quiet"]
    group = "--option=kafka.group.id=g"
    assert JOB.main([*argv, group, "--topic", topic, "--json"]) == ExitCode.DONE
    result = json.loads(capsys.readouterr().out)
    status = {step["name"]: step["status"] for step in result["steps"]}
    assert list(status) == [
        *("options", "names", "tcp", "versions", "login", "listeners", "topics", "leaders"),
        *("group", "offsets", "records", "clock"),
    ]
    assert {name for name, item in status.items() if item == "warning"} == {"tcp", "clock"}
    mapped = f'{{"kafka-0.invalid:9092":"{noida.bootstrap_servers}"}}'
    options = {"kafka.bootstrap.servers": "kafka-0.invalid:9092", "brokerAddressMap": mapped, **QUICK}
    assert examined({**options, "subscribe": topic}).failure is None
    for write in ({"topic": topic}, {}):
        more = [f"--option={name}={text}" for name, text in write.items()]
        assert JOB.main([*argv, *more]) == ExitCode.DONE
        out, err = capsys.readouterr()
        assert out.splitlines()[-1].split(maxsplit=1) == ["verdict", "a job with these options works"]
        assert (topic in out, err) == (bool(write), "")
    assert JOB.main([*argv, "--topic", "other"]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert err == "doctor: topics failed: no broker holds the topic other; create it, or correct its name\n"
    assert out.splitlines()[-1].split(maxsplit=1) == ["verdict", "topics failed"]
    assert JOB.main([*argv, "--topic", "other", "--json"]) == ExitCode.USAGE
    assert json.loads(capsys.readouterr().out)["verdict"] == "topics failed"


def test_a_certificate_that_ends_soon_and_a_schema_to_register_are_warnings(
    certificates: Certificates,
) -> None:
    with ExitStack() as stack:
        steps = {step["name"]: step for step in examined(tls("server")(stack, certificates)).steps}
        assert (steps["tls"]["status"], "for 1 day: renew it" in steps["tls"]["text"]) == ("warning", True)
        write = {name: text for name, text in typed(stack).items() if name != "subscribe"}
        schema = examined({**write, "topic": "t"}).steps[-1]
        assert (schema["name"], schema["status"]) == ("registry", "warning")


CODE: Final = r'''
old = spark.read.format("parquet").option("mergeSchema", "true").load("/data")
rows = (
    spark.readStream.format("kafka")  # the "kafka.client.id": "of a comment"
    .option("kafka.bootstrap.servers", "SERVERS")
    .option('startingOffsets', '{"t":{"0":5}}').option("failOnDataLoss", False)
    .options(**{"kafka.security.protocol": "SASL_PLAINTEXT", 'subscribe': "t"})
    .options(includeHeaders="true", minPartitions=4).option("kafka.sasl.mechanism", "PLAIN")
    .option("kafka.sasl.jaas.config", """JAAS required username="u" password="hunter22";""")
    .option("kafka.fetch.min.bytes.odd", "1").option("group.id", "g")
    .option("checkpointLocation", "/c").load()
)
rows.writeStream.format("kafka").option("topic", "other")
'''


def test_options_come_from_code_of_spark(
    noida: NoidaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = noida.create_topic(partitions=1)
    code = CODE.replace("JAAS", "org.apache.kafka.common.security.plain.PlainLoginModule")
    (tmp_path / "job.py").write_text(code.replace("SERVERS", noida.bootstrap_servers))
    argv = [f"--code={tmp_path / 'job.py'}", "--quiet"]
    assert JOB.main([*argv, "--from-spark"]) == ExitCode.DONE
    lines, _ = capsys.readouterr()
    assert lines.splitlines() == [
        f'.option("kafka.bootstrap.servers", "{noida.bootstrap_servers}")',
        r'.option("startingOffsets", "{\"t\":{\"0\":5}}")',
        '.option("failOnDataLoss", "false")',
        '.option("kafka.security.protocol", "SASL_PLAINTEXT")',
        '.option("subscribe", "t")',
        '.option("includeHeaders", "true")',
        '.option("minPartitions", "4")',
        '.option("kafka.sasl.mechanism", "PLAIN")',
        '.option("kafka.sasl.jaas.config", "[hidden]")',
        "# failOnDataLoss: false: a stream keeps its place where the end of a partition falls",
        "# minPartitions: also splits a partition that holds most of the data",
        "# kafka.fetch.min.bytes.odd: has no effect and is left out",
        "# group.id: has no effect in a read and is ignored: set kafka.group.id; left out",
    ]
    forget_all()
    assert JOB.main([*argv, "--from-spark", "--json", "--option=subscribe=u"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["options"]["subscribe"] == "u"
    start = "--option=startingOffsets=earliest"
    assert JOB.main([*argv, "--topic", topic, start]) == ExitCode.DONE
    assert f"{topic}: 1 partition" in capsys.readouterr().out
    scala = """spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
        .options(Map("subscribe" -> "t", "minPartitions" -> "4"))"""
    (tmp_path / "job.py").write_text(scala)
    assert JOB.main([*argv, "--from-spark"]) == ExitCode.USAGE
    assert "the value of kafka.bootstrap.servers is no text in the code" in capsys.readouterr().err
    assert JOB.main([*argv, "--from-spark", "--option=kafka.bootstrap.servers=h:1"]) == ExitCode.DONE
    assert '.option("minPartitions", "4")' in capsys.readouterr().out
    (tmp_path / "job.py").write_text("print(1)")
    assert JOB.main(argv) == ExitCode.USAGE
