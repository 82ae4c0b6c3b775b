"""Lines whose cells stand below each other."""

from __future__ import annotations

from spark_kafkawire.jobs.shell.aligned import aligned


def test_words_stand_to_the_left_and_numbers_to_the_right() -> None:
    assert aligned([["a", "1,000 messages", ""], ["longer", "5 messages", "equal"]]) == [
        "a       1,000 messages",
        "longer      5 messages  equal",
    ]


def test_nothing_is_no_line() -> None:
    assert aligned([]) == []
