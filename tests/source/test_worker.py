"""What a process of Spark's does once for what it is asked next."""

from __future__ import annotations

import gc
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.errors import ConnectFailed
from spark_kafkawire.model import Broker, Leader
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.records import compiler
from spark_kafkawire.source.batch_reader import KafkaWireBatchReader
from spark_kafkawire.source.datasource import KafkaWireDataSource
from spark_kafkawire.source.partition import KafkaWirePartition
from spark_kafkawire.source.schema import V07_SCHEMA
from spark_kafkawire.source.worker import begin, freeze_heap, keep_memory
from tests.support.sparks import STREAM_SINKS


@pytest.fixture
def freezes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[None]]:
    """Grows with each freeze; as in a process without any before."""
    begin()
    calls: list[None] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(None))
    freeze_heap.cache_clear()
    yield calls
    freeze_heap.cache_clear()


def reader_of(corpus: EmbeddedCluster, **options: str) -> KafkaWireBatchReader:
    where = {"broker.list": corpus.broker_list, "subscribe": "debian-gzip"}
    return KafkaWireBatchReader(ReadOptions.parse({**where, **options}), V07_SCHEMA)


def read(corpus: EmbeddedCluster) -> int:
    """Read a topic as tasks do, in this process."""
    reader = reader_of(corpus)
    return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))


def test_what_spark_imported_is_frozen_once_before_the_source_imports_anything(
    freezes: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"broker.list": "0:127.0.0.1:9092", "subscribe": "t"}
    begin.cache_clear()
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


def test_the_heap_is_frozen_once_more_when_the_kernels_are_in_it(
    freezes: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for loaded in (False, True, True):
        monkeypatch.setattr(compiler, "loaded", lambda loaded=loaded: loaded)
        freeze_heap(compiler.loaded())
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


#: Takes and frees what a batch of 1 MiB sets does, in a process that has run a task or none; the pages that a
#: round of it takes anew, in the median.
_ROUNDS = """
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
_READS = "from spark_kafkawire.source.reading import read_partition; list(read_partition(None, None, None))"
_PAGES = (12 << 20) // os.sysconf("SC_PAGE_SIZE")


def pages_taken(task: str, **environment: str) -> int:
    command = [sys.executable, "-c", _ROUNDS, task]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_tasks_take_the_same_memory_again() -> None:
    assert pages_taken("") > _PAGES // 2, "glibc keeps it anyway: nothing is shown"
    assert pages_taken(_READS) < _PAGES // 20


def test_tasks_of_writes_do_as_well(corpus: EmbeddedCluster) -> None:
    keep_memory.cache_clear()
    schema = StructType([StructField("value", BinaryType())])
    options = {"broker.list": corpus.broker_list, "topic": "debian-gzip"}
    KafkaWireDataSource(options).writer(schema, False).write(iter(()))
    assert keep_memory.cache_info().currsize == 1


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"])
def test_what_a_user_says_of_memory_stays(name: str) -> None:
    said = {"MALLOC_TRIM_THRESHOLD_": "131072", "GLIBC_TUNABLES": "glibc.malloc.trim_threshold=131072"}[name]
    assert pages_taken(_READS, **{name: said}) > _PAGES // 2


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
