"""Options of a publication, from those that a user gives."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.publish.options import SETTLE_S, PublishOptions
from spark_kafkawire.options import ReadOptions, WriteOptions

OLD = {"zookeeper.connect": "z:2181"}
MODERN = {"kafka.bootstrap.servers": "k:9092"}


@pytest.mark.parametrize(
    ("given", "acks"),
    [
        (OLD, "verify"),
        ({**OLD, "Acks": "verify"}, "verify"),
        (MODERN, "all"),
        ({**MODERN, "kafka.acks": "-1"}, "all"),
    ],
)
def test_with_a_state_rows_are_acknowledged_so_that_they_are_found(given: dict[str, str], acks: str) -> None:
    assert PublishOptions.parse(given, state="/s").write.acks == acks


@pytest.mark.parametrize(
    ("given", "needed"),
    [
        ({**OLD, "acks": "1"}, "verify"),
        ({**OLD, "ACKS": "0"}, "verify"),
        ({**MODERN, "kafka.acks": "1"}, "all"),
    ],
)
def test_other_acks_are_refused_with_a_state_alone(given: dict[str, str], needed: str) -> None:
    with pytest.raises(OptionError, match=rf"^option acks: with --state it is {needed}, by which rows are"):
        PublishOptions.parse(given, state="/s")
    assert PublishOptions.parse(given).state is None


def test_a_time_to_settle_goes_with_a_state() -> None:
    with pytest.raises(OptionError, match=r"^argument --settle-seconds needs --state$"):
        PublishOptions.parse(MODERN, settle_s=3)
    for given_s, settle_s in ((None, SETTLE_S), (3, 3)):
        state = PublishOptions.parse(MODERN, state="/s", settle_s=given_s).state
        assert state is not None
        assert state.settle_s == settle_s


def test_the_partitions_are_read_back_with_what_the_write_connects_by() -> None:
    given = {**MODERN, "compression": "gzip", "kafka.security.protocol": "SSL"}
    state = PublishOptions.parse({**given, "topic": "t"}, state="/s").state
    assert state is not None
    assert state.reading == {**MODERN, "kafka.security.protocol": "SSL", "includeHeaders": "true"}
    assert state.read.include_headers
    old = PublishOptions.parse({**OLD, "topic": "t"}, state="/s").state
    assert old is not None
    assert old.reading == OLD


def test_the_options_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[type] = []

    def counting(kind: type[ReadOptions] | type[WriteOptions]) -> None:
        parse = kind.parse

        def counted(raw: Mapping[str, str]) -> ReadOptions | WriteOptions:
            parsed.append(kind)
            return parse(raw)

        monkeypatch.setattr(kind, "parse", counted)

    counting(ReadOptions)
    counting(WriteOptions)
    options = PublishOptions.parse({**OLD, "topic": "t"}, state="/s")
    assert options.schema.stored == {"value"}
    assert parsed == [WriteOptions, ReadOptions]


def test_no_secret_is_shown() -> None:
    given = {**OLD, "zookeeper.auth": "digest:etl:hunter2"}
    assert "hunter2" not in repr(PublishOptions.parse(given, state="/s"))
