"""Start and end of a range, from option values and the bounds of the log."""

from __future__ import annotations

import logging

import pytest

from spark_kafkawire.errors import DataLossError, OptionError
from spark_kafkawire.model import OffsetRange, PartitionBounds, TopicPartition
from spark_kafkawire.options import COMMITTED, EARLIEST, LATEST, LimitKind, OffsetLimit, OffsetLimits
from spark_kafkawire.planner.limits import (
    End,
    check_names,
    end_of,
    range_between,
    start_of,
)

PARTITION = TopicPartition("t", 1, 0)
OTHER = TopicPartition("t", 2, 0)
FOUND = PartitionBounds(PARTITION, earliest=100, latest=1000, segment_starts=(100, 400, 700))

AT = OffsetLimits("startingTimestamp", for_all=OffsetLimit(LimitKind.TIMESTAMP, 5_500))
UNTIL = OffsetLimits("endingTimestamp", for_all=OffsetLimit(LimitKind.TIMESTAMP, 5_500))


def start(reported: int | None, *, latest_if_no_match: bool = False) -> int:
    return start_of(AT, FOUND, {PARTITION: reported}, latest_if_no_match=latest_if_no_match).offset


def test_earliest_and_latest_are_the_partitions_bounds() -> None:
    whole = OffsetLimits("startingOffsets", for_all=EARLIEST)
    assert start_of(whole, FOUND, {}, latest_if_no_match=False) == End(100)
    assert end_of(OffsetLimits("endingOffsets", for_all=LATEST), FOUND, {}) == End(1000)


def test_an_offset_keeps_the_name_of_its_option() -> None:
    limits = OffsetLimits("startingOffsets", by_partition={PARTITION: OffsetLimit(LimitKind.OFFSET, 123)})
    assert start_of(limits, FOUND, {}, latest_if_no_match=False) == End(123, "startingOffsets")


def test_a_start_by_timestamp_is_what_the_cluster_tells() -> None:
    assert start(400) == 400


def test_a_start_after_the_last_message_is_an_error_or_latest() -> None:
    with pytest.raises(
        OptionError,
        match=r"startingTimestamp: no offset matched from request: t 0-1 has no message at or after 5500",
    ):
        start(None)
    assert start(None, latest_if_no_match=True) == 1000


@pytest.mark.parametrize(("reported", "expected"), [(400, 400), (None, 1000)])
def test_an_end_by_timestamp_is_what_the_cluster_tells_or_latest(reported: int | None, expected: int) -> None:
    assert end_of(UNTIL, FOUND, {PARTITION: reported}).offset == expected


def test_a_committed_start_is_checked_as_an_offset_that_the_user_gave() -> None:
    limits = OffsetLimits("startingOffsets", for_all=COMMITTED)
    assert start_of(limits, FOUND, {PARTITION: 7}, latest_if_no_match=False) == End(7, "startingOffsets")


def test_a_group_without_a_commit_is_an_error_that_says_what_to_do() -> None:
    limits = OffsetLimits("startingOffsets", for_all=COMMITTED)
    with pytest.raises(OptionError, match=r"no offset for t 0-1; commit one, or give offsets as \{"):
        start_of(limits, FOUND, {PARTITION: None}, latest_if_no_match=True)


def test_offsets_by_partition_must_name_the_partitions_that_are_read() -> None:
    limits = OffsetLimits("startingOffsets", by_partition={PARTITION: EARLIEST})
    check_names(limits, [PARTITION])
    with pytest.raises(OptionError, match=r"startingOffsets must name exactly .*: t 0-2 is missing"):
        check_names(limits, [PARTITION, OTHER])
    with pytest.raises(OptionError, match="t 0-1 is not read, t 0-2 is missing"):
        check_names(limits, [OTHER])


def test_a_range_inside_the_log_is_taken_as_it_is() -> None:
    ends = End(100, "startingOffsets"), End(1000)
    assert range_between(*ends, FOUND, fail_on_data_loss=True) == (OffsetRange(PARTITION, 100, 1000), *ends)


def test_a_range_that_runs_backwards_names_its_options() -> None:
    with pytest.raises(
        OptionError, match=r"startingOffsets and endingOffsets: t 0-1 would start at 500 and end at 400"
    ):
        range_between(End(500, "startingOffsets"), End(400, "endingOffsets"), FOUND, fail_on_data_loss=False)


@pytest.mark.parametrize("offset", [0, 99, 1001])
def test_an_offset_outside_of_the_log_is_a_data_loss(offset: int) -> None:
    with pytest.raises(
        DataLossError, match=rf"startingOffsets: offset {offset} is not in t 0-1, which holds \[100, 1000\)"
    ):
        range_between(
            End(offset, "startingOffsets"), End(max(offset, 1000) + 1), FOUND, fail_on_data_loss=True
        )


@pytest.mark.parametrize(("offset", "taken"), [(0, 100), (99, 100), (500, 500), (1001, 1000), (2**62, 1000)])
def test_a_range_without_offsets_loses_nothing_wherever_it_lies(offset: int, taken: int) -> None:
    ends = End(offset, "startingOffsets"), End(offset, "endingOffsets")
    offset_range, _, _ = range_between(*ends, FOUND, fail_on_data_loss=True)
    assert offset_range == OffsetRange(PARTITION, taken, taken)


def test_without_fail_on_data_loss_what_survives_is_read_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "spark_kafkawire"):
        ranges = range_between(
            End(7, "startingOffsets"), End(2000, "endingOffsets"), FOUND, fail_on_data_loss=False
        )
    assert ranges == (OffsetRange(PARTITION, 100, 1000), End(100), End(1000))
    assert ["offset 7 is not in" in caplog.text, "offset 2000 is not in" in caplog.text] == [True, True]


@pytest.mark.parametrize("fail_on_data_loss", [True, False])
@pytest.mark.parametrize(
    ("option", "start_offset", "end_offset"),
    [("endingOffsets", 500, 1200), ("startingOffsets", 1100, 1200), ("startingOffsets", 1100, 1000)],
)
def test_what_a_transaction_still_holds_back_is_no_data_loss(
    fail_on_data_loss: bool, option: str, start_offset: int, end_offset: int
) -> None:
    ends = End(start_offset, "startingOffsets"), End(end_offset, "endingOffsets")
    offset = end_offset if option == "endingOffsets" else start_offset
    with pytest.raises(
        OptionError,
        match=rf"^option {option}: offset {offset} of t 0-1 is after 1000, the last stable offset: "
        r"a transaction is open there; end the range at that offset, wait until the transaction has ended, "
        r"or set kafka.isolation.level=read_uncommitted$",
    ):
        range_between(*ends, FOUND, fail_on_data_loss=fail_on_data_loss, high_watermark=1200)
    with pytest.raises((DataLossError, OptionError), match=r"is not in t 0-1|would start at"):
        range_between(*ends, FOUND, fail_on_data_loss=True, high_watermark=1050)


def test_a_range_that_is_gone_as_a_whole_is_empty() -> None:
    offset_range, _, _ = range_between(
        End(7, "startingOffsets"), End(50, "endingOffsets"), FOUND, fail_on_data_loss=False
    )
    assert offset_range.size == 0
