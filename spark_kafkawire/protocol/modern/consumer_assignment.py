"""Assignments of the members of classic groups, as Kafka's consumers write them for each other.

Brokers pass the bytes on without a look at them::

    version        int16
    topics         array of a topic's name and its partitions, int32
    user data      bytes of the assignor

Source: Apache Kafka's ConsumerProtocolAssignment.json, whose versions 0 to 3 do not differ.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_kafkawire.errors import ProtocolError

from ..primitives import INT16, INT32, Array, Buffer, String
from ..schema import codec, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTopic:
    """Partitions of a topic that a member reads."""

    topic: str = wire(String())
    """Name of the topic."""
    partitions: tuple[int, ...] = wire(Array(INT32))
    """Indexes of the partitions."""


def assigned_topics(assignment: Buffer) -> tuple[AssignedTopic, ...] | None:
    """Topics of an assignment. Empty for a member without one, None for bytes of another format."""
    buf = memoryview(assignment)
    if not buf:
        return ()
    try:
        _, pos = INT16.read(buf, 0)
        topics, _ = Array(codec(AssignedTopic, 0, flexible=False)).read(buf, pos)
    except ProtocolError:
        return None
    return topics
