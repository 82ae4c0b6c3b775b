"""Notes that brokers keep of a partition that is copied in transactions: read back as written, and compared
with a state."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from spark_kafkawire.clients.writing.modern.transactional.write_state import OffsetAndMetadata, write_of_id
from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.migration.notes import Note, partition_transactional_id
from spark_kafkawire.jobs.migration.routes import Route
from spark_kafkawire.jobs.migration.state import Mark
from spark_kafkawire.model import TopicPartition

ROUTE = Route(TopicPartition("old\n\N{SNOWMAN}", 2, 1), TopicPartition("new", 5))
NOTE = Note(ROUTE, Mark(9 << 40, 17, 12))


def test_a_note_is_read_back_as_it_was_written() -> None:
    assert Note.of(NOTE.record(), ROUTE, "g") == NOTE
    # Brokers take 4096 bytes, and no topic of 0.7 has a longer name than a folder.
    route = Route(TopicPartition("\N{SNOWMAN}" * 255, 2, 1), TopicPartition("n" * 249, 5))
    assert len(Note(route, Mark(1 << 62, 1 << 62, 1 << 62)).record().metadata) < 4096


@pytest.mark.parametrize(
    "route",
    [
        replace(ROUTE, source=TopicPartition("old", 2, 1)),
        replace(ROUTE, source=ROUTE.source._replace(broker=2)),
        replace(ROUTE, target=TopicPartition("new", 6)),
    ],
)
def test_the_note_of_another_partition_is_refused(route: Route) -> None:
    said = (
        r"^argument --transactional-id: group 'g' holds the note of another copy than that of "
        rf"{route.source} to"
    )
    with pytest.raises(OptionError, match=said.replace("\\", "\\\\")):
        Note.of(NOTE.record(), route, "g")


@pytest.mark.parametrize("text", ["", "{}", '{"kafkawire":1}', '{"kafkawire":1,"end":"17"}', "[" * 999])
def test_what_another_program_keeps_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="an offset that another program committed"):
        Note.of(OffsetAndMetadata(1, text), ROUTE, "g")


@pytest.mark.parametrize(
    ("mark", "after"),
    [
        (Mark(100, 10, 10), Mark(200, 20, 20)),
        (Mark(100, 10, 20), Mark(200, 20, 20)),  # a piece without messages
        (Mark(200, 20, 20), None),
        (Mark(200, 25, 20), None),  # others wrote between two runs
        (Mark(250, 20, 20), None),  # the source lost bytes
        (Mark(250, 10, 10), Mark(250, 20, 20)),  # the same, by an older copy of the state
        (Mark(300, 30, 30), None),
    ],
)
def test_a_partition_goes_on_behind_its_note_where_the_state_knows_less(
    mark: Mark, after: Mark | None
) -> None:
    assert Note(ROUTE, Mark(200, 20, 20)).mark_after(mark) == after


@pytest.mark.parametrize("topic", ["t", "driver", "3-12.0.5", "a-0", "a-driver"])
def test_no_write_of_a_name_has_the_ids_of_partitions(topic: str) -> None:
    name = partition_transactional_id("orders", Route(ROUTE.source, TopicPartition(topic, 5)))
    assert write_of_id(name) is None
    assert not re.search("-(driver|[0-9]+)$", name)
