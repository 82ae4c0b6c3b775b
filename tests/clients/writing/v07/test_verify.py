"""Finding what was sent in a partition that others write to as well."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.clients.writing.v07 import verify
from spark_kafkawire.clients.writing.v07.verify import SentSet, SetMatcher, read_back
from spark_kafkawire.errors import CorruptDataError, DeliveryError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net import transport
from spark_kafkawire.net.client import Client
from spark_kafkawire.protocol.v07 import FetchRequest, FetchResponse
from spark_kafkawire.records.message_set.encoding import EncodedSet, encode
from tests.support.writing import binary

#: Where the log was when the first set was sent.
START_OFFSET = 1000


def message_set(*values: bytes, compression: str = "none") -> EncodedSet:
    return EncodedSet(encode(binary(values), compression), len(values))


def matched(sent: list[EncodedSet], log: bytes, chunk_size: int = 1 << 20) -> SetMatcher:
    """The matcher after it was fed with all of the log, as far as it asked for it."""
    matcher = SetMatcher([SentSet.of(each) for each in sent], START_OFFSET)
    while not matcher.done and (pos := matcher.next_offset - START_OFFSET) < len(log):
        matcher.feed(log[pos : pos + chunk_size])
    return matcher


def joined(*sets: EncodedSet) -> bytes:
    return b"".join(bytes(each.data) for each in sets)


def test_sets_that_lie_one_after_the_other_are_found() -> None:
    sent = [message_set(b"a", b"bb"), message_set(b"ccc", compression="gzip"), message_set(b"")]
    matcher = matched(sent, joined(*sent))
    assert matcher.done
    assert matcher.missing == []
    assert matcher.found == (START_OFFSET, START_OFFSET + len(joined(*sent)))


def test_messages_of_others_before_between_and_after_are_passed_over() -> None:
    first, second, other = message_set(b"a"), message_set(b"b"), message_set(b"x", b"y", compression="snappy")
    matcher = matched([first, second], joined(other, first, other, other, second, other))
    assert matcher.done
    assert matcher.missing == []
    assert matcher.found == (
        START_OFFSET + len(joined(other)),
        START_OFFSET + len(joined(other, first, other, other, second)),
    )


def test_a_set_is_missing_once_a_later_one_is_found() -> None:
    first, second, third = message_set(b"a"), message_set(b"b", b"b"), message_set(b"c")
    matcher = matched([first, second, third], joined(first, third))
    assert matcher.done
    assert [each.message_count for each in matcher.missing] == [2]


def test_a_set_whose_middle_was_changed_is_not_the_set_that_was_sent() -> None:
    sent = message_set(b"first", b"second", b"third")
    stored = bytes(sent.data).replace(b"second", b"SECOND")
    matcher = matched([sent], stored)
    assert not matcher.done
    matcher.finish()
    assert len(matcher.missing) == 1


def test_half_of_a_set_is_waited_for_and_then_missing() -> None:
    sent = message_set(b"first", b"second")
    matcher = matched([sent], bytes(sent.data)[:15])
    assert not matcher.done
    assert matcher.next_offset == START_OFFSET + 15
    matcher.finish()
    assert matcher.done
    assert len(matcher.missing) == 1
    assert matcher.found is None


def test_equal_sets_are_counted() -> None:
    sent = [message_set(b"same")] * 3
    matcher = matched(sent, joined(*sent[:2]))
    assert not matcher.done
    matcher.finish()
    assert len(matcher.missing) == 1


def test_a_message_longer_than_its_chunks_is_passed_over() -> None:
    other, sent = message_set(b"x" * 1000), message_set(b"a")
    log = joined(other, sent)
    matcher = matched([sent], log, 7)
    assert matcher.done
    assert matcher.missing == []


def test_a_foreign_message_takes_no_memory_however_long_it_says_it_is() -> None:
    sent = message_set(b"a")
    matcher = matched([sent], b"\x7f\xff\xff\xff\x01\x00" + b"x" * 100)
    assert matcher.next_offset == START_OFFSET + 4 + 0x7FFFFFFF
    assert not matcher.done


def test_bytes_that_are_no_message_are_an_error() -> None:
    with pytest.raises(CorruptDataError, match=r"no message of Kafka 0\.7 begins here"):
        matched([message_set(b"a")], b"\0" * 20)


class SlowLog:
    """A partition on a clock of its own: it shows ``sets`` one by one, each ``interval_s`` after the last."""

    def __init__(self, sets: list[EncodedSet], interval_s: float) -> None:
        self.now_s = 0.0
        self._sets = sets
        self._interval_s = interval_s
        self._request_count = 0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def request(self, request: FetchRequest) -> FetchResponse:
        self._request_count += 1
        assert self._request_count < 10_000, "looking has no end"
        shown = joined(*self._sets[: int(self.now_s / self._interval_s)])
        return FetchResponse(0, shown[request.offset - START_OFFSET :])


def found_in(
    log: SlowLog, sent: list[EncodedSet], monkeypatch: pytest.MonkeyPatch, stop_offset: int = START_OFFSET
) -> tuple[int, int]:
    for module in (verify, transport):
        monkeypatch.setattr(module, "time", log)
    visible = START_OFFSET, stop_offset
    fingerprints = [SentSet.of(each) for each in sent]
    return read_back(cast(Client, log), TopicPartition("t", 0, 0), fingerprints, visible, timeout_s=1.0)


def test_each_set_that_becomes_visible_renews_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [message_set(b"%d" % number) for number in range(5)]
    log = SlowLog(sent, interval_s=0.7)
    assert found_in(log, sent, monkeypatch) == (START_OFFSET, START_OFFSET + len(joined(*sent)))
    assert log.now_s == pytest.approx(5 * 0.7, abs=0.1)


def test_a_set_that_stays_away_is_given_up_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [message_set(b"%d" % number) for number in range(3)]
    log = SlowLog(sent[:2], interval_s=0.7)
    with pytest.raises(DeliveryError, match=r"^t 0-0: 1 of 3 written messages \(1 of 3 sets\)"):
        found_in(log, sent, monkeypatch)
    assert log.now_s == pytest.approx(2 * 0.7 + 1.0, abs=0.1)


def test_a_partition_that_shows_less_than_it_says_to_hold_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = message_set(b"own")
    log = SlowLog([], interval_s=0.1)
    with pytest.raises(DeliveryError, match=r"1 of 1 written messages .* from offset 1000 to 1000"):
        found_in(log, [own], monkeypatch, stop_offset=START_OFFSET + len(own.data))
    assert log.now_s == pytest.approx(1.0, abs=0.2)


def test_messages_of_others_do_not_renew_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    log = SlowLog([message_set(b"other")] * 100, interval_s=0.1)
    with pytest.raises(DeliveryError, match="1 of 1 written messages"):
        found_in(log, [message_set(b"own")], monkeypatch)
    assert log.now_s == pytest.approx(1.0, abs=0.2)


@given(
    st.lists(st.tuples(st.sampled_from(["own", "lost", "other"]), st.binary(max_size=30)), max_size=30),
    st.integers(1, 200),
)
def test_exactly_the_lost_sets_are_missing_however_the_log_is_cut(
    events: list[tuple[str, bytes]], chunk_size: int
) -> None:
    # A number in each value tells the sets apart: of equal sets the last ones count as missing.
    sets = [(kind, message_set(value, b"%d" % number)) for number, (kind, value) in enumerate(events)]
    log = joined(*(each for kind, each in sets if kind != "lost"))
    sent = [each for kind, each in sets if kind != "other"]
    matcher = matched(sent, log, chunk_size)
    matcher.finish()
    assert matcher.missing == [SentSet.of(each) for kind, each in sets if kind == "lost"]
