"""The state directory of `publish`: what is published, where its runs began, and whether it is done."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.errors import CorruptDataError, DataLossError, DiscoveryError, OptionError
from spark_kafkawire.jobs.hadoop_files import Files
from spark_kafkawire.jobs.publish_logs import bounds_of, range_since, settled
from spark_kafkawire.jobs.publish_state import Done, Publication, PublishState, TopicRows
from spark_kafkawire.model import LogBounds, OffsetRange, TopicPartition

LOG: Final = TopicPartition("t", 0)
OLD_LOG: Final = TopicPartition("t", 1, 0)
TARGET: Final = "kafka.bootstrap.servers=k:9092"
PUBLICATION: Final = Publication(TARGET, {"t": TopicRows(1000, "12"), "u": TopicRows(1, "3")})


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "state")


@pytest.fixture
def state(spark: SparkSession, folder: str) -> PublishState:
    return PublishState(Files(spark), folder)


def test_a_log_is_read_from_the_first_end_that_a_run_recorded_of_it(state: PublishState) -> None:
    state.begin(PUBLICATION)
    assert state.run_count == 0
    state.begin_run({LOG: 7})
    state.begin_run({LOG: 9, OLD_LOG: 123})
    state.begin_run({OLD_LOG: 456})
    assert state.run_count == 3
    assert state.starts() == {LOG: 7, OLD_LOG: 123}


def test_a_publication_is_done_once(state: PublishState) -> None:
    state.begin(PUBLICATION)
    assert state.done() is None
    state.finish(Done(1001, 2))
    state.begin(PUBLICATION)
    assert state.done() == Done(1001, 2)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (
            Publication("broker.list=a:1", PUBLICATION.topics),
            f"was begun for {TARGET}, not for broker.list=a:1;",
        ),
        (
            Publication(TARGET, {**PUBLICATION.topics, "t": TopicRows(1200, "12")}),
            "was begun with 1,000 rows for topic 't', now there are 1,200 rows: the input or an argument",
        ),
        (
            Publication(TARGET, {**PUBLICATION.topics, "t": TopicRows(1000, "13")}),
            "was begun with 1,000 rows for topic 't', now there are 1,000 other rows: ",
        ),
        (
            Publication(TARGET, {"t": PUBLICATION.topics["t"]}),
            "was begun with 1 row for topic 'u', now there are no rows: ",
        ),
        (
            Publication(TARGET, {**PUBLICATION.topics, "w": TopicRows(2, "1")}),
            "was begun with no rows for topic 'w', now there are 2 rows: ",
        ),
    ],
)
def test_another_publication_is_refused(
    state: PublishState, folder: str, other: Publication, said: str
) -> None:
    state.begin(PUBLICATION)
    with pytest.raises(OptionError) as refused:
        state.begin(other)
    assert str(refused.value).startswith(f"argument --state: {folder} {said}")


@pytest.mark.parametrize("text", ["", "{}", '{"format": "spark-kafkawire publish 1"}', '{"format": 2}', "[]"])
def test_a_file_of_something_else_is_named(state: PublishState, folder: str, text: str) -> None:
    file = Path(folder) / "publication.json"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(CorruptDataError, match=r"publication.json is not of a publication, or damaged"):
        state.begin(PUBLICATION)


def test_what_a_log_got_since_is_a_range_unless_some_of_it_is_gone() -> None:
    assert range_since(7, LogBounds(LOG, 7, 9)) == OffsetRange(LOG, 7, 9)
    with pytest.raises(
        DataLossError, match=r"^t 0 goes from 8 to 9: what it got from offset 7 on was deleted;"
    ):
        range_since(7, LogBounds(LOG, 8, 9))
    with pytest.raises(DataLossError, match=r"from offset 7 on is not there, so it was made anew;"):
        range_since(7, LogBounds(LOG, 0, 6))


def test_a_broker_that_is_not_alive_is_named() -> None:
    cluster: Any = SimpleNamespace(leaders_of=lambda _: {LOG: None})
    with pytest.raises(
        DiscoveryError, match=r"^t 0-1: its broker is not alive, so what it has got of the rows"
    ):
        bounds_of(cluster, [LOG, OLD_LOG])


class Clock:
    """A clock that goes on while somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, time_s: float) -> None:
        self.now_s += time_s


@pytest.mark.parametrize(("grows_for_s", "waited_s"), [(0.0, 10.0), (4.5, 15.0), (50.0, 60.0), (1e9, 60.0)])
def test_logs_are_still_when_they_have_not_grown_for_a_while(grows_for_s: float, waited_s: float) -> None:
    clock = Clock()

    def ends() -> dict[TopicPartition, int]:
        return {LOG: int(min(clock.now_s - 100, grows_for_s) * 10)}

    settled(ends, 10.0, clock, clock.sleep)
    assert clock.now_s - 100 == pytest.approx(waited_s, abs=1.01)
