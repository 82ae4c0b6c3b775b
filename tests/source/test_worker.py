"""Work that a process of Spark does once for the requests after it, and values that travel between them."""

from __future__ import annotations

import gc
import pickle
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.errors import ConnectFailed
from spark_kafkawire.model import Broker, Leader
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.records import compiler
from spark_kafkawire.source.batch_reader import KafkaWireBatchReader
from spark_kafkawire.source.datasource import KafkaWireDataSource
from spark_kafkawire.source.schema import V07_SCHEMA
from spark_kafkawire.source.worker import (
    KafkaWirePartition,
    Packed,
    find_sent_files,
    freeze_imports,
    freeze_objects,
)
from tests.support.sparks import STREAM_SINKS


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


def test_what_spark_imported_is_frozen_once_before_the_source_imports_anything(
    freezes: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_the_heap_is_frozen_once_more_when_the_kernels_are_in_it(
    freezes: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_a_stream_finds_the_files_that_are_sent_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files, others = tmp_path / "userFiles-1", tmp_path / "streaming_jobs"
    there = tmp_path / "userFiles-2" / "streaming_job"
    there.mkdir(parents=True)
    of_stream = files / "streaming_job"
    before = ["", "first", str(of_stream), str(of_stream / "a.zip"), str(there), str(others), "last"]
    monkeypatch.setattr(sys, "path", list(before))
    found = ["", "first", str(files), str(of_stream), str(files / "a.zip"), str(of_stream / "a.zip")]
    for _ in range(2):
        find_sent_files()
        assert sys.path == [*found, str(there), str(others), "last"]


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


def test_a_value_that_nobody_looks_at_is_not_unpickled() -> None:
    arrived = pickle.loads(pickle.dumps(Packed(Fragile())))
    again = pickle.loads(pickle.dumps(arrived))
    with pytest.raises(ValueError, match="no number"):
        _ = again.value


def test_what_a_value_has_learned_travels_with_it() -> None:
    packed: Packed[list[int]] = pickle.loads(pickle.dumps(Packed([1])))
    packed.value.append(2)
    assert pickle.loads(pickle.dumps(packed)).value == [1, 2]
