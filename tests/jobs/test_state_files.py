"""Files that jobs remember things in: damaged, special, sealed; none is ever taken for another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.jobs.checkpoints.files import CheckpointFiles
from spark_kafkawire.jobs.ingest.state import IngestState
from spark_kafkawire.jobs.migration.state import State, StateDirectory, load_state
from spark_kafkawire.jobs.publish.state import Publication, PublishState
from spark_kafkawire.jobs.state.file_system import FileError
from spark_kafkawire.jobs.state.local_files import LocalFiles
from spark_kafkawire.jobs.state.milestones import Milestone, reach
from spark_kafkawire.jobs.state.sealed import BrokenSeal, seal, unseal
from spark_kafkawire.jobs.state.sole_run import sole_run
from tests.support.special_files import KINDS, special_file


_BITS: Final = tuple(1 << bit for bit in range(8))


def damaged(data: bytes, *, all_bits: bool = False) -> Iterator[bytes]:
    """The data cut at each place, and with a bit of each byte changed: each of them, or each in turn."""
    # The last byte ends the line, which says nothing.
    for size in range(len(data) - 1):
        yield data[:size]
    for place in range(len(data)):
        for bit in _BITS if all_bits else (_BITS[place % 8],):
            yield data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :]


def assert_damage_is_noticed(file: Path, read: Callable[[], object]) -> None:
    """Damage a file: ``read`` raises an error that names it, in one line, or gives what it gave before."""
    wanted, data = read(), file.read_bytes()
    said: list[str] = []
    count = 0
    for each in damaged(data):
        file.write_bytes(each)
        count += 1
        try:
            assert read() == wanted
        except KafkaWireError as error:
            said.append(str(error))
    file.write_bytes(data)
    assert_noticed(said, count)
    assert all(str(file) in line and line.isprintable() for line in said)


def assert_noticed(said: Sequence[str], count: int) -> None:
    """Assert that almost all damage is reported: only changes of blanks or of a letter's escape are none."""
    assert len(said) > 0.95 * count


KIND: Final = "ingest 2"
CONTENT: Final[dict[str, Any]] = {
    "batch": 7,
    "positions": {"größe": {"0-1": 123}},
    "schema": None,
    "gone": [],
}


def test_what_was_sealed_is_read_back() -> None:
    found = unseal(seal(KIND, CONTENT), KIND)
    assert {key: found[key] for key in CONTENT} == CONTENT


def test_a_text_that_was_cut_or_in_which_a_bit_has_changed_is_never_another_one() -> None:
    wanted = unseal(seal(KIND, CONTENT), KIND)
    said = []
    texts = [*damaged(seal(KIND, CONTENT).encode(), all_bits=True)]
    for each in texts:
        try:
            assert unseal(each.decode("utf-8", "surrogateescape"), KIND) == wanted
        except BrokenSeal as error:
            said.append(str(error))
    assert_noticed(said, len(texts))


FILES: Final = LocalFiles()


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
        "a milestone": ("lock", lambda folder: reach(FILES, folder, Milestone.BEGUN)),
        "a batch of ingest": ("0.done.json", lambda folder: IngestState(FILES, folder).newest()),
        "a plan of ingest": ("0.planned.json", lambda folder: IngestState(FILES, folder).newest()),
        "a publication": (
            "publication.json",
            lambda folder: PublishState(FILES, folder).begin(Publication("k", {})),
        ),
        "the end of a publication": ("done.json", lambda folder: PublishState(FILES, folder).done()),
        "a migration": ("migration-1.json", lambda folder: load_state(Path(folder))),
        "the id of a query": ("metadata", lambda folder: CheckpointFiles(folder).query_id()),
        "what an attempt has written": ("part-0", FILES.sync),
    }
)


@pytest.mark.parametrize(
    ("use", "kind"),
    # Tasks write folders, too.
    [
        (use, kind)
        for use in USES
        for kind in KINDS
        if (use, kind) != ("what an attempt has written", "folder")
    ],
)
def test_a_file_of_a_state_is_a_regular_file(tmp_path: Path, use: str, kind: str) -> None:
    name, open_it = USES[use]
    path = special_file(tmp_path / name, kind)
    with pytest.raises(FileError) as refused:
        open_it(str(tmp_path))
    line = str(refused.value)
    assert line.startswith(f"{path}: cannot ")
    assert line.endswith(KINDS[kind])
    assert line.isprintable()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_a_query_is_a_regular_file(tmp_path: Path, kind: str) -> None:
    (tmp_path / "offsets").mkdir()
    path = special_file(tmp_path / "offsets" / "0", kind)
    with pytest.raises(FileError) as refused:
        CheckpointFiles(str(tmp_path)).last_batch()
    assert str(refused.value) == f"{path}: cannot read: {KINDS[kind]}"
