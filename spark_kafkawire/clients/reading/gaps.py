"""What proves that rows may be left out of a read, for all places, and the tests that hold the code to it.

No row is left out because it did not come. Where the proof is missing a read tries again, for as long as
its options say, and then it is an error. Where ``failOnDataLoss`` decides it is ``DataLossError``, or a
warning that names the offsets.

While a range is read (``clients``):

============================  ================================================================================
left out                      what proves it; test
============================  ================================================================================
offsets before a batch that   the batch, for a leader serves what it has in order; unless by the same reply
came                          the log starts after what was asked for
                              test_offsets_that_compaction_took_are_no_loss
                              test_a_gap_at_a_log_start_that_moved_is_a_data_loss
the end of a range of         a batch after it, seen without regard to transactions
committed records             test_what_is_compacted_before_an_open_transaction_is_proven_by_its_records
the end of any range          the leader that Metadata names now, asked twice on different connections, has an
                              end after the range and all of it on its own disks, and cleanup.policy says
                              compact
                              test_a_log_whose_last_records_are_compacted_away_ends_where_it_was_planned
                              test_a_compacted_topic_is_asked_once_more_before_its_end_is_believed
                              test_what_cannot_be_seen_is_no_proof_either
nothing, for answers that     they prove nothing
are empty or throttled, an    test_empty_answers_do_not_prove_that_records_are_gone
end that lags, and tiered     test_records_that_are_only_late_are_not_taken_for_compacted_ones
storage                       test_a_quota_that_stays_used_up_ends_a_read_with_its_name
                              test_records_in_tiered_storage_are_waited_for
offsets before the log's      ListOffsets of the leader in its epoch, or OFFSETS of the 0.7 broker;
start or after its end:       ``failOnDataLoss`` decides
retention, DeleteRecords, an  test_offsets_that_retention_took_are_a_data_loss
unclean election              test_a_log_that_lost_its_end_is_a_data_loss
                              test_bytes_that_retention_took_are_a_data_loss
the rest of a topic that is   another topic id; or no broker knows the topic, with ``failOnDataLoss=false``
gone                          until the last try
                              test_a_topic_that_was_made_anew_is_a_data_loss
                              test_a_topic_that_is_gone_is_a_data_loss
                              test_a_topic_that_no_broker_knows_for_a_while_is_not_gone
nothing, for an epoch that    it may be another topic or a broker that is behind
falls where topics have no    test_a_leader_whose_epoch_falls_is_not_read_from
ids
============================  ================================================================================

In what has come (``records``):

============================  ================================================================================
left out                      what proves it; test
============================  ================================================================================
batches and records outside   their offsets, which rise from each to the next; else it is damage
of the range                  test_only_records_of_the_range_come
                              test_what_a_fetch_brings_from_before_its_offset_is_left_out
                              test_what_repeats_offsets_is_damage_in_every_format
control batches               their bit
                              test_control_batches_are_left_out
aborted transactions, of      the reply names producer and first offset, up to the producer's next marker,
committed records             which must not commit
                              test_records_of_aborted_transactions_are_left_out
                              test_a_marker_that_commits_what_the_reply_calls_aborted_is_damage
nothing, for a batch that     it is asked for again
the answer's end cuts         test_a_batch_that_a_fetch_cuts_is_fetched_with_a_larger_one
============================  ================================================================================

While a read is planned (``planner``, ``cluster``):

============================  ================================================================================
left out                      what proves it; test
============================  ================================================================================
topics that a pattern does    the list of all topics, with those that no broker can describe now; a warning
not match                     where none matches
                              test_a_pattern_waits_for_topics_that_brokers_cannot_describe
                              test_a_pattern_that_matches_no_topic_reads_nothing_with_a_warning
a topic that is deleted       for a pattern, a list without it; by its name it is an error
meanwhile                     test_a_pattern_passes_over_a_topic_that_is_deleted_meanwhile
partitions that a topic has   Metadata, which counts them from 0 without a hole; a warning for those of
not                           ``assign``
                              test_a_partition_that_is_not_told_is_waited_for_and_then_an_error
                              test_assigned_partitions_that_are_not_there_are_left_out_with_a_warning
an empty range, and what      ListOffsets of the leader in its epoch
comes after ``latest``        test_who_led_a_log_before_does_not_tell_where_it_ends
                              test_what_comes_while_a_read_is_planned_is_outside_of_it
offsets of options that the   the same; ``failOnDataLoss`` decides
log has not                   test_an_offset_outside_of_the_log_is_a_data_loss
nothing, for records after    their transaction may commit
the last stable offset        test_an_end_behind_an_open_transaction_is_told_as_such
logs of brokers of 0.7 that   ZooKeeper knows the logs; ``failOnDataLoss`` decides
are not alive                 test_a_dead_broker_is_a_data_loss_or_a_warning
============================  ================================================================================

What nothing here proves: that a leader is honest about what lies between two batches; that a topic of
brokers before 2.1, which tell neither epochs nor ids, was not made anew between plan and read; that what
was read before an unclean election is what the new leader has.
"""

from __future__ import annotations

from typing import Final

from ...cluster.cluster import Cluster
from ...errors import KafkaWireError, shown
from ...model import LogBounds

_COMPACT: Final = "compact"


def reason_against_compaction(
    cluster: Cluster, bounds: LogBounds, offset: int, stop_offset: int
) -> str | None:
    """Why compaction does not explain an empty fetch at ``offset``; None where it does.

    ``bounds`` are the leader's own, asked after the fetch.
    """
    if bounds.latest < stop_offset:
        return f"the leader says that the log ends at {bounds.latest}"
    way_out = f"if nothing is missing, end the range at {offset} (endingOffsets)"
    try:
        local_start = cluster.local_starts((bounds.log,))[bounds.log]
        if local_start > offset:
            return f"a fetch found nothing where the log has data: up to {local_start} in tiered storage"
        policy = cluster.cleanup_policy(bounds.log.topic)
    except KafkaWireError as error:
        return (
            f"compaction might explain it, but cannot be seen: {error}; let the user do DescribeConfigs, or, "
            f"{way_out}"
        )
    if _COMPACT in policy:
        return None
    words = shown(",".join(sorted(policy)))
    return f"compaction does not explain it, for cleanup.policy is {words}; {way_out}"
