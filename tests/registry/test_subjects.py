"""Names of subjects by each strategy."""

from __future__ import annotations

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.registry.subjects import subject_of


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("TopicName", "t-value"), ("RecordName", "a.R"), ("TopicRecordName", "t-a.R")],
)
def test_a_strategy_names_the_subject(strategy: str, expected: str) -> None:
    assert subject_of(strategy, "t", "a.R", is_key=False) == expected
    assert subject_of("TopicName", "t", None, is_key=True) == "t-key"


def test_a_strategy_of_records_needs_a_name() -> None:
    with pytest.raises(OptionError, match="RecordName needs a schema that has a name; set keySubject"):
        subject_of("RecordName", "t", None, is_key=True)
