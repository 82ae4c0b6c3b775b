"""Data loss in reads of both generations, 0.7 and modern: the proofs by which a read may leave out rows.

The tables list all places of the package that leave out rows, the proof of each, and the tests that check it.
No row is left out only because it did not arrive. Without a proof, a read retries as long as its options
allow and then fails. If ``failOnDataLoss`` decides, the failure is ``DataLossError`` or a warning that names
the offsets.

Compaction leaves gaps in a topic whose ``cleanup.policy`` contains compact. A gap in another topic can be
legal if the topic was compacted before. But it is rare, and a changed base offset looks the same. So
``GapWatch`` has the first such gap fetched again on another connection, and reports all of them.

While a range is read (``clients``):

============================  ================================================================================
left out                      proof; tests
============================  ================================================================================
offsets before a received     the batch, because a leader serves its records in order. All of it is below the
batch                         end of the log by the same response, and, if it is after the range, by
                              ListOffsets; and cleanup.policy contains compact. Without compact: a second
                              fetch on another connection shows the same gap, and a warning names count and
                              offsets
                              test_offsets_that_compaction_took_are_no_loss
                              test_a_response_that_contradicts_itself_ends_the_read
                              test_a_batch_behind_the_range_proves_its_end_where_the_log_has_it
                              test_a_gap_inside_the_data_of_a_topic_that_is_not_compacted_is_reported_once
                              test_gaps_that_are_elsewhere_each_time_end_the_read
nothing, for a batch at or    the batch is fetched again: a broker reads the end before the records
above the end of the log by   test_batches_that_were_appended_while_a_fetch_was_answered_are_fetched_again
its own response              test_committed_records_end_at_the_last_stable_offset_of_their_own_response
offsets before a batch, if    ListOffsets of the leader; ``failOnDataLoss`` decides
the response's log starts     test_a_gap_at_a_log_start_that_moved_is_a_data_loss
after the fetch offset
the end of a range of         a batch after it, fetched with uncommitted records, as above
committed records             test_what_is_compacted_before_an_open_transaction_is_proven_by_its_records
the end of any range          the leader that Metadata names now reports twice, on different connections, an
                              end of the log after the range; all of the log is on its own disks; and
                              cleanup.policy contains compact
                              test_a_partition_whose_last_records_are_compacted_away_ends_where_it_was_planned
                              test_a_compacted_topic_is_asked_once_more_before_its_end_is_believed
                              test_what_cannot_be_seen_is_no_proof_either
nothing, for responses that   they prove nothing
are empty or throttled, an    test_empty_answers_do_not_prove_that_records_are_gone
end that lags, and tiered     test_records_that_are_only_late_are_not_taken_for_compacted_ones
storage                       test_a_quota_that_stays_used_up_ends_a_read_with_its_name
                              test_records_in_tiered_storage_are_waited_for
offsets before the log's      ListOffsets of the leader in its epoch, or OFFSETS of the 0.7 broker;
start or after its end:       ``failOnDataLoss`` decides
retention, DeleteRecords, an  test_offsets_that_retention_took_are_a_data_loss
unclean election              test_a_partition_that_lost_its_end_is_a_data_loss
                              test_bytes_that_retention_took_are_a_data_loss
the rest of a topic that is   another topic id; or, with ``failOnDataLoss=false``, no broker knows the topic
gone                          until the last attempt
                              test_a_recreated_topic_is_a_data_loss
                              test_a_topic_that_is_gone_is_a_data_loss
                              test_a_topic_that_no_broker_knows_for_a_while_is_not_gone
nothing, for a follower that  its response counts only for records that follow each other; the leader is asked
is nearer (KIP-392)           for gaps, ends, starts, damage and aborted transactions
                              test_a_follower_proves_no_gap_no_end_no_loss_and_no_damage
                              test_a_gap_of_a_compacted_follower_is_asked_of_the_leader
                              test_aborted_transactions_are_asked_of_the_leader
nothing, for a lower leader   the leader may be of another topic, or be behind
epoch of a topic without an   test_a_leader_whose_epoch_falls_is_not_read_from
id
============================  ================================================================================

In received bytes (``records``):

============================  ================================================================================
left out                      proof; tests
============================  ================================================================================
batches and records outside   their offsets, which rise from each to the next; otherwise the data is corrupt
of the range                  test_only_records_of_the_range_come
                              test_what_a_fetch_brings_from_before_its_offset_is_left_out
                              test_what_repeats_offsets_is_damage_in_every_format
control batches               the control bit of their attributes
                              test_control_batches_are_left_out
aborted transactions, in      the response names the producer and the first offset; the transaction ends at
reads of committed records    the producer's next marker. All responses for a range, and its markers, agree
                              test_records_of_aborted_transactions_are_left_out
                              test_a_marker_that_commits_what_the_response_calls_aborted_is_damage
                              test_what_responses_call_aborted_must_agree_with_the_markers_of_the_log
damaged records, with         two fetches show the same damage; ``records.damage`` names the places that prove
``badRecords`` null or drop   where the log continues; a row or a warning names its offsets
                              test_damage_becomes_one_row_or_none_and_all_other_records_come
                              test_damage_becomes_one_row_or_none_and_all_other_messages_come
                              test_damage_that_only_one_fetch_shows_is_no_bad_record
                              test_flipped_bytes_cost_only_the_batches_they_are_in
nothing, for a batch that     the batch is fetched again
the response's end cuts       test_a_batch_that_a_fetch_cuts_is_fetched_with_a_larger_one
============================  ================================================================================

While a read is planned (``planner``, ``cluster``):

============================  ================================================================================
left out                      proof; tests
============================  ================================================================================
topics that a pattern does    the list of all topics, also those that no broker can describe now; a warning if
not match                     no topic matches
                              test_a_pattern_waits_for_topics_that_brokers_cannot_describe
                              test_a_pattern_that_matches_no_topic_reads_nothing_with_a_warning
a topic that is deleted       for a pattern, a list of topics without it; a topic that is subscribed by name
during planning               is an error
                              test_a_pattern_passes_over_a_topic_that_is_deleted_meanwhile
partitions that a topic does  Metadata, which numbers partitions from 0 without a gap; a warning for those of
not have                      ``assign``
                              test_wait_for_a_partition_that_is_not_listed_and_then_fail
                              test_assigned_partitions_that_are_not_there_are_left_out_with_a_warning
an empty range, and records   ListOffsets of the leader in its epoch
after ``latest``              test_who_led_a_partition_before_does_not_tell_where_it_ends
                              test_what_comes_while_a_read_is_planned_is_outside_of_it
bytes before the start of     OFFSETS, which returns the start twice: alone, and with all segments
a partition of 0.7, and all of an   test_answers_that_no_partition_has_are_an_error
empty log                     test_a_segment_that_retention_takes_between_two_answers_is_no_error
offsets of options outside    ListOffsets, or OFFSETS; ``failOnDataLoss`` decides
of the log                    test_an_offset_outside_of_the_log_is_a_data_loss
nothing, for records after    their transaction may commit
the last stable offset        test_report_an_end_behind_an_open_transaction_as_such
logs of brokers of 0.7 that   ZooKeeper knows the partitions; ``failOnDataLoss`` decides
are not alive                 test_a_dead_broker_is_a_data_loss_or_a_warning
============================  ================================================================================

Not proven: that a leader is honest about the offsets between two batches of a compacted topic; that a
transaction was aborted if its marker is after the range; that a compressed message of magic 0 or 1 has the
right offset; that a topic was not deleted and created again between plan and read on brokers before 2.1,
which send neither epochs nor ids; that the records read before an unclean election are those of the new
leader; that a follower which names no aborted transaction has none, if the markers are after the range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_kafkawire.cluster import Cluster
from spark_kafkawire.errors import LOG, KafkaWireError, printable
from spark_kafkawire.model import Broker, OffsetRange, PartitionBounds

from .task import COMPARE_LOGS, Contradiction, Gaps

#: The value of ``cleanup.policy`` that allows gaps in a partition.
COMPACT: Final = "compact"


@dataclass(frozen=True, slots=True)
class Loss:
    """Offsets below ``resume_offset`` that the log no longer has, and the proof in words."""

    resume_offset: int
    reason: str


def topic_loss(reason: object, stop_offset: int) -> Loss:
    """The loss of the rest of a range whose topic is gone."""
    return Loss(stop_offset, f"the topic is gone: {reason}")


def loss_by(bounds: PartitionBounds, offset: int, stop_offset: int) -> Loss | None:
    """The loss that the bounds of a partition prove; None if they hold ``offset``, the next one of the
    range."""
    if bounds.earliest <= offset < bounds.latest:
        return None
    resume_offset = min(bounds.earliest, stop_offset) if bounds.earliest > offset else stop_offset
    return Loss(resume_offset, f"the log now holds [{bounds.earliest}, {bounds.latest})")


def reason_against_compaction(
    cluster: Cluster, bounds: PartitionBounds, offset: int, stop_offset: int
) -> str | None:
    """The reason why compaction does not explain an empty fetch at ``offset``; None if it does.

    ``bounds`` are those of the leader, requested after the fetch.
    """
    if bounds.latest < stop_offset:
        return f"the leader reports {bounds.latest} as the end of the log"
    way_out = f"if nothing is missing, end the range at {offset} (endingOffsets)"
    try:
        local_start = cluster.local_starts((bounds.topic_partition,))[bounds.topic_partition]
        if local_start > offset:
            return (
                "Fetch returned no record where the log has data, up to "
                f"{local_start} in tiered storage; see the log of the broker"
            )
        policy = cluster.cleanup_policy(bounds.topic_partition.topic)
    except KafkaWireError as error:
        return (
            f"compaction might explain it, but cleanup.policy is not known: {error}; allow the user "
            f"DescribeConfigs, or, {way_out}"
        )
    if COMPACT in policy:
        return None
    words = printable(",".join(sorted(policy)))
    return f"compaction does not explain it, because cleanup.policy is {words}; {way_out}"


#: Most gaps that a warning lists.
GAPS_LISTED_MAX: Final = 5


def warn_of_gaps(place: str, count: int, listed: str, reason: str) -> None:
    """Warn about gaps that miss ``count`` offsets, and that compaction does not explain."""
    LOG.warning(
        "%s: the log has gaps, %d of its offsets are missing: %s; %s. If the topic was not compacted before, "
        "records are lost",
        *(place, count, listed, reason),
    )


class GapWatch:
    """The gaps of one range. No request is sent before the first gap, and each request only once."""

    def __init__(self, offset_range: OffsetRange, cluster: Cluster) -> None:
        self._range = offset_range
        self._cluster = cluster
        self._log_end = offset_range.stop_offset
        #: The reason why compaction does not explain the gaps, "" if it does; None before the first gap.
        self._reason: str | None = None
        self._suspect: tuple[int, int] | None = None
        self._is_confirmed = False
        self._gap_count = self._offset_count = 0
        self._listed: list[str] = []

    def check(self, gaps: Gaps) -> None:
        """Accept the gaps of a response. Raises ``Contradiction`` if they must be fetched again."""
        self._check_end(gaps)
        if self._reason is None:
            self._reason = self._reason_against_compaction()
        if self._reason:
            self._confirm(gaps)
            self._count(gaps)

    def report(self, broker: Broker) -> None:
        """Warn about the gaps that compaction does not explain."""
        if not self._gap_count:
            return
        more = self._gap_count - len(self._listed)
        listed = ", ".join(self._listed) + (f" and {more} more" if more else "")
        warn_of_gaps(f"{self._range} on {broker}", self._offset_count, listed, self._reason or "")

    def _check_end(self, gaps: Gaps) -> None:
        """Check that the batches after the range exist, which proves that the end of the range is empty: the
        leader's high watermark must be above them."""
        if gaps.next_offset <= self._log_end:
            return
        partition = self._range.topic_partition
        self._log_end = max(self._log_end, self._cluster.high_watermarks((partition,))[partition])
        if gaps.next_offset > self._log_end:
            start, _ = gaps.spans[0].tolist()
            raise Contradiction(
                f"Fetch returned nothing at offset {start}, but batches up to offset "
                f"{gaps.next_offset - 1}, and by ListOffsets the log ends at offset {self._log_end}; "
                f"{COMPARE_LOGS}",
                gaps.offset,
            )

    def _reason_against_compaction(self) -> str:
        try:
            policy = self._cluster.cleanup_policy(self._range.topic_partition.topic)
        except KafkaWireError as error:
            return f"cleanup.policy, which might explain it, is not known: {error}"
        return "" if COMPACT in policy else f"cleanup.policy is {printable(','.join(sorted(policy)))}"

    def _confirm(self, gaps: Gaps) -> None:
        """Accept a gap that two fetches show, and all later ones: a partition with one gap has others."""
        start, stop = gaps.spans[0].tolist()
        if not self._is_confirmed and self._suspect != (start, stop):
            self._suspect = start, stop
            raise Contradiction(
                f"Fetch returned nothing at the offsets {start} to {stop - 1}, but batches after them, "
                f"and another fetch shows other offsets; {self._reason}; {COMPARE_LOGS}",
                gaps.offset,
            )
        self._is_confirmed = True

    def _count(self, gaps: Gaps) -> None:
        self._gap_count += len(gaps.spans)
        self._offset_count += int((gaps.spans[:, 1] - gaps.spans[:, 0]).sum())
        listed = gaps.spans[: GAPS_LISTED_MAX - len(self._listed)].tolist()
        self._listed += [f"[{start}, {stop})" for start, stop in listed]
