"""Reads of directories without some of their files. A planted defect is found."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final

import pytest

from spark_kafkawire.clients.reading.modern.batch_feed import BatchFeed
from tests.support.short_and_long import short_and_long

from .missing_files import operation
from .operation import EXACT

SEED: Final = 1


@short_and_long("operations", short=40, long=2000)
@pytest.mark.timeout(1800)
def test_no_row_is_lost_without_an_error(operations: int) -> None:
    ended = sum((operation(SEED, number) for number in range(operations)), start=Counter[str]())
    assert all(ended[each] for each in (EXACT, "DataLossError", "CorruptDataError")), ended


def test_a_reader_that_does_not_look_at_the_ends_of_segments_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def believe(feed: BatchFeed, offset: int) -> None:
        feed.offset = feed._covered = min(offset, feed._range.stop_offset)

    monkeypatch.setattr(BatchFeed, "_cover_to", believe)
    with pytest.raises(AssertionError, match="lost without an error"):
        list(map(partial(operation, SEED), range(60)))
