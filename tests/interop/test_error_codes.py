"""The error codes of Apache Kafka's own classes, by the jars of each broker: all of them are known."""

from __future__ import annotations

import pytest

from tests.protocol.modern.kafkas_codes import kafkas_own

from .judging import judge_of
from .versions import VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_every_code_of_a_brokers_classes_is_among_those_recorded(version: str) -> None:
    lines = [line.split("\t") for line in judge_of("ErrorsJudge.java", version)().splitlines()]
    theirs = [(int(number), name, way) for number, name, way in lines]
    assert len(theirs) > 100
    assert theirs == kafkas_own()[: len(theirs)]
