"""Walks over damaged segment files: each byte is of a batch that the log held, or of damage."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from spark_kafkawire.directories.files import Files, FileSystemOptions, opened
from spark_kafkawire.directories.indexes import OffsetIndex, offset_index
from spark_kafkawire.directories.slices import SegmentSlice
from spark_kafkawire.directories.walking import SegmentFile, Sound, walked
from spark_kafkawire.model import Generation
from spark_kafkawire.records.log_index import BatchIndex
from spark_kafkawire.records.log_kernels import POS, SIZE
from tests.clients.reading.damaged_directories import SEGMENT_ENTRIES, written
from tests.records.damaged_logs import (
    FORMATS,
    DamagedLog,
    codecs_of,
    damaged_log,
    is_free,
    may_be_lost,
    may_show_content,
)
from tests.support.failing_case import failing_case
from tests.support.short_and_long import short_and_long

_KINDS = [
    (form, codec, is_mixed)
    for form in FORMATS
    for codec in codecs_of(form)
    for is_mixed in ((False, True) if codec != "none" else (False,))
]
Span = tuple[int, int]


@short_and_long("count", short=16, long=1_000)
@pytest.mark.parametrize(("form", "codec", "is_mixed"), _KINDS)
def test_sound_batches_are_those_of_the_log(
    form: int, codec: str, is_mixed: bool, count: int, tmp_path: Path
) -> None:
    files = opened(str(tmp_path), FileSystemOptions())
    for seed in range(count):
        with failing_case(f"damaged_log({seed}, {form}, {codec!r}, is_mixed={is_mixed})"):
            log = damaged_log(seed, form, codec, is_mixed=is_mixed)
            log_slice = written(log, tmp_path, is_indexed=seed % 2 == 0)
            window_bytes = (150, 1000, 8 << 20)[seed % 3]
            for number, segment in enumerate(log_slice.segments):
                sound = spans(files, tmp_path, segment, log_slice.generation, window_bytes)
                check(log, number * SEGMENT_ENTRIES, segment.size, sound)
            for path in tmp_path.iterdir():
                path.unlink()


def spans(
    files: Files, folder: Path, segment: SegmentSlice, generation: Generation, window_bytes: int
) -> set[Span]:
    """The sound batches as positions in the file; all other bytes are damage."""
    path = folder / segment.name
    file = SegmentFile(str(path), segment.size, segment.base_offset, segment.next_base, generation)

    def find_index() -> OffsetIndex | None:
        index = path.with_suffix(".index")
        return offset_index(index.read_bytes(), segment.base_offset) if index.exists() else None

    sound, parts = set[Span](), list[Span]()
    for part in walked(files, file, find_index, window_bytes=window_bytes):
        if not isinstance(part, Sound):
            parts.append((part.pos, part.stop))
            continue
        index = part.index
        if isinstance(index, BatchIndex):
            starts, sizes = index.column(POS), index.column(SIZE)
        else:
            starts, sizes = index.pos, index.payload_pos + index.payload_size - index.pos
        found = [
            (part.pos + start, part.pos + start + size)
            for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)
        ]
        sound.update(found)
        parts += found
    assert all(left[1] == right[0] for left, right in pairwise(parts))
    assert not parts or (parts[0][0], parts[-1][1]) == (0, segment.size)
    return sound


def check(log: DamagedLog, first: int, size: int, sound: set[Span]) -> None:
    """Compare the sound batches of a segment with the entries of the log from ``first`` on."""
    begin = log.positions[first]
    entries = {
        (log.positions[i] - begin, log.positions[i + 1] - begin): i
        for i in range(first, min(first + SEGMENT_ENTRIES, len(log.entries)))
    }
    assert max(stop for _, stop in entries) == size
    if not is_free(log) and not may_show_content(log):
        # A damaged compressed message of magic 0 or 1 may hold its content as it is, with right checksums.
        held = [span for span, i in entries.items() if log.form < 2 and log.is_damaged(i)]
        for span in sound - entries.keys():
            assert any(start < span[0] and span[1] <= stop for start, stop in held), f"{span} was never held"
        assert not [i for span in sound & entries.keys() if log.is_damaged(i := entries[span])]
    for span, index in entries.items():
        if not log.is_damaged(index) and span not in sound:
            assert may_be_lost(log, index), f"entry {index} was lost, and no byte of it was flipped"
