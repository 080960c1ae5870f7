"""Every deliberate bug, the checker that must notice it, and a history in which it does."""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.checks.adapting import (
    commands_wait_for_the_controller,
    controllers_record_beats_a_command,
    cool_down_of_ones_own_changes_alone,
    drill_of_whatever_there_is,
    estimates_of_a_former_leader,
    no_cool_down,
    scheme_changed_during_a_switch,
)
from tests.simulation.checks.bounded import bound_ignored, sent_before_forgotten
from tests.simulation.checks.gaps import (
    continued_before_the_gap_is_valid,
    gap_not_noted,
    gap_of_another_copy_not_noted,
    one_batch_not_counted,
    skipped_records_not_counted,
)
from tests.simulation.checks.raises import (
    any_record_of_code_that_raised_counts,
    batch_done_before_its_record_kept,
    outputs_not_held,
    rows_skipped_without_a_record,
)
from tests.simulation.checks.upgrades import (
    accepted_once_and_for_all,
    differing_batches_counted,
    given_to_any_versions,
    shown_by_one_batch,
)
from tests.simulation.mutants.acks import ack_without_a_marker, trimmed_for_the_fastest, trimmed_one_too_far
from tests.simulation.mutants.answers import own_answer_taken
from tests.simulation.mutants.broker import drained_by_anything, position_gone_unnoticed
from tests.simulation.mutants.budgets import (
    own_plan_followed,
    planned_before_all_read_plans,
    planned_over_budget,
    replanned_to_and_fro,
    replanned_whatever_happens,
    upgraded_before_downgraded,
)
from tests.simulation.mutants.bug import Bug
from tests.simulation.mutants.checkpoints import (
    any_run_applied,
    any_run_applied_though_one_was_missed,
    capture_sees_later_values,
    deletions_not_applied,
    lost_sweep_slice,
    marker_before_frames,
    marker_before_transactions,
    older_runs_valid,
    parts_counted_whatever_came_between,
    parts_of_two_copies_mixed,
    refused_run_counts,
    restore_from_the_last_run,
    run_left_half_applied,
    trim_to_the_last_marker,
)
from tests.simulation.mutants.clocked import own_clock_read
from tests.simulation.mutants.cuts import (
    cut_not_read_back,
    every_unit_counts,
    gone_records_passed_over,
    joined_in_the_middle,
    last_cut_wins,
    lost_records_brought,
    marker_with_newest_cuts,
    new_partitions_ignored,
    pause_ignored,
    read_on_by_offset_alone,
    records_below_the_range,
    tables_not_waited_for,
    taken_by_two_owners,
    topic_ids_not_compared,
    unconfirmed_end_is_idle,
)
from tests.simulation.mutants.decisions import (
    any_epoch_valid,
    commands_forgotten,
    differing_snapshots_written,
    forgotten_without_a_trace,
    gap_passed_over,
    last_goal_wins,
    newest_job_retired,
    records_below_a_snapshot_once_more,
    retired_before_the_end,
    retired_forgotten_at_a_start,
    snapshot_of_invalid_changes,
    snapshot_taken_for_the_present,
    snapshot_upto_one_too_high,
    snapshot_without_goals,
    trimmed_to_the_last_snapshot,
    trimmed_to_the_present,
    undecided_job_left_behind,
)
from tests.simulation.mutants.failures import (
    age_of_the_turn_ignored,
    balanced_to_and_fro,
    copies_never_closed,
    crashes_counted_wherever_they_were,
    every_heartbeat_is_an_error,
    exit_hits_the_next_incarnation,
    fenced_copy_starts_again_unread,
    handed_over_at_once,
    innocent_unit_blamed,
    name_in_use_admitted,
    never_in_quarantine,
    nobody_is_ever_gone,
    refused_run_settled,
    slow_writer_paused,
    standby_let_go_first,
    suspects_do_not_wait,
    unexpected_error_is_the_end,
)
from tests.simulation.mutants.frames import (
    dropped_frames_not_read_again,
    duplicates_taken,
    highest_watermark,
    jump_leaves_inputs,
    payloads_as_they_came,
    position_behind_what_is_held,
)
from tests.simulation.mutants.global_checkpoints import (
    acked_one_too_far,
    newest_marker_restored,
    runs_of_the_newest_marker_kept,
    void_markers_count,
)
from tests.simulation.mutants.incidents import (
    drivers_counted_as_workers,
    forgotten_by_the_next_replica,
    never_over,
    restored_in_the_order_of_the_file,
    restored_on_its_old_line,
    shared_units_paid_by_each,
    slots_no_limit,
    slots_of_other_replicas_free,
    standbys_before_restores,
    trimmed_in_an_incident,
    waiting_for_ever,
)
from tests.simulation.mutants.outages import (
    outage_never_over,
    outage_not_noted_with_the_placement,
    outage_withdrawn_by_the_placement,
)
from tests.simulation.mutants.paced import missing_records_not_looked_for, records_passed_over_when_paced
from tests.simulation.mutants.policies import (
    aligned_elsewhere,
    aligned_without_holding,
    batches_during_a_whole_checkpoint,
    captured_while_data_wait,
    confirmation_ignored,
    maximum_interval_ignored,
    merged_across_backups,
    minimum_interval_ignored,
    newest_paste_first,
    older_policy_counts,
    policy_not_taken_up,
    policy_of_no_scheme,
    swept_before_trimmed,
    ticks_of_all,
    ticks_of_its_own,
    two_captures_a_tick,
    two_captures_at_once,
)
from tests.simulation.mutants.retention import (
    asked_to_go_back_alone,
    ended_at_its_last_marker,
    read_from_its_marker_on_a_new_line,
    senders_not_taken_along,
    trimmed_to_what_was_processed,
    trimmed_whatever_has_failed,
)
from tests.simulation.mutants.sinks import (
    as_much_once_more,
    blind_retry,
    delivered_position_ignored,
    kept_too_short,
    no_fencing,
    position_in_a_transaction_of_its_own,
    position_read_before_the_fence,
    rows_for_an_absent_sink_dropped,
    rows_in_doubt_forgotten,
    unsent_frames_forgotten,
    unsent_rows_forgotten,
)
from tests.simulation.mutants.spark import (
    batch_committed_twice,
    checkpoint_forgotten,
    drained_without_what_arrived,
    handed_to_a_driver_unrehearsed,
    standby_leads,
)
from tests.simulation.mutants.standbys import (
    all_of_a_difference_moves,
    capacity_ignored,
    former_standby_let_go_first,
    new_standby_not_waited_for,
    places_taken_from_equals,
    priority_ignored,
    standbys_in_any_zone,
    standbys_on_one_peer,
)
from tests.simulation.mutants.strangers import any_anchor_believed, any_position_believed, unplaced_ends_a_unit
from tests.simulation.mutants.switches import (
    calm_not_waited_for,
    primary_suspended_by_a_switch,
    unsteady_primary_waited_for,
)
from tests.simulation.mutants.tentative import (
    dead_letters_of_the_line,
    final_row_does_not_close,
    fork_reads_later_values,
    fork_writes_through,
    lent_frames_are_not_read_again,
    line_works_though_nothing_is_out,
    open_rows_forgotten_at_a_takeover,
    rows_closed_by_batch,
    rows_closed_only_by_the_end,
    rows_closed_without_a_record,
    tentative_frame_taken_as_stable,
    tentative_frames_not_flagged,
    tentative_rows_move_the_position,
    tentative_rows_under_results_final,
)
from tests.simulation.mutants.trimmed_cuts import (
    cuts_trimmed_to_an_own_estimate,
    cuts_trimmed_too_far,
    last_commit_trimmed,
    read_on_after_a_gap,
    rows_trimmed_by_another_input,
    rows_trimmed_too_far,
)
from tests.simulation.mutants.updates import (
    one_unit_is_behind,
    switched_before_complete,
    two_generations_deliver,
)
from tests.simulation.observers.formats import format_raised_at_once, newest_format_written
from tests.simulation.observers.hasty import settled_at_once

RUN_MS = 5_000
"""Time for which faults come in a history that is to catch a bug."""


class Mutant(NamedTuple):
    """A bug, the checker that notices it before any other does, and the seed of a history in which it does.

    checker: as Outcome.kind has it. profile: under which the history is drawn. run_ms: how long faults come in it.
    """

    bug: Bug
    checker: str
    seed: int
    profile: str = ""
    run_ms: int = RUN_MS

    @property
    def name(self) -> str:
        return self.bug.__name__

    def __repr__(self) -> str:
        """Text of it in MUTANTS."""
        parts = [self.name, f'"{self.checker}"', str(self.seed)]
        if self.profile:
            parts.append(f'"{self.profile}"')
        if self.run_ms != RUN_MS:
            parts.append(f"run_ms={self.run_ms:_}")
        return f"Mutant({', '.join(parts)})"


MUTANTS: tuple[Mutant, ...] = (
    Mutant(trim_to_the_last_marker, "trim", 0),
    Mutant(nobody_is_ever_gone, "liveness", 0),
    Mutant(copies_never_closed, "liveness", 0),
    Mutant(highest_watermark, "replay differs", 1),
    Mutant(parts_counted_whatever_came_between, "image", 6, run_ms=1_500),
    Mutant(marker_before_transactions, "replay differs", 1, run_ms=1_500),
    Mutant(lost_sweep_slice, "image", 1),
    Mutant(trimmed_one_too_far, "trim", 1),
    Mutant(ack_without_a_marker, "trim", 8, run_ms=1_500),
    Mutant(delivered_position_ignored, "delivered", 1),
    Mutant(unsent_rows_forgotten, "replay differs", 3, run_ms=1_500),
    Mutant(exit_hits_the_next_incarnation, "liveness", 1, run_ms=1_500),
    Mutant(slow_writer_paused, "liveness", 14),
    Mutant(any_epoch_valid, "copy", 233),
    Mutant(name_in_use_admitted, "raised", 3),
    Mutant(pause_ignored, "replay", 5),
    Mutant(restore_from_the_last_run, "image", 21),
    Mutant(records_below_the_range, "replay differs", 0, run_ms=1_500),
    Mutant(snapshot_upto_one_too_high, "snapshot", 1),
    Mutant(snapshot_of_invalid_changes, "snapshot", 1),
    Mutant(snapshot_without_goals, "snapshot", 1),
    Mutant(snapshot_taken_for_the_present, "beginning", 1, run_ms=1_500),
    Mutant(trimmed_to_the_present, "root", 0),
    Mutant(trimmed_to_the_last_snapshot, "root", 0, run_ms=1_500),
    Mutant(differing_snapshots_written, "snapshot", 3, run_ms=1_500),
    Mutant(gap_passed_over, "fold", 5, run_ms=2_500),
    Mutant(retired_before_the_end, "retired", 0, run_ms=1_500),
    Mutant(commands_forgotten, "snapshot", 0, run_ms=1_500),
    Mutant(undecided_job_left_behind, "snapshot", 104, "leaders"),
    Mutant(newest_job_retired, "retired", 3, "lives", run_ms=3_500),
    Mutant(forgotten_without_a_trace, "snapshot", 1, "lives", run_ms=3_500),
    Mutant(last_cut_wins, "divergence", 233),
    Mutant(duplicates_taken, "replay differs", 45),
    Mutant(jump_leaves_inputs, "ack", 18),
    Mutant(deletions_not_applied, "image", 1, "two-in-charge"),
    Mutant(refused_run_counts, "state", 33, "two-in-charge"),
    Mutant(trimmed_for_the_fastest, "trim", 3, "two-in-charge"),
    Mutant(any_run_applied_though_one_was_missed, "image", 3, "two-in-charge"),
    Mutant(marker_before_frames, "marker", 4, "two-in-charge"),
    Mutant(payloads_as_they_came, "state", 55, "standby"),
    Mutant(position_behind_what_is_held, "liveness", 7, "fan-out", run_ms=2_500),
    Mutant(older_runs_valid, "trim", 22, "runs"),
    Mutant(refused_run_settled, "image", 1, "runs"),
    Mutant(marker_with_newest_cuts, "marker", 21, "runs"),
    Mutant(parts_of_two_copies_mixed, "image", 16, "runs"),
    Mutant(calm_not_waited_for, "switched", 0, "flapping"),
    Mutant(primary_suspended_by_a_switch, "switched", 0, "flapping", run_ms=1_500),
    Mutant(unsteady_primary_waited_for, "switched", 0, "flapping", run_ms=20_000),
    Mutant(tables_not_waited_for, "table", 2, "table", run_ms=1_500),
    Mutant(taken_by_two_owners, "replay", 9, "growth", run_ms=1_500),
    Mutant(any_position_believed, "replay differs", 0, "strangers"),
    Mutant(unplaced_ends_a_unit, "liveness", 0, "strangers"),
    Mutant(last_goal_wins, "snapshot", 0, "lives"),
    Mutant(any_anchor_believed, "trim", 10, "strangers", run_ms=2_500),
    Mutant(joined_in_the_middle, "replay", 0, "growth", run_ms=2_500),
    Mutant(new_partitions_ignored, "partitions", 0, "growth"),
    Mutant(drained_by_anything, "drain", 4, "leaders", run_ms=1_500),
    Mutant(unconfirmed_end_is_idle, "gives way", 13, "idle"),
    Mutant(position_gone_unnoticed, "delivered", 6, "leaders", run_ms=3_500),
    Mutant(capture_sees_later_values, "state", 13, "half-pasted", run_ms=1_500),
    Mutant(run_left_half_applied, "divergence", 16, "half-pasted"),
    Mutant(cut_not_read_back, "divergence", 9, "takeovers", run_ms=1_500),
    Mutant(no_fencing, "delivered", 11, "takeovers"),
    Mutant(position_in_a_transaction_of_its_own, "replay differs", 16, "takeovers", run_ms=2_500),
    Mutant(fenced_copy_starts_again_unread, "fenced", 11, "takeovers"),
    Mutant(position_read_before_the_fence, "delivered", 37, "takeovers", run_ms=2_500),
    Mutant(as_much_once_more, "greedy", 13, "short-lived", run_ms=1_500),
    Mutant(blind_retry, "delivered", 3, "takeovers", run_ms=3_500),
    Mutant(rows_in_doubt_forgotten, "replay differs", 7, "takeovers", run_ms=3_500),
    Mutant(unsent_frames_forgotten, "marker", 34, "unsent"),
    Mutant(kept_too_short, "replay differs", 92, "unsent"),
    Mutant(topic_ids_not_compared, "replaced", 0, "renewed"),
    Mutant(read_on_by_offset_alone, "replaced", 0, "renewed"),
    Mutant(rows_for_an_absent_sink_dropped, "replay differs", 0, "renewed"),
    Mutant(handed_over_at_once, "move", 0, "moves"),
    Mutant(standby_let_go_first, "move", 2, "moves"),
    Mutant(balanced_to_and_fro, "balance", 9, "balance", run_ms=1_500),
    Mutant(standbys_on_one_peer, "group", 8, "standbys", run_ms=2_500),
    Mutant(former_standby_let_go_first, "reformation", 0, "standbys", run_ms=1_500),
    Mutant(new_standby_not_waited_for, "reformation", 0, "standbys", run_ms=1_500),
    Mutant(standbys_in_any_zone, "zone", 4, "standbys", run_ms=1_500),
    Mutant(all_of_a_difference_moves, "amount", 2, "standbys", run_ms=1_500),
    Mutant(capacity_ignored, "capacity", 1, "shared", run_ms=1_500),
    Mutant(priority_ignored, "priority", 1, "shared", run_ms=1_500),
    Mutant(places_taken_from_equals, "liveness", 0, "shared", run_ms=1_500),
    Mutant(settled_at_once, "raised", 4, "unsettled", run_ms=3_500),
    Mutant(age_of_the_turn_ignored, "liveness", 2, "hangs", run_ms=1_500),
    Mutant(every_unit_counts, "stopped", 0, "unplaced", run_ms=16_000),
    Mutant(dropped_frames_not_read_again, "liveness", 10, "unplaced"),
    Mutant(lost_records_brought, "divergence", 32, "losses"),
    Mutant(gone_records_passed_over, "replay", 4, "losses", run_ms=2_500),
    Mutant(unexpected_error_is_the_end, "liveness", 7, "errors", run_ms=1_500),
    Mutant(every_heartbeat_is_an_error, "quarantine", 3, "errors", run_ms=1_500),
    Mutant(never_in_quarantine, "liveness", 2, "deadly", run_ms=1_500),
    Mutant(innocent_unit_blamed, "quarantine", 2, "deadly", run_ms=1_500),
    Mutant(crashes_counted_wherever_they_were, "quarantine", 12, "deadly"),
    Mutant(suspects_do_not_wait, "suspect", 5, "deadly", run_ms=1_500),
    Mutant(given_to_any_versions, "unproved", 9, "upgrades", run_ms=2_500),
    Mutant(shown_by_one_batch, "unproved", 9, "upgrades", run_ms=3_500),
    Mutant(differing_batches_counted, "differing", 52, "upgrades"),
    Mutant(accepted_once_and_for_all, "unproved", 40, "upgrades"),
    Mutant(format_raised_at_once, "format", 3, "formats"),
    Mutant(newest_format_written, "format", 3, "formats"),
    Mutant(batch_committed_twice, "commits", 5, "spark", run_ms=1_500),
    Mutant(checkpoint_forgotten, "commits", 4, "spark"),
    Mutant(drained_without_what_arrived, "commits", 1, "spark", run_ms=1_500),
    Mutant(handed_to_a_driver_unrehearsed, "move", 4, "spark-leaves", run_ms=1_500),
    Mutant(standby_leads, "raised", 0, "spark"),
    Mutant(cuts_trimmed_too_far, "cut trim", 8, "trimmed", run_ms=1_500),
    Mutant(cuts_trimmed_to_an_own_estimate, "cut trim", 5, "trimmed", run_ms=1_500),
    Mutant(last_commit_trimmed, "commit trim", 0, "spark-trimmed"),
    Mutant(read_on_after_a_gap, "not cut", 5, "outrun"),
    Mutant(aligned_elsewhere, "aligned", 2, "aligned", run_ms=1_500),
    Mutant(aligned_without_holding, "aligned", 7, "aligned", run_ms=1_500),
    Mutant(two_captures_at_once, "captures", 2, "idle-captures", run_ms=2_500),
    Mutant(merged_across_backups, "merged", 6, "merged", run_ms=3_500),
    Mutant(minimum_interval_ignored, "interval", 8, "idle-captures", run_ms=1_500),
    Mutant(captured_while_data_wait, "not idle", 9, "idle-captures", run_ms=2_500),
    Mutant(maximum_interval_ignored, "overdue", 0, "idle-silence", run_ms=1_500),
    Mutant(confirmation_ignored, "unconfirmed", 9, "idle-silence", run_ms=1_500),
    Mutant(newest_paste_first, "paste order", 9, "merged", run_ms=2_500),
    Mutant(batches_during_a_whole_checkpoint, "whole", 6, "whole-worker", run_ms=3_500),
    Mutant(ticks_of_its_own, "overdue", 9, "timed", run_ms=1_500),
    Mutant(two_captures_a_tick, "tick", 0, "timed", run_ms=1_500),
    Mutant(ticks_of_all, "interval", 4, "timed", run_ms=1_500),
    Mutant(swept_before_trimmed, "sweep order", 5, run_ms=1_500),
    Mutant(acked_one_too_far, "global trim", 0, "rollbacks", run_ms=2_500),
    Mutant(runs_of_the_newest_marker_kept, "global restore", 7, "rollbacks", run_ms=1_500),
    Mutant(newest_marker_restored, "complete", 3, "rollbacks", run_ms=2_500),
    Mutant(void_markers_count, "complete", 21, "rollbacks"),
    Mutant(restored_in_the_order_of_the_file, "plan", 18, "incidents", run_ms=2_500),
    Mutant(shared_units_paid_by_each, "plan", 27, "incidents", run_ms=2_500),
    Mutant(slots_no_limit, "slots", 7, "incidents", run_ms=2_500),
    Mutant(standbys_before_restores, "slots", 182, run_ms=15_000),
    Mutant(retired_forgotten_at_a_start, "raised", 284, run_ms=15_000),
    Mutant(restored_on_its_old_line, "incident line", 2, "incidents", run_ms=2_500),
    Mutant(never_over, "incident open", 2, "incidents", run_ms=1_500),
    Mutant(waiting_for_ever, "liveness", 0, "incidents", run_ms=2_500),
    Mutant(forgotten_by_the_next_replica, "turn", 4, "incidents", run_ms=3_500),
    Mutant(trimmed_in_an_incident, "global restore", 8, "incidents", run_ms=2_500),
    Mutant(drivers_counted_as_workers, "plan", 0, "spark-incidents", run_ms=2_500),
    Mutant(slots_of_other_replicas_free, "slots", 19, "spark-incidents"),
    Mutant(trimmed_to_what_was_processed, "line trim", 1, "retention", run_ms=1_500),
    Mutant(trimmed_whatever_has_failed, "line trim", 6, "retention", run_ms=1_500),
    Mutant(senders_not_taken_along, "taken along", 2, "retention", run_ms=1_500),
    Mutant(asked_to_go_back_alone, "taken along", 3, "retention", run_ms=1_500),
    Mutant(ended_at_its_last_marker, "ended early", 0, "retention", run_ms=1_500),
    Mutant(read_from_its_marker_on_a_new_line, "failed copy", 27, "retention", run_ms=1_500),
    Mutant(own_answer_taken, "replay differs", 7, "asks", run_ms=2_500),
    Mutant(switched_before_complete, "carried", 3, "updates", run_ms=2_500),
    Mutant(one_unit_is_behind, "position", 0, "updates", run_ms=2_500),
    Mutant(two_generations_deliver, "two generations", 3, "updates", run_ms=3_500),
    Mutant(own_clock_read, "replay differs", 0, "clocked", run_ms=2_500),
    Mutant(missing_records_not_looked_for, "liveness", 7, "paced", run_ms=2_500),
    Mutant(records_passed_over_when_paced, "replay differs", 3, "stretched", run_ms=2_500),
    Mutant(policy_not_taken_up, "policy", 3, "policy-changes", run_ms=2_500),
    Mutant(older_policy_counts, "snapshot", 4, "policy-changes", run_ms=2_500),
    Mutant(policy_of_no_scheme, "policy", 4, "policy-changes", run_ms=2_500),
    Mutant(outputs_not_held, "unannounced", 46, "versions"),
    Mutant(any_record_of_code_that_raised_counts, "undecided", 1, "versions", run_ms=2_500),
    Mutant(batch_done_before_its_record_kept, "replay differs", 2, "versions", run_ms=2_500),
    Mutant(rows_skipped_without_a_record, "undecided", 0, "raises", run_ms=4_000),
    Mutant(rows_trimmed_by_another_input, "rows trim", 0, "spark-inputs", run_ms=2_500),
    Mutant(rows_trimmed_too_far, "rows trim", 2, "spark-rows", run_ms=2_500),
    Mutant(bound_ignored, "bound", 0, "bounded"),
    Mutant(sent_before_forgotten, "bound", 45, "bounded"),
    Mutant(scheme_changed_during_a_switch, "adapted", 9, "adaptive", run_ms=2_500),
    Mutant(no_cool_down, "cool-down", 8, "adaptive", run_ms=1_500),
    Mutant(cool_down_of_ones_own_changes_alone, "cool-down", 2, "adaptive", run_ms=1_500),
    Mutant(estimates_of_a_former_leader, "stale", 1, "adaptive", run_ms=3_500),
    Mutant(controllers_record_beats_a_command, "adapted", 3, "adaptive", run_ms=1_500),
    Mutant(commands_wait_for_the_controller, "ignored", 1, "adaptive", run_ms=1_500),
    Mutant(planned_over_budget, "budget", 2, "budget", run_ms=1_500),
    Mutant(planned_before_all_read_plans, "format", 2, "budget", run_ms=1_500),
    Mutant(own_plan_followed, "mixed", 4, "budget", run_ms=1_500),
    Mutant(replanned_to_and_fro, "to and fro", 3, "budget", run_ms=1_500),
    Mutant(upgraded_before_downgraded, "over budget", 8, "budget", run_ms=2_500),
    Mutant(replanned_whatever_happens, "calm", 9, "budget", run_ms=1_500),
    Mutant(outage_withdrawn_by_the_placement, "over too early", 3, "outages", run_ms=1_500),
    Mutant(outage_never_over, "outage open", 3, "outages", run_ms=1_500),
    Mutant(tentative_frame_taken_as_stable, "replay differs", 8, "outages", run_ms=3_000),
    Mutant(fork_writes_through, "replay differs", 8, "outages", run_ms=1_500),
    Mutant(tentative_frames_not_flagged, "divergence", 8, "outages", run_ms=1_500),
    Mutant(tentative_rows_move_the_position, "delivered", 8, "outages", run_ms=3_000),
    Mutant(fork_reads_later_values, "fork changed", 9, "forks", run_ms=6_000),
    Mutant(rows_closed_without_a_record, "row open", 9, "forks", run_ms=6_000),
    Mutant(rows_closed_by_batch, "withdrawn early", 9, "forks", run_ms=6_000),
    Mutant(rows_closed_only_by_the_end, "row open", 9, "forks", run_ms=6_000),
    Mutant(open_rows_forgotten_at_a_takeover, "row open", 11, "forks", run_ms=6_000),
    Mutant(final_row_does_not_close, "row untrue", 9, "forks", run_ms=6_000),
    Mutant(tentative_rows_under_results_final, "unasked", 12, "forks", run_ms=6_000),
    Mutant(dead_letters_of_the_line, "replay differs", 12, "forks", run_ms=6_000),
    Mutant(lent_frames_are_not_read_again, "outage open", 9, "forks", run_ms=6_000),
    Mutant(line_works_though_nothing_is_out, "unbidden", 4, "outages", run_ms=1_500),
    Mutant(outage_not_noted_with_the_placement, "outage unsaid", 11, "outages", run_ms=3_000),
    Mutant(skipped_records_not_counted, "gap", 3, "gaps"),
    Mutant(one_batch_not_counted, "gap", 3, "gaps"),
    Mutant(continued_before_the_gap_is_valid, "gap", 3, "gaps"),
    Mutant(gap_not_noted, "gap", 4, "gaps", run_ms=1_500),
    Mutant(gap_of_another_copy_not_noted, "gap", 33, "gaps"),
    Mutant(drill_of_whatever_there_is, "drilled", 6, "adaptive", run_ms=1_500),
)

EQUIVALENT: tuple[Bug, ...] = (any_run_applied, records_below_a_snapshot_once_more)
"""For these another rule stands in: their docstring says which, and which bug leaves out both."""
