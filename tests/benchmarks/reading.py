"""Reads through Spark of Kafka 0.7, of modern Kafka and of log directories, beside ready-made batches.

The page cache holds the files. The brokers are faster than those of Kafka: that of modern Kafka is the
process of ``log_server``, which does nothing but send.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
from pyspark.sql import DataFrame

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.broker.log_directory import CLEAN_SHUTDOWN_FILE

from . import logs
from .ceilings import VALUE_SIZES
from .log_server import SINK, log_server
from .logs import LogData
from .measure import Figure, Kind, Run, say, side_by_side
from .processes import forget_peaks, peaks_mib
from .session import (
    PARTITIONS,
    PREFIX,
    Bench,
    Side,
    read_into_nothing,
    ready_made,
    rows_to_write,
)

COMPRESSIONS: Final = ("none", "snappy", "gzip")
MODERN_VALUE_SIZES: Final = (100, 1024)
MODERN_COMPRESSIONS: Final = ("none", "lz4", "zstd")
DIRECTORY_COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
#: Rows of a partition: each read takes two seconds or more, that of a directory a second or more.
_ROWS: Final = {10: 6_000_000, 100: 5_000_000, 1024: 1_000_000}
_DIRECTORY_ROWS: Final = {100: 3_000_000, 1024: 600_000}
CEILING: Final = "ceiling"
#: Least speeds in parts of the ceiling, by value size and compression.
Targets = Mapping[tuple[int, str], float]
_TARGETS: Final[Targets] = {
    (10, "none"): 0.90,
    (100, "none"): 0.80,
    (1024, "none"): 0.60,
    (100, "snappy"): 0.60,
    (100, "gzip"): 0.45,
}
_MODERN_TARGETS: Final[Targets] = {
    (100, "none"): 0.65,
    (1024, "none"): 0.55,
    (100, "lz4"): 0.55,
    (100, "zstd"): 0.45,
}
_DIRECTORY_TARGETS: Final[Targets] = {(1024, "none"): 0.8}


def read(bench: Bench) -> Iterator[Figure]:
    """Reads of a broker of 0.7, all value sizes and compressions."""
    for value_size in VALUE_SIZES:
        yield from _read(bench, "read", V07, value_size, COMPRESSIONS, _TARGETS)


def read_modern(bench: Bench) -> Iterator[Figure]:
    """Reads of record batches of magic 2."""
    for value_size in MODERN_VALUE_SIZES:
        yield from _read(bench, "read modern", MODERN, value_size, MODERN_COMPRESSIONS, _MODERN_TARGETS)


def _read(
    bench: Bench, name: str, generation: Generation, value_size: int, codecs: Sequence[str], targets: Targets
) -> Iterator[Figure]:
    say(f"{name}: values of {value_size} bytes")
    with TemporaryDirectory(prefix=PREFIX) as folder:
        log = {
            codec: generation.write_topic(Path(folder), codec, value_size, _ROWS[value_size])
            for codec in dict.fromkeys(("none", *codecs))
        }
        with generation.served(Path(folder)) as broker:
            sides = {codec: Side("kafkawire", {**broker, "subscribe": codec}) for codec in log}
            batch_rows = len(next(sides["none"].first_partition()))
            columns = sides["none"].batch(bench.spark).schema
            ceiling = ready_made(log["none"].rows, value_size, columns, batch_rows=batch_rows)
            runs = {codec: _kind(bench, sides[codec], log[codec]) for codec in codecs}
            yield from against_ceiling(
                bench, name, value_size, _kind(bench, ceiling, log["none"]), runs, targets
            )


def _kind(bench: Bench, side: Side, log: LogData) -> Kind:
    """A read of a topic of such logs."""
    rows, size = PARTITIONS * log.rows, PARTITIONS * log.value_bytes
    return Kind(lambda: read_into_nothing(side.batch(bench.spark)), rows, size)


def against_ceiling(
    bench: Bench, name: str, value_size: int, ceiling: Kind, runs: Mapping[str, Kind], targets: Targets
) -> Iterator[Figure]:
    """The rows/s of each run over those of the ceiling, all side by side; ``runs`` by compression."""
    forget_peaks()
    took = side_by_side({CEILING: ceiling, **runs}, bench.rounds)
    for compression in runs:
        ours = took[compression]
        yield Figure(
            name,
            "ratio",
            ours.rows_per_s / took[CEILING].rows_per_s,
            targets.get((value_size, compression)),
            details={
                "value_size": value_size,
                "compression": compression,
                **ours.details,
                "ceiling_rows_per_s": round(took[CEILING].rows_per_s),
                "cpu_ns_per_row": ours.cpu_ns,
                "ceiling_cpu_ns_per_row": took[CEILING].cpu_ns,
                "worker_peak_mib": round(max(peaks_mib().values())),
            },
        )


def directories(bench: Bench) -> Iterator[Figure]:
    """Reads of a directory and of the same files through a broker: both generations."""
    for generation in (V07, MODERN):
        for value_size in MODERN_VALUE_SIZES:
            with TemporaryDirectory(prefix=PREFIX) as folder:
                yield from _directory(bench, generation, value_size, Path(folder))


def _directory(bench: Bench, generation: Generation, value_size: int, folder: Path) -> Iterator[Figure]:
    say(f"directories: {generation.title}, values of {value_size} bytes")
    served, directory = folder / "served", folder / "directory"
    served.mkdir()
    directory.mkdir()
    codecs = [codec for codec in DIRECTORY_COMPRESSIONS if codec in generation.codecs]
    rows = _DIRECTORY_ROWS[value_size]
    log: dict[str, LogData] = {
        codec: generation.write_topic(served, codec, value_size, rows) for codec in codecs
    }
    generation.link(served, directory)
    with generation.served(served) as broker:
        sources = {"directory": {"path": str(directory)}, "broker": broker}
        sides = {
            f"{source} {codec}": Side("kafkawire", {**options, "subscribe": codec})
            for codec in codecs
            for source, options in sources.items()
        }
        columns = sides["directory none"].batch(bench.spark).schema
        batch_rows = logs.BATCH_BYTES_MAX * 8 // value_size
        ceiling_side = ready_made(log["none"].rows, value_size, columns, batch_rows=batch_rows)
        kinds = {CEILING: _kind(bench, ceiling_side, log["none"])}
        kinds |= {name: _kind(bench, side, log[name.split()[1]]) for name, side in sides.items()}
        took = side_by_side(kinds, bench.rounds)
    for codec in codecs:
        ours, theirs, ceiling = took[f"directory {codec}"], took[f"broker {codec}"], took[CEILING]
        details = {
            "kafka": generation.title,
            "value_size": value_size,
            "compression": codec,
            **ours.details,
            "broker_seconds": round(theirs.seconds, 4),
            "ceiling_seconds": round(ceiling.seconds, 4),
            "cpu_ns_per_row": ours.cpu_ns,
            "broker_cpu_ns_per_row": theirs.cpu_ns,
            "ceiling_cpu_ns_per_row": ceiling.cpu_ns,
        }
        cpu_ratio = sum(theirs.cpu_ns.values()) / sum(ours.cpu_ns.values())
        asked = _DIRECTORY_TARGETS.get((value_size, codec))
        of_ceiling = ceiling.seconds / ours.seconds
        yield Figure("directory over broker", "ratio", theirs.seconds / ours.seconds, 1.0, details=details)
        yield Figure("directory over broker, CPU", "ratio", cpu_ratio, 1.0, details=details)
        yield Figure("directory over ceiling", "ratio", of_ceiling, asked, details=details)


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of Kafka: how its logs are written, linked and served."""

    title: str
    codecs: tuple[str, ...]
    write: Callable[..., LogData]
    link: Callable[[Path, Path], None]
    served: Callable[[Path], AbstractContextManager[Mapping[str, str]]]

    def write_topic(self, folder: Path, codec: str, value_size: int, rows: int) -> LogData:
        """Write equal logs of a topic that is named after its codec; the totals of each."""
        for partition in range(PARTITIONS):
            log = self.write(
                folder, f"{codec}-{partition}", value_size=value_size, rows=rows, compression=codec
            )
        return log


def _link_07(served: Path, directory: Path) -> None:
    """The same logs as of a broker that was stopped in order, whatever the running one makes of its own."""
    (directory / CLEAN_SHUTDOWN_FILE).touch()
    for log in served.iterdir():
        if log.is_dir():
            (directory / log.name).symlink_to(log)


def _link_modern(served: Path, directory: Path) -> None:
    """The same logs under the names of Kafka, with their offset indexes."""
    for log in served.iterdir():
        folder = directory / log.name
        folder.mkdir()
        (folder / f"{0:020}.log").symlink_to(log / logs.DATA)
        starts = np.load(log / logs.INDEX)
        # An entry has the last offset of a batch, and its position. The first batch has none.
        entries = np.stack((starts[2:, 0] - 1, starts[1:-1, 1]), axis=1)
        (folder / f"{0:020}.index").write_bytes(entries.astype(">i4").tobytes())


@contextmanager
def served_07(folder: Path, partitions: int = PARTITIONS) -> Iterator[Mapping[str, str]]:
    """The options that read the logs of a folder through the embedded broker."""
    with EmbeddedCluster(1, partitions, zookeeper=False, log_dirs=[str(folder)]) as cluster:
        yield {"broker.list": cluster.broker_list}


@contextmanager
def _served_modern(folder: Path) -> Iterator[Mapping[str, str]]:
    with log_server(folder) as servers:
        yield {"kafka.bootstrap.servers": servers}


V07: Final = Generation("0.7", COMPRESSIONS, logs.write_log, _link_07, served_07)
MODERN: Final = Generation(
    "modern", DIRECTORY_COMPRESSIONS, logs.write_modern_log, _link_modern, _served_modern
)
#: Rows of a write, which takes two seconds or more.
_WRITE_ROWS: Final = {10: 12_000_000, 100: 6_000_000, 1024: 1_500_000}
_WRITE_TARGETS: Final[Targets] = {
    (10, "none"): 0.5,
    (100, "none"): 0.5,
    (1024, "none"): 0.5,
    (100, "snappy"): 0.4,
}
_MODERN_WRITE_TARGETS: Final[Targets] = {(100, "none"): 0.4}


def write(bench: Bench) -> Iterator[Figure]:
    """All value sizes and compressions, with ``acks=1``. Each write is to a new topic."""
    with (
        TemporaryDirectory(prefix=PREFIX) as folder,
        EmbeddedCluster(brokers=1, partitions=PARTITIONS, zookeeper=False, log_dirs=[folder]) as cluster,
    ):
        topics = (str(number) for number in count())

        def writer(frame: DataFrame, compression: str) -> Run:
            def run() -> None:
                topic = next(topics)
                options = {"broker.list": cluster.broker_list, "topic": topic, "acks": "1"}
                _save(frame, "kafkawire", {**options, "compression": compression})
                # So that the disk does not fill.
                for log in Path(cluster.brokers[0].log_dir).glob(f"{topic}-*"):
                    shutil.rmtree(log)

            return run

        for value_size in VALUE_SIZES:
            yield from _write(bench, "write", value_size, COMPRESSIONS, writer, _WRITE_TARGETS)


def write_modern(bench: Bench) -> Iterator[Figure]:
    """Writes with the defaults (``acks=all``, idempotent), to a broker that keeps nothing."""
    with TemporaryDirectory(prefix=PREFIX) as folder, log_server(Path(folder)) as servers:
        sink = {"kafka.bootstrap.servers": servers, "topic": SINK}

        def writer(frame: DataFrame, compression: str) -> Run:
            return lambda: _save(frame, "kafkawire", {**sink, "kafka.compression.type": compression})

        for value_size in MODERN_VALUE_SIZES:
            yield from _write(
                bench, "write modern", value_size, MODERN_COMPRESSIONS, writer, _MODERN_WRITE_TARGETS
            )


def _write(
    bench: Bench,
    name: str,
    value_size: int,
    compressions: tuple[str, ...],
    writer: Callable[[DataFrame, str], Run],
    targets: Targets,
) -> Iterator[Figure]:
    say(f"{name}: values of {value_size} bytes")
    rows = _WRITE_ROWS[value_size]
    frame, size = rows_to_write(bench.spark, value_size, rows), rows * value_size
    ceiling = Kind(lambda: _save(frame, "counting", {}), rows, size)
    runs = {item: Kind(writer(frame, item), rows, size) for item in compressions}
    yield from against_ceiling(bench, name, value_size, ceiling, runs, targets)


def _save(frame: DataFrame, format: str, options: Mapping[str, str]) -> None:
    frame.write.format(format).mode("append").options(**options).save()
