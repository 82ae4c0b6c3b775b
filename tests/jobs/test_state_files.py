"""Files that jobs remember things in: damaged, special, sealed; none is ever taken for another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from spark_kafkawire.clients.writing.modern.batches import ProducerId
from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.jobs.checkpoints import CheckpointFiles
from spark_kafkawire.jobs.files import FileError, LocalFiles
from spark_kafkawire.jobs.ingest.state import IngestState, next_plan
from spark_kafkawire.jobs.migration.state import (
    Mark,
    PartitionProgress,
    State,
    StateDirectory,
    load_state,
)
from spark_kafkawire.jobs.publish.state import Publication, PublishState, TopicRows
from spark_kafkawire.jobs.state import BrokenSeal, JobState, Milestone, StateFormat, sole_run
from spark_kafkawire.model import OffsetRange, TopicPartition
from tests.support.special_files import KINDS, special_file

FILES: Final = LocalFiles()
PARTITION: Final = TopicPartition("t", 0)


def damaged(data: bytes, step: int, bits: Sequence[int] = ()) -> Iterator[bytes]:
    """The data cut at places, and with bits of bytes changed: these, or each in turn."""
    # The last byte ends the line, which says nothing.
    for size in range(0, len(data) - 1, step):
        yield data[:size]
    for location in range(0, len(data), step):
        for bit in bits or (location // step % 8,):
            yield data[:location] + bytes([data[location] ^ 1 << bit]) + data[location + 1 :]


def assert_noticed(said: Sequence[str], count: int) -> None:
    """Assert that almost all damage is reported: only changes of blanks or of a letter's escape are none."""
    assert len(said) > 0.95 * count


def ingested(folder: str) -> Callable[[], object]:
    state, plan = IngestState(FILES, folder), None
    for start in (0, 10, 20):
        plan = next_plan(plan, [OffsetRange(PARTITION, start, start + 10)], {PARTITION: start}, None)
        state.record(plan)
        state.finish(plan)
    return state.newest


def published(folder: str) -> Callable[[], object]:
    def begun() -> PublishState:
        state = PublishState(FILES, folder)
        state.begin(Publication("k", {"t": TopicRows(1000, "12")}))
        return state

    for number in range(2):
        begun().begin_run({PARTITION: 7 + number})
    return lambda: begun().starts()


def migrated(folder: str) -> Callable[[], object]:
    marks = Mark(900, 17, 12), Mark(0, 5)
    progress = PartitionProgress(PARTITION, TopicPartition("new", 5), "5f1c", ProducerId(4001, 3), *marks)
    with StateDirectory(Path(folder)) as directory:
        directory.save(State(source_headers=True, partitions={PARTITION: progress}))
    return lambda: load_state(Path(folder))


@pytest.mark.parametrize(
    ("remember", "count"),
    [(ingested, 3), (published, 3), (migrated, 1)],
    ids=["ingest", "publish", "migrate"],
)
def test_a_file_that_was_cut_or_in_which_a_bit_has_changed_is_named(
    remember: Callable[[str], Callable[[], object]], count: int, tmp_path: Path
) -> None:
    """``read`` raises an error that names it, in one line, or gives what it gave before."""
    read = remember(str(tmp_path))
    files = [file for file in tmp_path.glob("*.json") if not file.name.startswith("begun")]
    assert len(files) == count
    for file in files:
        wanted, data = read(), file.read_bytes()
        texts = [*damaged(data, 5)]
        said: list[str] = []
        for item in texts:
            file.write_bytes(item)
            try:
                assert read() == wanted
            except KafkaWireError as error:
                said.append(str(error))
        file.write_bytes(data)
        assert_noticed(said, len(texts))
        assert all(str(file) in line and line.isprintable() for line in said)


KIND: Final = StateFormat("ingest 2", "a plan", "")
CONTENT: Final[dict[str, Any]] = {"batch": 7, "at": {"größe": {"0-1": 123}}, "schema": None, "gone": []}


def test_a_text_that_was_cut_or_in_which_a_bit_has_changed_is_never_another_one() -> None:
    wanted = KIND.unseal(KIND.seal(CONTENT))
    assert {key: wanted[key] for key in CONTENT} == CONTENT
    said = []
    texts = [*damaged(KIND.seal(CONTENT).encode(), 1, range(8))]
    for item in texts:
        try:
            assert KIND.unseal(item.decode("utf-8", "surrogateescape")) == wanted
        except BrokenSeal as error:
            said.append(str(error))
    assert_noticed(said, len(texts))


def lock(folder: str) -> None:
    with sole_run(FILES, [folder]):
        pass


def save_migration(folder: str) -> None:
    with StateDirectory(Path(folder)) as directory:
        directory.save(State(source_headers=False))


#: A file in a folder, and who opens it.
USES: Final = MappingProxyType[str, tuple[str, Callable[[str], object]]](
    {
        "the lock of a run": ("lock", lock),
        "the lock of a migration": ("lock", save_migration),
        "a milestone": ("lock", lambda folder: JobState(FILES, folder).reach(Milestone.BEGUN)),
        "a batch of ingest": ("0.done.json", lambda folder: IngestState(FILES, folder).newest()),
        "a plan of ingest": ("0.planned.json", lambda folder: IngestState(FILES, folder).newest()),
        "a publication": (
            "publication.json",
            lambda folder: PublishState(FILES, folder).begin(Publication("k", {})),
        ),
        "the end of a publication": ("done.json", lambda folder: PublishState(FILES, folder).done()),
        "a migration": ("migration-1.json", lambda folder: load_state(Path(folder))),
        "the id of a query": ("metadata", lambda folder: CheckpointFiles(folder).query_id()),
        "a batch of a query": ("offsets/0", lambda folder: CheckpointFiles(folder).last_batch()),
        "what an attempt has written": ("part-0", FILES.sync),
    }
)


@pytest.mark.parametrize("use", USES)
def test_a_file_of_a_state_is_a_regular_file(tmp_path: Path, use: str) -> None:
    name, open_it = USES[use]
    for kind, said in KINDS.items():
        if (use, kind) == ("what an attempt has written", "folder"):
            continue  # tasks write folders, too
        path = tmp_path / kind / name
        path.parent.mkdir(parents=True)
        special_file(path, kind)
        with pytest.raises(FileError) as refused:
            open_it(str(tmp_path / kind))
        line = str(refused.value)
        assert line.startswith(f"{path}: cannot ")
        assert line.endswith(said)
        assert line.isprintable()
