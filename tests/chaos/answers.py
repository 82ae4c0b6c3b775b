"""Contradictions within answers, by rules that are written here alone: the judge of clients that took them.

Nobody writes to the logs meanwhile, and nothing is deleted.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from spark_kafkawire.protocol import modern, v07
from spark_kafkawire.protocol.api import Api
from spark_kafkawire.protocol.modern.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from tests.support.memory_log import offset_count, split

from .shapes import Raw

#: Requests, and what was answered.
Answered = Sequence[tuple[Any, Any]]


def self_contradiction(api: Api, said: Answered) -> str:
    """The reason why the answers of an API alone prove that they are wrong, whoever has given them; "" if
    they prove nothing."""
    return next(_FAULTS[api](said), "") if api in _FAULTS else ""


def _of_offsets(said: Answered) -> Iterator[str]:
    starts: dict[tuple[str, int], set[int]] = collections.defaultdict(set)
    for request, response in said:
        if request.time not in (v07.LATEST_TIME, v07.EARLIEST_TIME):
            continue
        if not isinstance(response.offsets, tuple):  # what is no list at all
            continue
        if not 0 < len(response.offsets) <= max(request.max_offsets, 1):
            yield "another count of offsets than was asked for"
        elif min(response.offsets) < 0 or any(older > newer for newer, older in pairwise(response.offsets)):
            yield "offsets below 0, or not newest first"
        elif len(set(response.offsets[1:])) < len(response.offsets[1:]):
            yield "two segments that start at one offset"
        else:
            starts[request.topic, request.partition].add(response.offsets[-1])
    yield from (
        f"{partition} starts at {sorted(found)}" for partition, found in starts.items() if len(found) > 1
    )


def _of_list_offsets(said: Answered) -> Iterator[str]:
    found: dict[tuple[str, int], dict[int, set[int]]] = collections.defaultdict(
        lambda: collections.defaultdict(set)
    )
    for request, response in said:
        asked = {
            (topic.name, each.partition_index): each.timestamp
            for topic in request.topics
            for each in topic.partitions
        }
        for topic in response.topics:
            for partition in topic.partitions:
                key = topic.name, partition.partition_index
                found[key][asked.get(key, 0)].add(partition.found_offset)
    for topic_partition, offsets in found.items():
        if any(start > end for start in offsets[EARLIEST_TIMESTAMP] for end in offsets[LATEST_TIMESTAMP]):
            yield f"{topic_partition} starts after its end"


def _of_fetch(said: Answered) -> Iterator[str]:
    for _, response in said:
        for partition in (each for topic in response.responses for each in topic.partitions):
            records = b"" if isinstance(partition.records, Raw) else partition.records
            for batch in split(bytes(records or b"")):
                base_offset = int.from_bytes(batch[:8], "big", signed=True)
                if base_offset + offset_count(batch) > partition.high_watermark:
                    yield f"a batch at {base_offset} of a log that ends at {partition.high_watermark}"


_FAULTS: Final[Mapping[Api, Callable[[Answered], Iterator[str]]]] = {
    v07.OFFSETS: _of_offsets,
    modern.LIST_OFFSETS: _of_list_offsets,
    modern.FETCH: _of_fetch,
}
