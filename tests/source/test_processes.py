"""Costs of Spark's processes: work that they do once, their memory, what is sent with each task, and planning
of a large stream.

``KAFKAWIRE_STREAM_BATCHES=2000`` plans so many batches over 1,000 partitions in 10 topics, and prints their
figures (``pytest -s``; with ``-o faulthandler_timeout=0``, or pytest ends after 20 minutes)."""

from __future__ import annotations

import gc
import io
import json
import os
import pickle
import platform
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import psutil
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.cluster.modern.metadata import Metadata
from spark_kafkawire.errors import ConnectFailed, KafkaWireError
from spark_kafkawire.model import Broker, ClusterView, Leader, TopicPartition
from spark_kafkawire.options import ReadOptions, WriteOptions
from spark_kafkawire.records import compiler
from spark_kafkawire.records.arrays import keep_memory
from spark_kafkawire.source.batch_reader import KafkaWireBatchReader
from spark_kafkawire.source.schema import V07_SCHEMA
from spark_kafkawire.source.stream_reader import KafkaWireStreamReader
from spark_kafkawire.source.worker import (
    KafkaWirePartition,
    Packed,
    find_sent_files,
    freeze_imports,
    freeze_objects,
)
from spark_kafkawire.source.writer import KafkaWireBatchWriter, create_writer
from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.foreign import Record
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.noida import NoidaBroker
from tests.support.pages import ROOT
from tests.support.source_process import SourceProcess
from tests.support.sparks import READ_LIMITS, STREAM_SINKS, since_spark
from tests.support.stream_heap import BATCH_MAX_S


@pytest.fixture
def freezes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[None]]:
    """Grows with each freeze; as in a process without any before."""
    freeze_imports()
    calls: list[None] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(None))
    freeze_objects.cache_clear()
    yield calls
    freeze_objects.cache_clear()


def reader_of(corpus: EmbeddedCluster, **options: str) -> KafkaWireBatchReader:
    where = {"broker.list": corpus.broker_list, "subscribe": "debian-gzip"}
    return KafkaWireBatchReader(ReadOptions.parse({**where, **options}), V07_SCHEMA)


def read(corpus: EmbeddedCluster) -> int:
    """Read a topic as tasks do, in this process."""
    reader = reader_of(corpus)
    return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))


def test_imports_of_spark_are_frozen_once(freezes: list[None], monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"broker.list": "0:127.0.0.1:9092", "subscribe": "t"}
    freeze_imports.cache_clear()
    missing = "spark_kafkawire.options"
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, missing, None)
        for _ in range(2):
            with pytest.raises(ImportError, match=missing):
                KafkaWireDataSource(options).schema()
    assert len(freezes) == 1


def test_the_heap_is_frozen_once_however_many_tasks_there_are(
    corpus: EmbeddedCluster, freezes: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "loaded", lambda: False)
    for _ in range(3):
        assert read(corpus) > 0
    assert len(freezes) == 1


def test_heap_is_frozen_with_kernels(freezes: list[None], monkeypatch: pytest.MonkeyPatch) -> None:
    for loaded in (False, True, True):
        monkeypatch.setattr(compiler, "loaded", lambda loaded=loaded: loaded)
        freeze_objects(compiler.loaded())
    assert len(freezes) == 2


def test_a_task_that_fails_freezes_too(freezes: list[None], corpus: EmbeddedCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        nobody = Broker(0, *unused.getsockname())
    reader = reader_of(corpus, retries="0")
    part = reader.partitions()[0]
    assert isinstance(part, KafkaWirePartition)
    with pytest.raises(ConnectFailed):
        list(reader.read(KafkaWirePartition(replace(part.tasks[0], leader=Leader(nobody)))))
    assert len(freezes) == 1


@STREAM_SINKS
def test_what_plans_the_batches_of_a_sink_is_frozen_once_however_many_there_are(
    freezes: list[None], corpus: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "loaded", lambda: False)
    schema = StructType([StructField("value", BinaryType())])
    options = {"broker.list": corpus.broker_list, "topic": "debian-gzip"}
    for _ in range(3):
        KafkaWireDataSource(options).streamWriter(schema, False)
    assert len(freezes) == 1


def test_stream_finds_files_sent_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files, others = tmp_path / "userFiles-1", tmp_path / "streaming_jobs"
    there = tmp_path / "userFiles-2" / "streaming_job"
    there.mkdir(parents=True)
    of_stream = files / "streaming_job"
    before = ["", "first", str(of_stream), str(of_stream / "a.zip"), str(there), str(others), "last"]
    monkeypatch.setattr(sys, "path", list(before))
    result = ["", "first", str(files), str(of_stream), str(files / "a.zip"), str(of_stream / "a.zip")]
    for _ in range(2):
        find_sent_files()
        assert sys.path == [*result, str(there), str(others), "last"]


# Values that are unpickled where they are looked at


class Fragile:
    """Breaks what unpickles it."""

    def __reduce__(self) -> tuple[object, ...]:
        return int, ("no number",)


def test_a_value_travels_however_often() -> None:
    packed = Packed((1, "a"))
    for _ in range(3):
        packed = pickle.loads(pickle.dumps(packed))
    assert packed.value == (1, "a")
    assert pickle.loads(pickle.dumps(packed)).value == (1, "a")


def test_unpickle_a_value_only_when_it_is_used() -> None:
    arrived = pickle.loads(pickle.dumps(Packed(Fragile())))
    again = pickle.loads(pickle.dumps(arrived))
    with pytest.raises(ValueError, match="no number"):
        _ = again.value


def test_what_a_value_has_learned_travels_with_it() -> None:
    packed: Packed[list[int]] = pickle.loads(pickle.dumps(Packed([1])))
    packed.value.append(2)
    assert pickle.loads(pickle.dumps(packed)).value == [1, 2]


# Memory: one batch frees it, and the next one takes it again

#: Takes and frees what a batch of 1 MiB sets does, after some other lines; the pages that a round of it takes
#: anew, in the median.
_ROUNDS: Final = """
import resource, statistics, sys
exec(sys.argv[1])
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
taken = []
for _ in range(9):
    before = faults()
    parts = [bytes(bytearray(1 << 20)) for _ in range(12)]
    del parts
    taken.append(faults() - before)
print(int(statistics.median(taken)))
"""
_PAGES: Final = (12 << 20) // os.sysconf("SC_PAGE_SIZE")
_READS: Final = (
    "from spark_kafkawire.source.reading import read_partition; list(read_partition(None, None, None))"
)
#: It ends with a usage error.
_SERVES: Final = "from spark_kafkawire.broker.__main__ import main; assert main(['--set', 'nothing']) == 2"
#: What a user may have set on the machine of the tests.
_SETTINGS: Final = ("GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
_WITH_GLIBC: Final = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")


def pages_taken(lines: str, **environment: str) -> int:
    command = [sys.executable, "-c", _ROUNDS, lines]
    env = {name: os.environ[name] for name in os.environ if name not in _SETTINGS} | environment
    return int(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)


@_WITH_GLIBC
@pytest.mark.parametrize("lines", [_READS, _SERVES], ids=["tasks", "the broker"])
def test_the_same_memory_is_taken_again(lines: str) -> None:
    assert pages_taken(lines) < _PAGES // 20


@_WITH_GLIBC
@pytest.mark.parametrize(
    "name",
    [
        "MALLOC_TRIM_THRESHOLD_",
        pytest.param("MALLOC_MMAP_THRESHOLD_", marks=pytest.mark.nightly),
        pytest.param("GLIBC_TUNABLES", marks=pytest.mark.nightly),
    ],
)
def test_what_a_user_says_stays(name: str) -> None:
    value = "glibc.malloc.trim_threshold=131072" if name == "GLIBC_TUNABLES" else "131072"
    assert pages_taken(_READS, **{name: value}) > _PAGES // 2


def test_tasks_of_writes_do_as_well(corpus: EmbeddedCluster) -> None:
    keep_memory.cache_clear()
    schema = StructType([StructField("value", BinaryType())])
    options = {"broker.list": corpus.broker_list, "topic": "debian-gzip"}
    KafkaWireDataSource(options).writer(schema, False).write(iter(()))
    assert keep_memory.cache_info().currsize == 1


# The reader, or the writer, that is sent with each task

#: Most bytes of a pickled reader or writer, but for the texts named below.
SIZE_MAX: Final = 4 << 10
COUNT: Final = 10_000
SERVER: Final = {"kafka.bootstrap.servers": "127.0.0.1:1"}
SERVERS: Final = {
    "kafka.bootstrap.servers": ",".join(
        f"b-{id}.events.c7.kafka.eu-west-1.example.com:9094" for id in range(100)
    )
}
ZOOKEEPER: Final = {"zookeeper.connect": "zk1:2181,zk2:2181,zk3:2181/kafka"}
BROKER_LIST: Final = {"broker.list": ",".join(f"{id}:kafka-{id}.example.com:9092" for id in range(200))}
OFFSETS: Final = json.dumps({"t": {str(number): 5 + number for number in range(COUNT)}})
ASSIGNED: Final = json.dumps({"t": list(range(COUNT))})
GROWN: Final = {"partitions": 2 * COUNT, "boundaries": dict.fromkeys(map(str, range(COUNT)), 70)}
LAYOUTS: Final = json.dumps({"t": [{"partitions": COUNT}, GROWN]})
OFFSETS_07: Final = json.dumps({"t": {f"{id}-{part}": 5 for id in range(200) for part in range(50)}})
ASSIGNED_07: Final = json.dumps({"t": [f"{id}-{part}" for id in range(200) for part in range(50)]})
TOPICS: Final = ",".join(f"topic-{number}" for number in range(COUNT))
JAAS: Final = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="s3cret";'
)
LOGIN: Final = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}
VALUE: Final = StructType([StructField("value", BinaryType())])

#: Of batch reads and streams.
READS: Final[Mapping[str, Mapping[str, str]]] = {
    "offsets": {**SERVER, "subscribe": "t", "startingOffsets": OFFSETS},
    "assign": {**SERVER, "assign": ASSIGNED, "startingOffsets": OFFSETS},
    "topics": {**SERVER, "subscribe": TOPICS},
    "pattern": {**SERVER, "subscribePattern": "|".join(TOPICS.split(",")[:80])},
    "layouts": {**SERVER, "subscribe": "t", "keyOrder": "true", "partitionLayouts": LAYOUTS},
    "servers": {**SERVERS, "subscribe": "t", "kafka.group.id": "g" * 249},
    "login": {**SERVERS, "subscribe": "t", "kafka.sasl.jaas.config": JAAS, **LOGIN},
    "0.7 offsets": {**ZOOKEEPER, "subscribe": "t", "startingOffsets": OFFSETS_07},
    "0.7 assign": {**ZOOKEEPER, "assign": ASSIGNED_07},
    "0.7 brokers": {**BROKER_LIST, "subscribe": "t"},
}
LIMITS: Final = {"maxOffsetsPerTrigger": "10", "minOffsetsPerTrigger": "5"}
STREAMS: Final[Mapping[str, Mapping[str, str]]] = {
    "limits": {**READS["offsets"], **LIMITS},
    "group": {**READS["offsets"], "commitOffsets": "true", "kafka.group.id": "g" * 249},
    "0.7 group": {
        **ZOOKEEPER,
        "subscribe": TOPICS,
        "groupMembership": "join",
        "kafka.group.id": "g",
        "zookeeper.auth": "digest:user:s3cret",
    },
}


def pickled(value: object) -> bytes:
    """As Spark pickles what it sends to tasks."""
    data: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    return data


def stream_reader(options: Mapping[str, str]) -> KafkaWireStreamReader:
    source = KafkaWireDataSource(dict(options))
    made = source.streamReader(source.schema())
    assert isinstance(made, KafkaWireStreamReader)
    return made


def test_what_a_task_of_a_read_gets_is_small() -> None:
    for name, options in READS.items():
        source = KafkaWireDataSource(dict(options))
        assert len(pickled(source.reader(source.schema()))) < SIZE_MAX, name
        assert len(pickled(stream_reader(options))) < SIZE_MAX, name


@READ_LIMITS
def test_what_a_task_of_a_stream_gets_is_small() -> None:
    for name, options in STREAMS.items():
        assert len(pickled(stream_reader(options))) < SIZE_MAX, name


def test_texts_of_tls_are_all_that_makes_it_larger(certificates: Certificates) -> None:
    """A connection needs them whole, and an executor has no file of the driver's."""
    secured = {
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.location": str(certificates.authority),
        "kafka.ssl.keystore.location": str(certificates.client),
    }
    texts = len(certificates.authority.read_bytes()) + len(certificates.client.read_bytes())
    source = KafkaWireDataSource({**READS["assign"], **secured})
    size = len(pickled(source.reader(source.schema())))
    assert texts // 2 < size < SIZE_MAX + texts


def sent(options: Mapping[str, str], *, stream: bool = False) -> int:
    """Bytes of the command that Spark's planning makes for all tasks: a function that holds the reader."""
    from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions

    source = KafkaWireDataSource(dict(options))
    schema = source.schema()
    source = pickle.loads(pickled(source))  # from one planning process to the next
    reader = source.streamReader(schema) if stream else source.reader(schema)
    out = io.BytesIO()
    with pytest.raises(KafkaWireError) if not stream else nullcontext():  # it plans the partitions after it
        write_read_func_and_partitions(
            out,
            reader=reader,
            data_source=source,
            schema=schema,
            max_arrow_batch_size=10_000,
            binary_as_bytes=True,
        )
    return int.from_bytes(out.getvalue()[:4], "big")


@since_spark(4, 2, "makes the command in a function that cannot be called")
@pytest.mark.parametrize("stream", [False, True])
def test_the_command_of_a_task_does_not_grow_with_the_options(stream: bool) -> None:
    nobody = {**SERVER, "retries": "0", "requestTimeout": "5s"}
    few = sent({**nobody, "subscribe": "t"}, stream=stream)
    assert sent({**READS["offsets"], **nobody}, stream=stream) == few
    assert sent({**READS["assign"], **nobody}, stream=stream) == few
    assert sent({**READS["topics"], **nobody}, stream=stream) == few


def test_a_source_travels_with_its_options_until_a_reader_has_them() -> None:
    source = KafkaWireDataSource(dict(READS["offsets"]))
    arrived = pickle.loads(pickled(source))
    arrived.reader(source.schema())
    assert len(pickled(arrived)) < 200
    assert arrived.options == source.options


@pytest.mark.parametrize("step", [1, 10])
def test_what_a_task_of_a_write_gets_is_small_and_whole(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All partitions have a leader with step 1; every tenth has none with step 10."""
    known_leaders = Metadata.known_leaders

    def some(metadata: Metadata, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Leader]:
        result = known_leaders(metadata, partitions)
        return {tp: result[tp] for tp in result if step == 1 or tp.partition % step}

    monkeypatch.setattr(Metadata, "known_leaders", some)
    with LogServer({"t": [MemoryLog()] * COUNT}) as server:
        writer = writer_of({"kafka.bootstrap.servers": server.bootstrap_servers})
        data = pickled(writer)
        targets = pickle.loads(data)._targets
        assert targets.selectable("t") == tuple(TopicPartition("t", number) for number in range(COUNT))
        assert targets.available("t") == writer._targets.available("t")
        assert len(targets.available("t")) == (COUNT if step == 1 else COUNT * 9 // 10)
    assert len(data) < SIZE_MAX


def writer_of(options: Mapping[str, str]) -> KafkaWireBatchWriter:
    made = KafkaWireDataSource({"topic": "t", **options}).writer(VALUE, False)
    assert isinstance(made, KafkaWireBatchWriter)
    return made


@STREAM_SINKS
def test_what_a_task_of_a_stream_sink_gets_is_small() -> None:
    with LogServer({"t": [MemoryLog()] * COUNT}) as server:
        options = {"topic": "t", "checkpointLocation": "/" + 200 * "c"}
        options["kafka.bootstrap.servers"] = server.bootstrap_servers
        made = KafkaWireDataSource(options).streamWriter(VALUE, False)
        assert len(pickled(made)) < SIZE_MAX


def test_what_a_task_of_an_exactly_once_write_gets_is_small(noida: NoidaBroker) -> None:
    servers = ",".join([noida.bootstrap_servers, *SERVERS["kafka.bootstrap.servers"].split(",")])
    topic = noida.create_topic(partitions=3)
    options = {"kafka.bootstrap.servers": servers, "topic": topic, "delivery": "exactly-once"}
    assert len(pickled(writer_of(options))) < SIZE_MAX


def test_what_a_task_of_a_write_to_0_7_gets_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = tuple(Broker(id, f"kafka-{id}.example.com", 9092) for id in range(100))
    partitions = tuple(TopicPartition("t", part, id) for part in range(10) for id in range(100))
    view = ClusterView(brokers, partitions)
    monkeypatch.setattr("spark_kafkawire.clients.writing.v07.view", lambda *_: view)
    options = WriteOptions.parse({**ZOOKEEPER, "topic": "t"})
    writer = create_writer(options, VALUE, overwrite=False)
    data = pickled(writer)
    assert pickle.loads(data)._targets == writer._targets
    assert len(data) < SIZE_MAX


# A stream over 1,000 partitions in 10 topics

BATCHES: Final = int(os.environ.get("KAFKAWIRE_STREAM_BATCHES", "30"))
#: The JVM takes more batches to show what it keeps.
JVM_BATCHES: Final = int(os.environ.get("KAFKAWIRE_STREAM_BATCHES", "600"))
TOPIC_COUNT, PARTITIONS = 10, 100
#: What planning a batch may cost, seconds: of the processor, for how long it takes is the machine's affair.
CPU_MAX_S: Final = 0.3
#: What the process may grow from the first third of the batches to the last one. Python's allocator takes
#: and keeps whole arenas, of 1 MiB each.
GROWTH_MAX_BYTES: Final = 4 << 20


#: What the heap may grow after the first tenth of the batches; the text of a batch's offsets alone is 10 KB.
HEAP_GROWTH_MAX_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """The process after a batch: what the batch has cost, and what it holds."""

    cpu_s: float
    wall_s: float
    rss_bytes: int
    files: int
    threads: int


@pytest.mark.timeout(600 + 4 * BATCHES)
def test_planning_over_a_thousand_partitions_stays_cheap_and_its_memory_flat() -> None:
    with NoidaBroker() as broker:
        topics = [
            broker.create_topic(PARTITIONS, name=f"one-of-ten-{number}") for number in range(TOPIC_COUNT)
        ]
        for topic in topics:
            records = [Record(b"x", partition=partition) for partition in range(PARTITIONS)]
            librdkafka.produce(broker.bootstrap_servers, topic, records)
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "startingOffsets": "earliest"}
        options |= {"subscribePattern": "one-of-ten-.*", "maxOffsetsPerTrigger": "1000000"}
        with SourceProcess(options) as process:
            samples = watched(process, broker, topics)
    third = BATCHES // 3
    early, late = samples[third : 2 * third], samples[-third:]
    for name in Sample.__slots__:
        most = max(getattr(sample, name) for sample in samples)
        print(f"{name}\t{_median(early, name):.6g}\t{_median(late, name):.6g}\tat most {most:.6g}")
    grown = {name: _median(late, name) - _median(early, name) for name in Sample.__slots__}
    assert _median(late, "cpu_s") < CPU_MAX_S
    assert grown["rss_bytes"] < GROWTH_MAX_BYTES
    assert grown["files"] == grown["threads"] == 0  # a thread of one question may be ending


def _median(samples: list[Sample], name: str) -> float:
    return float(statistics.median(getattr(sample, name) for sample in samples))


def watched(process: SourceProcess, broker: NoidaBroker, topics: list[str]) -> list[Sample]:
    """The process after each batch. All batches read from all partitions, from the start on: as much as a
    batch can be."""
    initial = end = process.initial_offset()
    samples = []
    for number in range(BATCHES):
        partition = number % PARTITIONS
        librdkafka.produce(
            broker.bootstrap_servers, topics[number % TOPIC_COUNT], [Record(b"y", partition=partition)]
        )
        began_s, cpu_before_s = time.monotonic(), _cpu_s(process.statistics)
        start, end = end, process.latest_offset(end)
        assert end != start
        assert len(process.partitions(initial, end)) == TOPIC_COUNT * PARTITIONS
        wall_s = time.monotonic() - began_s
        process.commit(start)
        result = process.statistics
        samples.append(
            Sample(
                _cpu_s(result) - cpu_before_s,
                wall_s,
                result.memory_info().rss,
                result.num_fds(),
                result.num_threads(),
            )
        )
    assert sum(len(offsets) for offsets in json.loads(end).values()) == TOPIC_COUNT * PARTITIONS
    return samples


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@pytest.mark.jvm
@pytest.mark.nightly
@pytest.mark.timeout(900 + BATCH_MAX_S * JVM_BATCHES)
def test_the_heap_of_a_stream_over_a_thousand_partitions_stays_flat(tmp_path: Path) -> None:
    """All partitions are planned in each batch, and two of them have a record for it: what the JVM could keep
    of a batch are its offsets and two tasks."""
    with NoidaBroker() as broker:
        topics = [broker.create_topic(PARTITIONS) for _ in range(TOPIC_COUNT)]
        for topic in topics[:2]:
            librdkafka.produce(
                broker.bootstrap_servers, topic, [Record(b"x", partition=0)] * (JVM_BATCHES + 50)
            )
        read = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": ",".join(topics)}
        read |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"}
        heaps = looks(read, tmp_path / "checkpoint")
    assert heaps[-1] - heaps[0] < HEAP_GROWTH_MAX_BYTES


def looks(read: dict[str, str], checkpoint: Path) -> list[int]:
    """Bytes in the heap after each tenth of the batches."""
    argv = [
        sys.executable,
        "-m",
        "tests.support.stream_heap",
        json.dumps(read),
        str(JVM_BATCHES),
        str(checkpoint),
    ]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        result = []
        for line in process.stdout:
            print(line.rstrip(), flush=True)
            result.append(json.loads(line)["heap_bytes"])
    assert process.returncode == 0
    return result
