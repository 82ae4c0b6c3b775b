"""Recorded exchanges that need a state of their own: flushing, retention, recovery, JVM clients."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.broker import EmbeddedCluster, log
from tests.support import golden, replay
from tests.support.embedded import StartBroker
from tests.support.message_sets import message
from tests.support.polling import poll

DAY_MS: Final = 24 * 3600 * 1000
#: The recording proxy between JVM client and broker did not tell when the broker closed.
CLOSE_NOT_RECORDED: Final = {"jvm/simple_consumer/conn0/req20", "jvm/simple_consumer/conn1/req0"}


@dataclass
class Clock:
    """A clock that tests set."""

    now_ms: int = 1795251708000

    def __call__(self) -> int:
        return self.now_ms


def recorded(group: str) -> list[golden.Exchange]:
    return [exchange for exchange in golden.exchanges() if exchange.group == group]


def test_appends_are_invisible_until_the_flush_interval_has_passed(start_broker: StartBroker) -> None:
    clock = Clock()
    properties = {
        "log.flush.interval": "1000",
        "log.default.flush.interval.ms": "1500",
        "log.default.flush.scheduler.interval.ms": "10",
    }
    broker = start_broker(properties, clock_ms=clock)
    *before, after = recorded("visibility")
    replay.produce(broker.port, ("lab-unfl", 0), after.response[6:])
    clock.now_ms += 1499
    for exchange in before:
        assert not replay.differences(exchange, broker.port)
    clock.now_ms += 1
    poll(lambda: replay.end_offset(broker.port, ("lab-unfl", 0)), "the log is flushed by time")
    assert not replay.differences(after, broker.port)


def test_the_flush_interval_counts_messages_inside_compressed_ones(start_broker: StartBroker) -> None:
    broker = start_broker({"log.flush.interval": "3"})
    three_in_one = golden.exchange("produce/gzip_jvm").request[26:]
    replay.produce(broker.port, ("t", 0), message(b"1") + message(b"2"))
    assert replay.end_offset(broker.port, ("t", 0)) == 0
    replay.produce(broker.port, ("t", 1), three_in_one)
    assert replay.end_offset(broker.port, ("t", 1)) == len(three_in_one)


def test_retention_by_size_deletes_whole_old_segments(start_broker: StartBroker) -> None:
    broker = start_broker({"log.file.size": "65536", "log.retention.size": "400000"})
    log = ("lab-retain", 0)
    for _ in range(40):
        replay.produce(broker.port, log, 25 * message(b"x" * 1000))
    folder = broker.config.log_dir / "lab-retain-0"
    assert [path.stat().st_size for path in sorted(folder.iterdir())] == 13 * [75750] + [25250]
    assert broker.logs.delete_old() == 8
    assert min(folder.iterdir()).name == "00000000000000606000.kafka"
    for exchange in recorded("retention"):
        assert not replay.differences(exchange, broker.port)
    assert replay.offsets(broker.port, log, -2, 10) == (606000,)
    assert replay.fetch(broker.port, log, 606000, 1010) == message(b"x" * 1000)


def test_a_log_that_aged_out_goes_on_at_its_old_end_and_an_empty_one_does_not_age(
    start_broker: StartBroker,
) -> None:
    clock = Clock()
    broker = start_broker(clock_ms=clock)
    replay.produce(broker.port, ("lab-aged", 0), 9 * message(b"x" * 90))
    replay.produce(broker.port, ("t", 0), b"")
    clock.now_ms += 7 * DAY_MS
    assert broker.logs.delete_old() == 0
    clock.now_ms += 1
    assert broker.logs.delete_old() == 1
    folder = broker.config.log_dir / "lab-aged-0"
    assert [path.name for path in folder.iterdir()] == ["00000000000000000900.kafka"]
    for exchange in recorded("aged_out"):
        assert not replay.differences(exchange, broker.port)
    assert replay.offsets(broker.port, ("t", 0), -1, 10) == (0,)


@pytest.mark.slow
def test_a_killed_broker_cuts_half_a_message_off_at_its_next_start(tmp_path: Path) -> None:
    with EmbeddedCluster(1, zookeeper=False, log_dirs=[tmp_path]) as cluster:
        (broker,) = cluster.brokers
        replay.produce(broker.port, ("lab-crash", 0), message(b"whole-1") + message(b"whole-2"))
        broker.kill()
        segment = tmp_path / "lab-crash-0" / "00000000000000000000.kafka"
        whole = segment.read_bytes()
        assert len(whole) == 34
        segment.write_bytes(whole + message(b"half a message")[:18])
        broker.start()
        assert segment.read_bytes() == whole
        (exchange,) = recorded("recovery")
        assert not replay.differences(exchange, broker.port)


#: Messages of which some are larger than the window of recovery that the tests set.
WHOLE: Final = b"".join(message(b"x" * size) for size in (0, 1, 100, 9, 10, 11, 3000, 2))


@pytest.mark.parametrize(
    ("whole", "rest", "is_clean"),
    [
        (message(b"one"), message(b"two")[:-1] + b"!" + message(b"three"), False),
        (WHOLE, message(b"cut")[:-1], False),
        # A broker that was stopped in order does not look for damage.
        (message(b"one") + b"half", b"", True),
    ],
    ids=["damaged", "cut", "stopped in order"],
)
def test_recovery_ends_at_the_first_damage_in_the_last_segment(
    tmp_path: Path,
    start_broker: StartBroker,
    monkeypatch: pytest.MonkeyPatch,
    whole: bytes,
    rest: bytes,
    is_clean: bool,
) -> None:
    monkeypatch.setattr(log, "RECOVERY_WINDOW_BYTES", 20)
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "00000000000000000000.kafka").write_bytes(whole + rest)
    if is_clean:
        (tmp_path / ".kafka_cleanshutdown").touch()
    assert replay.end_offset(start_broker().port, ("t", 0)) == len(whole)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_what_jvm_clients_sent_is_answered_as_it_was(tmp_path: Path, start_broker: StartBroker) -> None:
    folders = (golden.SEGMENTS / "runA-broker0").iterdir()
    golden.copy_segments(tmp_path, *(f"runA-broker0/{folder.name}" for folder in folders))
    broker = start_broker()
    replayed = [exchange for exchange in recorded("jvm") if exchange.name not in CLOSE_NOT_RECORDED]
    assert len(replayed) == 31
    for exchange in replayed:
        assert not replay.differences(exchange, broker.port), exchange.name
    # Offsets of a partition that is not there.
    for name in CLOSE_NOT_RECORDED:
        with pytest.raises(AssertionError, match="no answer: closed"):
            replay.ask(broker.port, golden.exchange(name).request)


@pytest.mark.parametrize("broker_id", [0, 1])
def test_a_broker_serves_the_logs_that_a_real_one_wrote(
    tmp_path: Path, start_broker: StartBroker, broker_id: int
) -> None:
    files = sorted((golden.CORPUS / f"broker{broker_id}").glob("*/*.kafka"))
    shutil.copytree(golden.CORPUS / f"broker{broker_id}", tmp_path, dirs_exist_ok=True)
    broker = start_broker()
    assert len(files) == 12
    for path in files:
        topic, _, partition = path.parent.name.rpartition("-")
        log, start_offset = (topic, int(partition)), int(path.stem)
        assert replay.fetch(broker.port, log, start_offset, 1 << 30) == path.read_bytes()
        assert start_offset in replay.offsets(broker.port, log, -1, 10)


def test_a_set_larger_than_a_segment_stays_whole_and_the_next_append_rolls(start_broker: StartBroker) -> None:
    broker = start_broker({"log.file.size": "65536"})
    log = ("lab-p-bigset", 0)
    replay.produce(broker.port, log, b"".join(message(letter * 30000) for letter in (b"a", b"b", b"c")))
    replay.produce(broker.port, log, message(b"next"))
    folder = golden.SEGMENTS / "runB-broker0" / "lab-p-bigset-0"
    for path in folder.iterdir():
        assert (broker.config.log_dir / folder.name / path.name).read_bytes() == path.read_bytes()
    assert replay.offsets(broker.port, log, -1, 10) == (90044, 90030, 0)


def test_a_segment_rolls_when_its_first_append_is_too_old(start_broker: StartBroker) -> None:
    clock = Clock()
    broker = start_broker({"log.roll.hours": "1"}, clock_ms=clock)
    replay.produce(broker.port, ("t", 0), message(b"old"))
    clock.now_ms += 3_600_000
    replay.produce(broker.port, ("t", 0), message(b"in time"))
    clock.now_ms += 1
    replay.produce(broker.port, ("t", 0), message(b"too late"))
    second = len(message(b"old") + message(b"in time"))
    assert replay.offsets(broker.port, ("t", 0), -1, 10) == (second + len(message(b"too late")), second, 0)
