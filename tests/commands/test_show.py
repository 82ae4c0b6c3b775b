"""``kafkawire show``: messages of both generations and of log directories, typed and hostile ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire import encode_message_set
from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.commands.show import JOB
from spark_kafkawire.jobs.ending import ExitCode
from tests.support import librdkafka
from tests.support.avro_messages import framed, record
from tests.support.embedded import produce
from tests.support.fake_registry import FakeRegistry
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

#: Shows messages with these arguments: exit code, stdout, stderr.
Show = Callable[..., tuple[int, str, str]]
HOSTILE: Final = b"\x1b[2J\r\n\x00\xff\xe2\x80\xae"
SECRET: Final = "hunter22-secret"
MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture
def show(noida: NoidaBroker, capsys: pytest.CaptureFixture[str]) -> Show:
    def run(topic: str, *argv: str, servers: str | None = None) -> tuple[int, str, str]:
        option = servers or f"kafka.bootstrap.servers={noida.bootstrap_servers}"
        chosen = ["--topic", topic] if topic else []
        code = JOB.main(["--quiet", f"--option={option}", *chosen, *argv])
        return (code, *capsys.readouterr())

    return run


def offsets(found: tuple[int, str, str]) -> list[tuple[int, int]]:
    """Partition and offset of each message of ``--format json``."""
    assert found[0] == ExitCode.DONE, found
    return [(item["partition"], item["offset"]) for item in map(json.loads, found[1].splitlines())]


def test_messages_are_chosen_by_number_partition_offset_and_time(noida: NoidaBroker, show: Show) -> None:
    topic = noida.create_topic(partitions=2)
    rows = [Record(b"v", partition=n % 2, timestamp_ms=1_700_000_000_000 + n) for n in range(40)]
    librdkafka.produce(noida.bootstrap_servers, topic, rows)
    chosen = {
        "--max=3": [(1, 18), (0, 19), (1, 19)],
        "--max=2 --partition=0": [(0, 18), (0, 19)],
        "--max=2 --partition=1 --offset=7": [(1, 7), (1, 8)],
        "--partition=0 --offset=20": [],
        "--partition=0 --partition=1 --offset=19": [(0, 19), (1, 19)],
        "--max=3 --since=1700000000011": [(1, 5), (0, 6), (1, 6)],
        "--max=1 --since=earliest": [(0, 0)],
        "--since=2999-01-01T00:00:00Z": [],
        "--max=99 --since=latest": [(n % 2, n // 2) for n in range(40)],
    }
    for words, expected in chosen.items():
        assert offsets(show(topic, "--format=json", *words.split())) == expected, words
    code, out, err = show(topic, "--since=2999-01-01T00:00:00Z")
    assert (code, out, err) == (ExitCode.DONE, "", "show: there is no message\n")
    for words, said in {
        "--partition=0 --offset=21": "would start at 21 and end at 20",
        "--offset=21": "argument --offset needs --partition",
    }.items():
        code, _, err = show(topic, *words.split())
        assert (code, said in err) == (ExitCode.USAGE, True), err


def test_offsets_without_a_message_are_passed(noida: NoidaBroker, show: Show) -> None:
    topic = noida.create_topic(partitions=1)
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"first")])
    for _ in range(10):  # each ends with a marker, which has an offset
        librdkafka.abort(noida.bootstrap_servers, topic, [Record(b"aborted")])
    committed = "--option=kafka.isolation.level=read_committed"
    assert offsets(show(topic, "--max=1", "--format=json", committed)) == [(0, 0)]


def test_what_is_printed_is_harmless_bounded_and_whole(noida: NoidaBroker, show: Show) -> None:
    topic = noida.create_topic(partitions=1)
    headers = ((HOSTILE[:3].decode(), HOSTILE), ("no", None))
    hostile = "\x1b[2J\u202eä".encode()
    values = (None, hostile, SECRET.encode(), b"x" * 5000)
    rows = [Record(HOSTILE, b"k", headers), *map(Record, values)]
    librdkafka.produce(noida.bootstrap_servers, topic, rows)
    login = [
        "--option=kafka.security.protocol=SASL_PLAINTEXT",
        "--option=kafka.sasl.mechanism=PLAIN",
        f'--option=kafka.sasl.jaas.config={MODULE} required username="u" password="{SECRET}";',
    ]
    for form in ("text", "json", "hex"):
        code, out, _ = show(topic, f"--format={form}", "--max-bytes=10", *login)
        assert code == ExitCode.DONE
        assert all(line.isprintable() for line in out.splitlines())
        assert max(map(len, out.splitlines())) < 400
    lines = show(topic)[1].splitlines()
    assert [re.sub(", 20.*Z$", "", line) for line in lines[:8]] == [
        f"{topic} 0, offset 0",
        "  key         k",
        r'  header \x1b[2  {"hex": "1b 5b 32 4a 0d 0a 00 ff e2 80 ae"}',
        "  header no   (null)",
        r'  value       {"hex": "1b 5b 32 4a 0d 0a 00 ff e2 80 ae"}',
        f"{topic} 0, offset 1",
        "  key    (null)",
        "  value  (null)",
    ]
    assert lines[10] == r"  value  \x1b[2J\u202eä"
    result = json.loads(show(topic, "--json", "--max-bytes=5")[1])["messages"]
    assert [item["value"] for item in result[2:]] == [
        *({"text": "\x1b[2J\u202e", "bytes": 9}, {"text": "[hidd", "bytes": 15}),
        {"text": "xxxxx", "bytes": 5000},
    ]
    last = show(topic, "--format=hex", "--max=1", "--max-bytes=3")[1].splitlines()[-1]
    assert last == '  value  {"hex": "78 78 78", "bytes": 5000}'
    cut = show(topic, *login, "--format=json", "--max-bytes=14")[1]
    assert SECRET[:3] not in cut
    hidden = show(topic, *login, "--format=json")[1]
    assert (SECRET in hidden, "[hidden]" in hidden) == (False, True)


def test_typed_values_are_decoded(noida: NoidaBroker, show: Show) -> None:
    topic = noida.create_topic(partitions=1)
    schema = record(("id", "long"), ("at", {"type": "long", "logicalType": "timestamp-millis"}))
    with FakeRegistry() as registry:
        number = registry.add(f"{topic}-value", schema)
        rows = [framed(number, schema, {"id": item, "at": item}) for item in (7, 10**15)]
        librdkafka.produce(noida.bootstrap_servers, topic, map(Record, rows))
        options = ["--option=valueFormat=avro", f"--option=schema.registry.url={registry.url}"]
        code, out, err = show(topic, *options, "--max=2", "--format=json")
        assert (code, err) == (ExitCode.DONE, "")
        values = [json.loads(line)["value"] for line in out.splitlines()]
        assert values[0] == {"id": 7, "at": "1970-01-01 00:00:00.007000+00:00"}
        assert values[1] == "(a time that Python does not have)"
        librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"no avro")])
        code, _, err = show(topic, *options)
        assert (code, "badRecords=null" in err) == (ExitCode.FAILED, True)
        code, out, err = show(topic, *options, "--option=badRecords=null", "--max=1")
        assert (code, "_corrupt_record" in out, err) == (ExitCode.DONE, True, "")


def test_brokers_and_directories_of_07_are_shown(show: Show, tmp_path: Path) -> None:
    with EmbeddedCluster(brokers=1, partitions=2, zookeeper=False, log_dirs=[tmp_path]) as cluster:
        for partition in (0, 1):
            produce(cluster, "old", encode_message_set([b"a", b"b", b"c"]), partition)
        option = f"broker.list={cluster.broker_list}"
        result = offsets(show("old", "--max=2", "--format=json", "--partition=0-1", servers=option))
        assert [partition for partition, _ in result] == [1, 1]
        assert show("old", servers=option)[1].count("  value  ") == 6
        code, out, _ = show("old", "--max=1", servers=option)
        assert (code, out.splitlines()[0]) == (ExitCode.DONE, f"old 0-1, offset {result[-1][1]}")
    code, out, err = show("old", "--max=1", "--json", servers=f"path={tmp_path}")
    assert (code, err) == (ExitCode.DONE, "")
    [message] = json.loads(out)["messages"]
    assert (message["value"], message["broker"], message["offset"]) == ("c", 0, result[-1][1])
