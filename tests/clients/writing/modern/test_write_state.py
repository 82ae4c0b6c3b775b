"""Groups of writes are distinguished from groups of consumers by all of their content."""

from __future__ import annotations

from typing import Final

import pytest

from spark_kafkawire.clients.writing.modern.transactional.write_state import (
    BatchId,
    CommittedBatch,
    Decision,
    OffsetAndMetadata,
    decision_groups,
    driver_id,
    encode_metadata,
    may_be_group_of_write,
    task_group,
    write_of_group,
)
from spark_kafkawire.cluster.modern.transactions import Transaction
from spark_kafkawire.jobs.migration.notes import Note, partition_transactional_id
from spark_kafkawire.jobs.migration.routes import Route
from spark_kafkawire.jobs.migration.state import Mark
from spark_kafkawire.model import TopicPartition
from tests.support.cases import for_each

#: With dashes and numbers, as names of others end.
NAME: Final = "orders-7-driver"
OPEN: Final = tuple(Transaction(f"{NAME}-{number}-7.0.1", 7, 0, 2) for number in range(100))
DECISION: Final = Decision(3, BatchId("b"), 100, 100, OPEN, ("t",), 1, OPEN[0].id).records(NAME)
TOPICS: Final = (("events-eu", "1"), ("events-us", "2"))
[BATCH, OTHER] = CommittedBatch(BatchId("q", 4, is_stream=True), 2, 10, 1 << 63, 1, TOPICS).records()
ROUTE: Final = Route(TopicPartition("events-eu", 1, 0), TopicPartition("events-eu", 5))
NOTE: Final = Note(ROUTE, Mark(100, 7, 3)).record()
#: What Java's and Python's consumers leave beside an offset.
OF_CONSUMER: Final = OffsetAndMetadata(5, "")


def test_every_group_of_a_write_is_known_with_its_name() -> None:
    for group, record in zip(decision_groups(driver_id(NAME), len(DECISION)), DECISION, strict=True):
        assert write_of_group(group, [record]) == NAME
    assert write_of_group(task_group(NAME, 12), [BATCH]) == NAME
    # Beside logs of two topics.
    assert write_of_group(task_group(NAME, 12), [BATCH, OTHER]) == NAME
    assert write_of_group(partition_transactional_id(NAME, ROUTE), [NOTE]) == NAME


@for_each("group", [driver_id(NAME), task_group(NAME, 12), partition_transactional_id(NAME, ROUTE)])
@for_each(
    "records",
    [
        [],
        [OF_CONSUMER],
        [BATCH, OF_CONSUMER],
        [DECISION[0], OF_CONSUMER],
        [NOTE, OF_CONSUMER],
        [BATCH, DECISION[0], NOTE],
        [OffsetAndMetadata(1, "{}")],
        [OffsetAndMetadata(1, '{"kafkawire":2}')],
        [OffsetAndMetadata(1, encode_metadata(batch="b"))],
        [OffsetAndMetadata(1, "[" * 5000)],
    ],
    ids=lambda records: "+".join(record.metadata[:24] for record in records),
)
def test_a_group_of_a_like_name_is_a_consumers_unless_all_that_it_holds_is_a_write_s(
    group: str, records: list[OffsetAndMetadata]
) -> None:
    assert may_be_group_of_write(group)
    assert write_of_group(group, records) is None


@pytest.mark.parametrize(
    "group", ["orders", "orders-", "orders-x", "-driver", "7", "driver", "orders-drivers"]
)
def test_a_record_of_a_write_makes_no_group_of_another_name_a_write_s(group: str) -> None:
    assert not may_be_group_of_write(group)
    assert write_of_group(group, [BATCH]) is None
    assert write_of_group(group, [DECISION[0]]) is None


def test_a_note_of_another_partition_is_no_proof() -> None:
    other = Route(ROUTE.source, TopicPartition("events-eu", 6))
    assert write_of_group(partition_transactional_id(NAME, other), [NOTE]) is None
