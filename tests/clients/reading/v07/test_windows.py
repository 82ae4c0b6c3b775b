"""The order in which byte windows are asked for and given out."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.clients.reading.v07.windows import Window, Windows


def ask_all(windows: Windows[bytes]) -> list[Window]:
    asked = []
    while (window := windows.ask()) is not None:
        asked.append(window)
    return asked


def test_so_many_windows_are_on_their_way() -> None:
    windows: Windows[bytes] = Windows(100, 1000, 64, 3)
    assert ask_all(windows) == [Window(100, 64), Window(164, 64), Window(228, 64)]


def test_the_last_window_ends_with_the_range() -> None:
    assert ask_all(Windows(0, 100, 64, 9)) == [Window(0, 64), Window(64, 36)]


def test_the_gap_of_a_short_answer_is_asked_for_and_later_answers_wait() -> None:
    windows: Windows[bytes] = Windows(0, 30, 10, 3)
    ask_all(windows)
    windows.answer(0, b"aaaa", 4)
    windows.answer(10, b"b" * 10, 10)
    assert windows.take() == b"aaaa"
    assert windows.take() is None
    assert windows.ask() == Window(4, 6)
    windows.answer(20, b"c" * 10, 10)
    windows.answer(4, b"a" * 6, 6)
    assert [windows.take(), windows.take(), windows.take()] == [b"a" * 6, b"b" * 10, b"c" * 10]
    assert windows.done


def test_gaps_are_asked_for_in_the_order_of_the_log_however_their_answers_came() -> None:
    windows: Windows[bytes] = Windows(0, 30, 10, 3)
    ask_all(windows)
    windows.answer(20, b"c" * 4, 4)
    windows.answer(0, b"a" * 4, 4)
    windows.answer(10, b"b" * 4, 4)
    assert ask_all(windows) == [Window(4, 6), Window(14, 6), Window(24, 6)]


def test_after_a_lost_connection_only_what_has_not_come_is_asked_again() -> None:
    windows: Windows[bytes] = Windows(0, 40, 10, 3)
    ask_all(windows)
    windows.answer(10, b"b" * 10, 10)
    windows.restart()
    assert ask_all(windows) == [Window(0, 10), Window(20, 10)]


def test_a_jump_forgets_what_is_held() -> None:
    windows: Windows[bytes] = Windows(0, 40, 10, 3)
    ask_all(windows)
    windows.answer(10, b"b" * 10, 10)
    windows.restart(25)
    assert windows.next_offset == 25
    assert ask_all(windows) == [Window(25, 10), Window(35, 5)]


@given(
    st.binary(min_size=1, max_size=300),
    st.integers(1, 40),
    st.integers(1, 5),
    st.lists(st.integers(0, 299), max_size=6),
    st.sets(st.integers(0, 60), max_size=8),
)
def test_the_stream_is_the_log_and_no_byte_comes_twice(
    log: bytes, window_bytes: int, in_flight: int, segment_ends: list[int], losses: set[int]
) -> None:
    windows: Windows[bytes] = Windows(0, len(log), window_bytes, in_flight)
    on_their_way: list[Window] = []
    stream, received = b"", 0
    for step in count():
        if windows.done:
            break
        on_their_way += ask_all(windows)
        if step in losses:
            windows.restart()
            on_their_way = []
            continue
        if (chunk := windows.take()) is not None:
            stream += chunk
            continue
        window = on_their_way.pop(0)
        segment_end = min((end for end in segment_ends if end > window.offset), default=len(log))
        data = log[window.offset : min(window.offset + window.size, segment_end)]
        received += len(data)
        windows.answer(window.offset, data, len(data))
    assert stream == log
    assert received == len(log)
