"""Pipes, sockets, devices and folders in the place of a file of a job: one line at once, and no wait."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

from spark_kafkawire.jobs.checkpoints.files import CheckpointFiles
from spark_kafkawire.jobs.ingest.state import IngestState
from spark_kafkawire.jobs.migration.state import State, StateDirectory, load_state
from spark_kafkawire.jobs.publish.state import Publication, PublishState
from spark_kafkawire.jobs.state.file_system import FileError
from spark_kafkawire.jobs.state.local_files import LocalFiles
from spark_kafkawire.jobs.state.milestones import Milestone, reach
from spark_kafkawire.jobs.state.sole_run import sole_run
from tests.support.special_files import KINDS, special_file

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
