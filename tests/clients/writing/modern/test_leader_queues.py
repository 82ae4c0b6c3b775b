"""Queues of batches by leader: the order within a partition, and turns of leaders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from spark_kafkawire.clients.writing.modern.batches import ProducerBatch
from spark_kafkawire.clients.writing.modern.leader_queues import LeaderQueues
from spark_kafkawire.model import Broker, TopicPartition

A: Final = Broker(0, "a", 1)
B: Final = Broker(1, "b", 1)
NOTHING: Final[Any] = None


def batch(partition: int, index: int) -> ProducerBatch:
    return ProducerBatch(TopicPartition("t", partition), [], NOTHING, NOTHING, index, NOTHING)


class Leaders:
    """Known leaders of partitions, and the number of partitions that were looked up."""

    def __init__(self, **known: Broker) -> None:
        self.known = {int(name[1:]): broker for name, broker in known.items()}
        self.count = 0

    def of(self, partitions: Sequence[TopicPartition]) -> list[Broker | None]:
        self.count += len(partitions)
        return [self.known.get(tp.partition) for tp in partitions]


def taken(queues: LeaderQueues, most: int = 1000) -> tuple[Broker | None, list[int]]:
    """Leader and indexes of the next request, with up to so many batches."""
    indexes: list[int] = []

    def take(each: ProducerBatch) -> bool:
        if len(indexes) == most:
            return False
        indexes.append(each.index)
        return True

    leader, head = queues.next()
    queues.take(take)
    assert indexes[0] == head.index
    return leader, indexes


def test_leaders_take_turns_and_batches_keep_their_order() -> None:
    queues = LeaderQueues(Leaders(p0=A, p1=B, p2=A).of)
    queues.put([batch(0, 0), batch(1, 1), batch(2, 2), batch(0, 3), batch(1, 4)])
    assert [taken(queues, 2) for _ in range(3)] == [(A, [0, 2]), (B, [1, 4]), (A, [3])]
    assert not queues


def test_batches_of_an_unknown_leader_stay_before_later_ones_of_their_partition() -> None:
    leaders = Leaders(p1=B)
    queues = LeaderQueues(leaders.of)
    queues.put([batch(0, 0), batch(1, 1)])
    leader, head = queues.next()
    assert (leader, head.index) == (None, 0)
    leaders.known[0] = A
    queues.put([batch(0, 2)])
    assert sorted([taken(queues), taken(queues)], key=str) == [(A, [0, 2]), (B, [1])]


def test_a_leader_that_moves_takes_all_batches_of_its_partition_along_in_order() -> None:
    leaders = Leaders(p0=A)
    queues = LeaderQueues(leaders.of)
    queues.put([batch(0, 0), batch(0, 1)])
    assert taken(queues, 1) == (A, [0])
    leaders.known[0] = B
    queues.put([batch(0, 2)])
    queues.regroup()
    assert taken(queues) == (B, [1, 2])


def test_all_batches_come_back_in_order_with_parts_of_one_batch() -> None:
    queues = LeaderQueues(Leaders(p0=A, p1=B).of)
    first, second = batch(0, 1), batch(0, 1)
    queues.put([batch(1, 0), first, second, batch(1, 2)])
    queues.next()
    queues.put([batch(0, 3)])
    found = queues.take_all()
    assert [each.index for each in found] == [0, 1, 1, 2, 3]
    assert found[1] is first
    assert found[2] is second
    assert not queues


def test_the_cost_of_a_request_does_not_grow_with_other_leaders() -> None:
    brokers = [Broker(number, "h", number) for number in range(500)]
    leaders = Leaders(**{f"p{number}": broker for number, broker in enumerate(brokers)})
    queues = LeaderQueues(leaders.of)
    queues.put(batch(number % 500, number) for number in range(2000))
    offered = 0

    def take(_: ProducerBatch) -> bool:
        nonlocal offered
        offered += 1
        return True

    while queues:
        queues.next()
        queues.take(take)
    assert offered == leaders.count == 2000
