"""Windows of a large file, several requested ahead where a request takes long.

    for frame, start in windows(files, path, pos, stop_pos):
        frame[start:]       # the next bytes of the file; frame[:start] is free for bytes of the window before

A batch that the end of a window cuts can be put in front of the next window, so that it is decoded in place.
Memory is that of the windows, whatever the size of the file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from .file_systems import OpenFile
from .files import Files, reading

#: Size of a window, bytes: one request to an object store.
WINDOW_BYTES: Final = 8 << 20
#: Free bytes in front of a window: most batches fit there.
HEADROOM_BYTES: Final = 1 << 20
#: Windows that are requested at once from an object store.
AHEAD_COUNT: Final = 4


def windows(
    files: Files, path: str, pos: int, stop_pos: int, *, window_bytes: int = WINDOW_BYTES
) -> Iterator[tuple[memoryview, int]]:
    """The bytes ``[pos, stop_pos)`` of a file in order: frames, and where their bytes begin.

    A frame is overwritten when a later one is requested. The last one is shorter if the file is.
    Raises ``FileNotFoundError``, and ``FileAccessError`` (fatal).
    """
    file = files.open(path)
    try:
        spans = [(at, min(window_bytes, stop_pos - at)) for at in range(pos, stop_pos, window_bytes)]
        if files.is_local:
            buffer = _room(spans)
            for at, size in spans:
                yield _filled(files, path, file, buffer, at, size)
        else:
            yield from _ahead(files, path, file, spans)
    finally:
        file.close()


def _ahead(
    files: Files, path: str, file: OpenFile, spans: list[tuple[int, int]]
) -> Iterator[tuple[memoryview, int]]:
    count = min(AHEAD_COUNT, len(spans))
    free = [_room(spans) for _ in range(count)]
    asked: deque[tuple[Future[tuple[memoryview, int]], memoryview]] = deque()
    left = iter(spans)
    with ThreadPoolExecutor(max(count, 1), "kafkawire-files") as pool:
        try:
            while True:
                while free and (span := next(left, None)) is not None:
                    buffer = free.pop()
                    asked.append((pool.submit(_filled, files, path, file, buffer, *span), buffer))
                if not asked:
                    return
                future, buffer = asked.popleft()
                yield future.result()
                free.append(buffer)
        finally:
            for future, _ in asked:
                future.cancel()


def _room(spans: list[tuple[int, int]]) -> memoryview:
    return memoryview(bytearray(HEADROOM_BYTES + max((size for _, size in spans), default=0)))


def _filled(
    files: Files, path: str, file: OpenFile, buffer: memoryview, pos: int, size: int
) -> tuple[memoryview, int]:
    with reading(files, path):
        count = file.read_into(buffer[HEADROOM_BYTES : HEADROOM_BYTES + size], pos)
    return buffer[: HEADROOM_BYTES + count], HEADROOM_BYTES
