"""Memory of a process: one batch frees it, and the next one takes it again."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import Final

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.records.memory import keep_memory
from spark_kafkawire.source.datasource import KafkaWireDataSource

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
def test_without_it_memory_goes_back_each_time() -> None:
    assert pages_taken("") > _PAGES // 2


@_WITH_GLIBC
@pytest.mark.parametrize("lines", [_READS, _SERVES], ids=["tasks", "the broker"])
def test_the_same_memory_is_taken_again(lines: str) -> None:
    assert pages_taken(lines) < _PAGES // 20


@_WITH_GLIBC
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MALLOC_TRIM_THRESHOLD_", "131072"),
        ("MALLOC_MMAP_THRESHOLD_", "131072"),
        ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=131072"),
    ],
)
def test_what_a_user_says_stays(name: str, value: str) -> None:
    assert pages_taken(_READS, **{name: value}) > _PAGES // 2


def test_tasks_of_writes_do_as_well(corpus: EmbeddedCluster) -> None:
    keep_memory.cache_clear()
    schema = StructType([StructField("value", BinaryType())])
    options = {"broker.list": corpus.broker_list, "topic": "debian-gzip"}
    KafkaWireDataSource(options).writer(schema, False).write(iter(()))
    assert keep_memory.cache_info().currsize == 1
