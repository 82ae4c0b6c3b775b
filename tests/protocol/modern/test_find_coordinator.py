"""Coordinators that are looked for together."""

from __future__ import annotations

from spark_kafkawire.protocol.modern.find_coordinator import GROUP, TRANSACTION, FindCoordinatorRequest


def test_each_key_is_in_one_of_as_few_requests() -> None:
    groups = [f"group {number}" for number in range(2_500)]
    ids = [f"id {number}" for number in range(3)]
    wanted = [
        *map(FindCoordinatorRequest.for_group, groups),
        *map(FindCoordinatorRequest.for_transaction, ids),
    ]
    together = FindCoordinatorRequest.together(wanted)
    assert [len(each.coordinator_keys) for each in together] == [1_000, 1_000, 500, 3]
    for kind, keys in ((GROUP, groups), (TRANSACTION, ids)):
        assert [key for each in together if each.key_type == kind for key in each.coordinator_keys] == keys
