//! The list of all tests: one row each, with the clause it proves, what it
//! needs, and the lines of the hazard list it covers.

use crate::ctx::Ctx;
use crate::port::Need;
use crate::tests;

/// One test of the suite.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TestInfo {
    /// `R5_drop_oldest`: the clause, and what is shown about it.
    pub name: &'static str,
    /// The clause of the contract or of a seed: `R5`, `T4`; `hazard` for those of the hazard list.
    pub clause: &'static str,
    /// What a kind must offer.
    pub needs: &'static [Need],
    /// Which lines of the hazard list it covers.
    pub hazards: &'static [u8],
    /// The test itself: panics if the promise is broken.
    pub run: fn(&Ctx),
}

/// All tests, in the order in which the runner goes through them.
pub fn all_tests() -> &'static [TestInfo] {
    TESTS
}

/// Calls a macro with every test: `[args] module::name "clause" [needs] [hazards]; …`
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_test {
    ($then:path, $($args:tt)*) => { $then! { [$($args)*]
        // seeds_spec.rs
        seeds_spec::T1_drain_ordering "T1" [] [];
        seeds_spec::T2_cancellation_stops_everything "T2" [HardShutdown, NamedThreads] [];
        seeds_spec::T3_no_panic_on_double_close "T3" [] [];
        seeds_spec::T4_bounded_concurrency "T4" [] [10];
        seeds_spec::T5_panic_safety "T5" [] [26];
        seeds_spec::T6_producer_error_path "T6" [DrainsOnDrop, NamedThreads] [];
        seeds_spec::T7_context_inside_process "T7" [HardShutdown] [];
        seeds_spec::T8_result_for_every_job "T8" [] [];
        seeds_spec::T9_first_error_stops_the_group "T9" [Groups] [];
        seeds_spec::T10_memory_stability "T10" [Alone, NamedThreads] [];
        // seeds_invariants.rs
        seeds_invariants::I1_many_closers_close_once "I1" [] [];
        seeds_invariants::I2_the_end_comes_after_the_last_result "I2" [] [];
        seeds_invariants::I3_counted_before_it_runs "I3" [Counts] [];
        seeds_invariants::I4_done_on_every_exit "I4" [] [];
        seeds_invariants::I5_nothing_enters_after_close "I5" [] [4];
        seeds_invariants::I6_a_failing_task_closes_nothing "I6" [] [];
        seeds_invariants::I7_exactly_one_end_for_every_job "I7" [HardShutdown] [];
        seeds_invariants::I8_bounded_concurrency_with_failures "I8" [HardShutdown] [];
        // seeds_contracts.rs
        seeds_contracts::C_unit_pool_creates_the_specified_number_of_workers "contracts" [] [];
        seeds_contracts::C_unit_no_workers_is_an_error "contracts" [] [];
        seeds_contracts::C_unit_submit_blocks_when_the_queue_is_full "contracts" [BoundedQueue] [];
        seeds_contracts::C_unit_submit_returns_an_error_when_cancelled "contracts" [Native] [];
        seeds_contracts::C_unit_submit_returns_an_error_when_closed "contracts" [] [];
        seeds_contracts::C_unit_submit_returns_an_error_when_stopped "contracts" [] [];
        seeds_contracts::C_unit_stop_cancels_and_closes_the_queue "contracts" [HardShutdown] [];
        seeds_contracts::C_unit_wait_returns_all_errors "contracts" [] [];
        seeds_contracts::C_unit_worker_recovers_from_panic "contracts" [NamedThreads] [];
        seeds_contracts::C_unit_metrics_counters_are_updated "contracts" [Counts, BoundedQueue] [];
        seeds_contracts::C_integration_1000_items_all_complete "contracts" [] [];
        seeds_contracts::C_integration_errors_do_not_stop_the_pool "contracts" [] [];
        seeds_contracts::C_integration_cancel_during_processing_ends_in_time "contracts" [HardShutdown] [];
        seeds_contracts::C_integration_submit_from_many_threads "contracts" [] [];
        seeds_contracts::C_integration_panic_on_one_item_others_continue "contracts" [] [];
        seeds_contracts::C_integration_breadth_first_traversal "contracts" [] [];
        seeds_contracts::C_race_concurrent_submit "contracts" [] [];
        seeds_contracts::C_race_concurrent_metrics_reads "contracts" [Counts] [];
        seeds_contracts::C_race_cancel_during_submit "contracts" [Native] [];
        // offering.rs
        offering::R1_submit_gives_the_value "R1" [] [];
        offering::R1_spawn_is_counted_and_isolated "R1" [Native] [];
        offering::R1_result_twin_counts_err_as_failed "R1" [Native] [];
        offering::R2_one_builder_for_everything "R2" [Native] [];
        offering::R2_plain_submit_is_the_same_path "R2" [Native] [];
        offering::R3_refusal_hands_the_work_back "R3" [BoundedQueue, HandsBack] [];
        offering::R3_refusal_travels_as_an_error "R3" [Native] [];
        offering::R3_reasons_are_never_merged "R3" [Native] [13];
        offering::R3_precedence_of_reasons "R3" [Native] [];
        offering::R4_try_submit_never_waits "R4" [Native] [];
        offering::R4_waits_are_bounded_in_three_ways "R4" [Native] [8];
        offering::R4_a_token_ends_a_wait_for_room "R4" [Native] [8];
        offering::R4_a_cancelled_token_refuses_though_there_is_room "R4" [Native] [9];
        // when_full.rs
        when_full::R5_wait "R5" [Native] [];
        when_full::R5_wait_for "R5" [Native] [];
        when_full::R5_reject "R5" [Native] [];
        when_full::R5_drop_newest "R5" [Native] [];
        when_full::R5_drop_oldest "R5" [Native] [12];
        when_full::R5_drop_oldest_evicts_fire_and_forget_too "R5" [Native] [12];
        when_full::R5_caller_runs "R5" [Native] [];
        when_full::R5_caller_runs_with_name_and_callback "R5" [Native] [];
        // bound.rs
        bound::R6_bound_is_exact "R6" [BoundedQueue] [];
        bound::R6_one_place_comes_free_for_one_task "R6" [Native] [];
        bound::R6_bound_holds_under_contention "R6" [Native] [10];
        bound::R6_queue_zero "R6" [Native] [];
        bound::R6_queue_zero_takes_work_from_the_start "R6" [Native] [];
        bound::R6_defaults "R6" [Native] [];
        bound::R6_nested_tasks_stay_within_the_bound "R6" [Native] [];
        bound::R7_start_order "R7" [Fifo, BoundedQueue] [];
        bound::R7_start_order_in_waves "R7" [Fifo, BoundedQueue] [];
        bound::R7_order_survives_a_flood_of_cancelled_tasks "R7" [Native] [51];
        bound::R7_no_task_waits_behind_a_long_one "R7" [] [];
        bound::R7_short_mode_strands_nothing "R7" [Native] [];
        bound::R7_order_of_one_producer_among_many "R7" [Native] [];
        // inside.rs
        inside::R8_submit_inside_a_full_pool_would_deadlock "R8" [Native] [1];
        inside::R8_submit_inside_with_room_is_accepted "R8" [Native] [];
        inside::R8_run_inline_is_an_option "R8" [Native] [];
        inside::R8_other_policies_decide_inside_as_outside "R8" [Native] [];
        inside::R8_a_callback_counts_as_inside "R8" [Native] [];
        inside::R8_submits_by_tasks_during_a_drain_are_refused_closed "R8" [Native] [15];
        inside::R8_a_task_of_another_pool_may_wait "R8" [Native] [];
        // waiting.rs
        waiting::R9_wait_inside_runs_a_queued_target "R9" [Native] [];
        waiting::R9_wait_inside_for_a_running_target_waits "R9" [Native] [];
        waiting::R9_never_runs_unrelated_tasks "R9" [Native] [3];
        waiting::R9_wait_on_the_own_handle_would_deadlock "R9" [Native] [];
        waiting::R9_a_cycle_of_waits_would_deadlock "R9" [Native] [];
        waiting::R9_nesting_has_a_limit "R9" [Native] [];
        waiting::R9_shutdown_inside_is_an_error_and_close_works "R9" [Native] [18];
        waiting::R9_looking_never_runs_the_task "R9" [Native] [];
        waiting::R9_a_handle_that_came_back_still_works "R9" [Native] [];
        // helping.rs
        helping::R10_tasks_run_on_workers "R10" [Native] [];
        helping::R10_helping_keeps_the_bound "R10" [Native] [];
        helping::R10_nobody_helps_when_no_worker_is_idle "R10" [Native] [];
        helping::R10_a_helper_counts_as_inside "R10" [Native] [];
        helping::R10_helping_and_worker_state_exclude_each_other "R10" [Native] [];
        // outcomes.rs
        outcomes::O1_row_completed_failed_panicked "O1" [] [38];
        outcomes::O1_row_cancelled_in_the_queue "O1" [Cancel] [];
        outcomes::O1_row_cancelled_while_running "O1" [Cancel] [];
        outcomes::O1_row_cancelled_names_its_cause "O1" [Native] [];
        outcomes::O1_a_parent_cancels_what_a_dropped_child_was_given_to "O1" [Native] [];
        outcomes::O1_a_parent_is_cancelled_as_its_child_is_dropped "O1" [Native] [];
        outcomes::O1_row_evicted_never_ran "O1" [Native] [];
        outcomes::O1_row_abandoned_may_still_run "O1" [Native] [];
        outcomes::O1_captures_are_gone_before_the_outcome_shows "O1" [] [85];
        outcomes::O1_late_claims_change_nothing "O1" [Native] [];
        outcomes::O1_one_winner_when_many_cancel "O1" [Native] [];
        outcomes::O1a_a_cancelled_task_frees_its_place_at_once "O1a" [Cancel, BoundedQueue] [51];
        outcomes::O1a_who_drops_the_captures_of_a_cancelled_task "O1a" [Native] [];
        // verdicts.rs
        verdicts::O2_whoever_waits_sees_what_the_task_wrote "O2" [] [39];
        verdicts::O3_a_cancel_is_a_request "O3" [Native] [];
        verdicts::O3_check_carries_the_stop_out "O3" [Native] [];
        verdicts::O3_the_first_cause_stays "O3" [Native] [];
        // enumerated.rs
        enumerated::O1_cancel_finish_drop_enumerated "O1" [Native] [44];
        // delivery.rs
        delivery::O4_every_way_to_collect "O4" [Native] [];
        delivery::O4_nothing_is_given_before_the_end "O4" [Native] [];
        delivery::O4_a_future_waits_for_a_queued_and_for_a_running_task "O4" [Native] [];
        delivery::O4_the_callback_gets_a_summary_after_publication "O4" [Native] [];
        delivery::O4_the_callback_comes_for_tasks_that_never_ran "O4" [Native] [];
        delivery::O4_a_panicking_callback_is_counted_and_kills_nothing "O4" [Native] [40];
        delivery::O4_wait_idle_and_shutdown_wait_for_callbacks "O4" [Native] [];
        delivery::O4_dropping_a_handle_detaches "O4" [Native] [];
        delivery::O4_cancel_on_drop_cancels "O4" [Native] [];
        delivery::O4_an_uncollected_result_goes_with_its_handle "O4" [Native] [];
        // isolation.rs
        isolation::O5_panic_in_the_closure "O5" [Native] [];
        isolation::O5_panic_in_the_drop_of_captures "O5" [Native] [37];
        isolation::O5_panic_in_the_drop_of_a_result "O5" [Native] [37];
        isolation::O5_panic_in_the_drop_of_a_payload "O5" [Native] [37];
        isolation::O5_the_payload_is_available_once "O5" [Native] [];
        isolation::O5_panic_in_a_hook "O5" [Native] [40];
        isolation::O5_panic_in_a_waker "O5" [Native] [40];
        isolation::O6_unobserved_failures_reach_the_hook "O6" [Native] [41];
        isolation::O6_an_error_dropped_unread_is_reported "O6" [Native] [41];
        isolation::O6_what_somebody_saw_is_not_reported "O6" [Native] [];
        isolation::O6_an_abandoned_task_is_told "O6" [Native] [];
        // long_tasks.rs
        long_tasks::L1_the_context_gives_everything "L1" [Native] [];
        long_tasks::L1_the_token_can_be_passed_on "L1" [Native] [];
        long_tasks::L4_grace_then_abandoned_and_replaced "L4" [Native] [46];
        long_tasks::L4_a_stuck_worker_that_returns_retires "L4" [Native] [47];
        long_tasks::L4_grace_zero "L4" [Native] [];
        long_tasks::L4_max_abandoned_bounds_the_replacements "L4" [Native] [];
        long_tasks::L4_nobody_is_abandoned_without_a_request "L4" [Native] [];
        long_tasks::L4_the_grace_counts_from_the_first_request "L4" [Native] [];
        long_tasks::L5_duration_max_means_never "L5" [Native] [53, 88];
        long_tasks::L5_nearly_endless_durations_do_not_overflow "L5" [Native] [53];
        long_tasks::L5_a_jump_of_the_clock_fires_everything_once "L5" [Native] [53];
        long_tasks::L5_zero_waits_do_not_wait "L5" [Native] [];
        long_tasks::hazard_88_waits_of_duration_max_end_when_it_happens "hazard" [Native] [88];
        // groups.rs
        groups::G1_wait_returns_when_all_have_settled "G1" [Native] [];
        groups::G1_the_first_failure_cancels_the_rest "G1" [Native] [];
        groups::G1_collect_all_goes_on_and_returns_all "G1" [Native] [];
        groups::G1_a_panic_goes_on_in_the_waiter "G1" [Native] [];
        groups::G1_the_limit_bounds_what_is_unsettled "G1" [Native] [];
        groups::G1_who_waits_for_a_slot_is_released "G1" [Native] [];
        groups::G1_cancel_stops_the_group_and_is_no_failure "G1" [Native] [];
        groups::G1_a_cancel_from_elsewhere_is_a_failure "G1" [Native] [];
        groups::G1_the_deadline_is_for_the_whole_group "G1" [Native] [];
        groups::G1_fork_and_join_inside_the_pool "G1" [Native] [];
        groups::G1_submitting_to_a_group_from_inside_it "G1" [Native] [];
        groups::G1_a_waiter_inside_runs_what_is_added_meanwhile "G1" [Native] [];
        groups::R8_a_fork_is_never_refused_however_deep "R8" [Native] [];
        groups::G1_waiting_for_a_group_from_inside_it_would_deadlock "G1" [Native] [];
        groups::G1_a_member_that_runs_inline_knows_its_group "G1" [Native] [];
        group_ends::hazard_37_errors_that_panic_when_dropped_do_not_hold_up_a_group "G1" [Native] [37];
        group_ends::G1_the_deadline_also_ends_the_wait_for_room "G1" [Native] [8];
        group_ends::G1_inside_the_limit_holds_too "G1" [Native] [];
        group_ends::G1_a_cancel_of_its_own_token_is_no_failure "G1" [Native] [];
        group_ends::O6_failures_of_a_dropped_group_are_told "O6" [Native] [37];
        group_ends::O6_what_a_wait_does_not_return_is_told "O6" [Native] [];
        group_ends::G1_a_wait_inside_does_not_wait_for_who_wants_to_join "G1" [Native] [];
        group_ends::G1_groups_nest_deeply "G1" [Native] [];
        group_ends::G1_only_one_wait_returns_the_failures "G1" [Native] [];
        group_ends::G1_inside_a_group_works_while_the_pool_drains "G1" [Native] [];
        group_ends::G1_dropping_a_group_cancels_and_detaches "G1" [Native] [];
        group_ends::G1_an_evicted_task_is_a_failure "G1" [Native] [];
        group_ends::hazard_60_fail_fast_reaches_a_submitter_that_waits_for_room "G1" [Native] [60];
        group_ends::hazard_59_limit_and_queue_do_not_wait_for_each_other "G1" [Native] [59];
        // scopes.rs
        scopes::G2_tasks_borrow_from_the_stack "G2" [Native] [];
        scopes::G2_a_panic_in_the_body_waits_for_the_tasks "G2" [Native] [];
        scopes::G2_forgotten_handles_change_nothing "G2" [Native] [44];
        scopes::G2_a_panic_in_a_task_is_the_scopes_unless_seen "G2" [Native] [];
        scopes::G2_nested_scopes_inside_the_pool "G2" [Native] [];
        scopes::G2_a_shutdown_drops_queued_ones_before_the_scope_ends "G2" [Native] [];
        scopes::hazard_62_hard_returns_and_a_scoped_task_is_not_abandoned "G2" [Native] [62];
        scopes::G2_a_scoped_task_can_be_cancelled "G2" [Native] [];
        scopes::G2_a_scoped_task_has_limits_and_a_token "G2" [Native] [];
        scopes::G2_with_state_a_scope_inside_takes_nothing_from_anywhere "G2" [Native] [];
        scopes::S4_a_task_on_a_caller_is_listed_as_borrowing "S4" [Native] [];
        scopes::G2_a_refusal_gives_borrowing_work_back "G2" [Native] [];
        scopes::G2_tasks_may_submit_to_their_own_scope "G2" [Native] [];
        scopes::G2_the_end_of_a_scope_inside_runs_what_is_added_meanwhile "G2" [Native] [];
        scopes::G2_the_panic_of_a_scope_is_the_one_nobody_saw "G2" [Native] [];
        scopes::G2_a_scoped_task_hears_that_it_should_stop "G2" [Native] [];
        scopes::hazard_61_bodies_that_panic_in_every_phase "G2" [Native] [61];
        // maps.rs
        maps::G3_results_come_in_the_order_of_the_items "G3" [Native] [];
        maps::G3_as_completed_gives_what_is_ready_first "G3" [Native] [];
        maps::G3_a_map_may_change_to_as_completed "G3" [Native] [];
        maps::G3_items_are_pulled_lazily_within_the_window "G3" [Native] [];
        maps::G3_a_slow_reader_blocks_no_worker "G3" [Native] [];
        maps::G3_the_first_error_stops_it "G3" [Native] [];
        maps::G3_the_first_panic_stops_it "G3" [Native] [];
        maps::G3_an_error_stops_what_is_queued_while_the_reader_waits "G3" [Native] [];
        maps::G3_dropping_a_map_cancels_what_is_queued "G3" [Native] [];
        maps::G3_a_closed_pool_gives_the_item_back "G3" [Native] [];
        maps::G3_maps_work_inside_the_pool "G3" [Native] [];
        maps::G3_a_map_in_a_scope_borrows "G3" [Native] [];
        maps::G3_a_failing_map_in_a_scope_leaves_nothing_behind "G3" [Native] [];
        maps::G3_a_map_waits_for_room_whatever_the_policy "G3" [Native] [];
        maps::G3_a_result_that_is_ready_does_not_wait_for_room "G3" [Native] [];
        maps::G3_nothing_comes_after_an_error "G3" [Native] [];
        maps::G3_maps_nest_deeply_inside_the_pool "G3" [Native] [];
        maps::G3_a_map_inside_a_pool_with_state_is_refused "G3" [Native] [];
        maps::G3_a_failure_is_told_once_in_a_closing_pool "G3" [Native] [];
        maps::G3_a_window_of_any_size "G3" [Native] [];
        maps::G3_a_result_ends_the_wait_for_room "G3" [Native] [];
        maps::A1_what_nobody_asked_for_is_not_counted "A1" [Native] [];
        maps::G3_no_item_is_starved_inside_the_pool "G3" [Native] [];
        // budgets.rs
        budgets::B1_queued_work_is_paid_for "B1" [Native] [11];
        budgets::B1_it_comes_back_on_every_ending "B1" [Native] [];
        budgets::B1_a_budget_named_twice_is_taken_once "B1" [Native] [];
        budgets::B1_without_permits_the_policy_decides "B1" [Native] [];
        budgets::B1_nobody_goes_by_a_heavy_one "B1" [Native] [];
        budgets::hazard_55_whoever_leaves_the_head_passes_the_turn_on "B1" [Native] [55];
        budgets::hazard_56_weights_that_make_no_sense "B1" [Native] [56];
        budgets::B1_inside_a_task_it_never_waits "B1" [Native] [];
        budgets::B1_reasons_come_in_their_order "B1" [Native] [];
        budgets::B1_a_budget_can_be_resized "B1" [Native] [];
        budgets::B1_an_abandoned_task_keeps_its_weight "B1" [Native] [];
        budgets::B1_a_close_releases_who_waits "B1" [Native] [];
        budgets::B1_pools_and_groups_share_it "B1" [Native] [];
        budgets::B1_a_wait_for_permits_holds_no_place "B1" [Native] [];
        budgets::B1_one_limit_for_permits_and_place "B1" [Native] [];
        budgets::B1_two_budgets_do_not_wait_for_each_other "B1" [Native] [];
        budgets::B1_by_hand_blocking_and_async "B1" [Native] [];
        budgets::B1_a_future_that_was_served_and_dropped "B1" [Native] [];
        budgets::B2_a_rate_lets_in_what_time_allows "B2" [Native] [];
        budgets::B2_a_refusal_gives_a_rate_back "B2" [Native] [];
        budgets::B2_waiters_of_a_rate_come_in_time_and_in_order "B2" [Native] [];
        // times.rs
        times::A2_the_wait_in_the_queue_is_measured "A2" [Native] [];
        times::A2_the_run_is_measured_by_name "A2" [Native] [];
        times::A2_a_shutdown_forgets_no_run "A2" [Native] [];
        times::A2_a_busy_worker_shows_at_once "A2" [Native] [];
        times::A2_the_wait_for_room_is_measured "A2" [Native] [];
        times::A2_utilisation_is_the_share_of_time_in_tasks "A2" [Native] [];
        times::A2_a_snapshot_has_the_roster "A2" [Native] [];
        times::A3_short_tasks_are_sampled_and_counters_are_not "A3" [Native] [];
        // diagnosis.rs
        diagnosis::V3_healthy_under_an_ordinary_load "V3" [Native] [];
        diagnosis::V3_saturated_when_the_queue_is_full_and_submitters_wait "V3" [Native] [];
        diagnosis::V3_saturated_when_work_is_refused "V3" [Native] [];
        diagnosis::V3_stalled_when_work_waits_and_no_worker_finishes "V3" [Native] [];
        diagnosis::V3_no_stall_when_a_submitter_waits_for_a_budget "V3" [Native] [];
        diagnosis::V3_a_budget_that_refuses_is_no_sign_of_too_many_workers "V3" [Native] [];
        diagnosis::V3_a_rate_that_is_waited_for_is_seen "V3" [Native] [];
        diagnosis::V3_stuck_when_an_abandoned_task_does_not_return "V3" [Native] [];
        diagnosis::V3_short_handed_above_max_abandoned "V3" [Native] [];
        diagnosis::V3_short_handed_when_no_thread_can_be_started "V3" [Native] [];
        diagnosis::V3_failing_when_the_share_of_errors_jumps "V3" [Native] [];
        diagnosis::V3_flapping_when_workers_are_lost_again_and_again "V3" [Native] [];
        diagnosis::V3_flapping_when_the_size_goes_up_and_down "V3" [Native] [];
        diagnosis::V3_starved_when_nothing_arrives "V3" [Native] [];
        diagnosis::V3_overprovisioned_when_workers_are_to_spare "V3" [Native] [];
        diagnosis::V3_suspiciously_fast_when_tasks_do_nothing "V3" [Native] [];
        diagnosis::V3_the_window_is_the_callers_or_the_pools "V3" [Native] [];
        // slices.rs
        slices::G3_a_slice_gives_one_result_each_in_order "G3" [Native] [];
        slices::G3_nothing_is_stranded_behind_a_long_item "G3" [Native] [];
        slices::G3_a_panic_costs_one_item_of_a_slice "G3" [Native] [];
        slices::G3_a_slice_inside_the_pool "G3" [Native] [];
        slices::G3_a_slice_stays_within_the_workers "G3" [Native] [];
        slices::G3_a_slice_does_not_wait_for_busy_workers "G3" [Native] [];
        slices::G3_a_slice_that_is_pushed_out_comes_again "G3" [Native] [];
        slices::G3_a_slice_of_a_closed_pool_is_refused "G3" [Native] [];
        slices::G3_a_hard_shutdown_ends_a_slice_between_items "G3" [Native] [];
        slices::G3_a_bulk_is_as_many_spawns_in_order "G3" [Native] [];
        slices::G3_a_refused_bulk_gives_the_rest_back "G3" [Native] [];
        slices::G3_a_bulk_leaves_no_worker_asleep "G3" [Native] [];
        // limits.rs
        limits::L2_a_running_task_is_told_at_its_limit "L2" [Native] [];
        limits::L2_the_time_of_the_run_begins_with_it "L2" [Native] [];
        limits::L2_a_queued_task_ends_at_its_limit_and_frees_its_place "L2" [Native] [51];
        limits::L2_the_time_in_the_queue_begins_with_acceptance "L2" [Native] [];
        limits::L2_a_task_that_starts_in_time_has_no_limit_in_the_queue "L2" [Native] [];
        limits::L2_a_total_limit_is_both "L2" [Native] [];
        limits::L2_the_pools_limit_and_opting_out "L2" [Native] [];
        limits::L2_limits_hold_while_paused_and_closed "L2" [Native] [];
        limits::L2_on_the_callers_thread_limits_hold_too "L2" [Native] [];
        limits::L2_who_ignores_the_limit_is_abandoned_after_the_grace "L2" [Native] [];
        limits::L2_a_fire_and_forget_task_is_abandoned_too "L2" [Native] [];
        limits::L3_limits_fire_when_every_worker_is_stuck "L3" [Native] [];
        limits::L3_many_limits_cost_no_thread "L3" [Native] [];
        limits::O3_a_timeout_is_strict "O3" [Native] [];
        limits::L2_the_summary_says_where_it_was "L2" [Native] [];
        limits::L5_limits_of_zero_and_of_for_ever "L5" [Native] [];
        // shutdown.rs
        shutdown::S1_row_light "S1" [Native] [17];
        shutdown::S1_row_soft "S1" [Native] [16];
        shutdown::S1_row_hard "S1" [Native] [];
        shutdown::S1_row_light_within "S1" [Native] [];
        shutdown::S1_row_soft_within "S1" [Native] [];
        shutdown::O1a_a_hanging_destructor_holds_up_no_other_task "O1a" [Native] [];
        shutdown::O1a_a_destructor_that_hangs_in_the_callers_shutdown "O1a" [Native] [];
        shutdown::S1_hard_returns_though_a_destructor_hangs "S1" [Native] [];
        shutdown::S1_within_that_is_kept_is_a_success "S1" [Native] [];
        shutdown::S1_blocked_submitters_are_released_as_closed "S1" [Native] [6];
        shutdown::S1_blocked_submitters_are_released_by_close "S1" [BoundedQueue, ReleasesBlocked] [6];
        shutdown::S1_nothing_accepted_is_lost "S1" [SoftShutdown, HardShutdown] [4, 5, 82];
        // shutdown_calls.rs
        shutdown_calls::S2_every_caller_gets_the_same_report "S2" [Native] [19];
        shutdown_calls::S2_a_stronger_mode_escalates "S2" [Native] [];
        shutdown_calls::S2_a_weaker_mode_changes_nothing "S2" [Native] [];
        shutdown_calls::S2_a_token_tells_that_the_pool_closes "S2" [Native] [];
        shutdown_calls::S2_a_pool_that_closes_cancels_tasks_of_another "S2" [Native] [];
        shutdown_calls::S2_from_async_code "S2" [Native] [];
        shutdown_calls::S2_async_inside_a_task_is_an_error "S2" [Native] [];
        shutdown_calls::S3_a_parent_token_is_hard_by_default "S3" [Native] [];
        shutdown_calls::S3_what_a_parent_does_is_configurable "S3" [Native] [];
        shutdown_calls::S4_the_report_counts_since_the_shutdown_began "S4" [Native] [];
        shutdown_calls::S4_the_report_counts_what_its_own_close_has_cancelled "S4" [Native] [];
        shutdown_calls::S4_the_report_names_what_was_cancelled "S4" [Native] [];
        shutdown_calls::S4_the_report_names_what_stopped_when_told "S4" [Native] [];
        shutdown_calls::S4_a_missed_deadline_is_never_a_success "S4" [Native] [21];
        shutdown_calls::S5_producers_before_consumers "S5" [Native] [23];
        shutdown_calls::S5_the_last_pool_is_left_a_share "S5" [Native] [23];
        shutdown_calls::S5_one_grace_for_all "S5" [Native] [];
        shutdown_calls::S5_each_gets_the_time_left_by_the_pools_left "S5" [Native] [];
        shutdown_calls::S5_a_pool_takes_no_more_grace_than_it_is_given "S5" [Native] [];
        // leaving.rs
        leaving::S6_drop_drains_in_the_background "S6" [DrainsOnDrop, NamedThreads] [22];
        leaving::S6_only_the_last_drop_counts "S6" [Native] [];
        leaving::S6_a_drop_with_work_left_is_reported "S6" [Native] [];
        leaving::S6_a_drop_without_work_is_silent "S6" [Native] [];
        leaving::S6_the_last_pool_is_dropped_by_its_own_task "S6" [Native] [45];
        leaving::hazard_70_the_last_pool_is_dropped_inside_async_code "hazard" [Native] [70];
        leaving::S6_shutdown_joins_for_real "S6" [Native] [22];
        leaving::S9_no_worker_can_be_made_while_closing "S9" [Native] [];
        leaving::S9_a_worker_that_comes_back_in_time_drains "S9" [Native] [];
        leaving::S6_handles_outlive_the_pool "S6" [] [];
        // sizing.rs
        sizing::W4_grows_when_tasks_wait_and_not_before "W4" [Native] [];
        sizing::W4_a_worker_that_is_idle_is_enough "W4" [Native] [];
        sizing::W4_holds_still_for_the_cooldown "W4" [Native] [];
        sizing::W4_shrinks_when_idle_and_not_before "W4" [Native] [];
        sizing::W4_a_busy_worker_is_not_sent_home "W4" [Native] [];
        sizing::W4_an_idle_pool_is_silent "W4" [Native] [32];
        sizing::W4_min_0_comes_back_from_nothing "W4" [Native] [29];
        sizing::W4_min_0_drains_from_nothing "W4" [Native] [];
        sizing::W4_min_0_and_queue_0_can_be_built_however_fast_it_shrinks "W4" [Native] [];
        sizing::W4_min_0_and_queue_0_hand_over_to_a_new_worker "W4" [Native] [];
        sizing::W4_queue_0_grows_for_whoever_finds_nobody_idle "W4" [Native] [31];
        sizing::W4_a_small_full_queue_grows_the_pool "W4" [Native] [];
        sizing::W4_no_growth_while_paused "W4" [Native] [];
        sizing::W4_stuck_workers_do_not_count "W4" [Native] [];
        sizing::W4_a_thread_that_cannot_be_started_comes_later "W4" [Native] [28];
        sizing::W4_stop_worker_stops_at_the_minimum "W4" [Native] [];
        // resizing.rs
        resizing::W4_resize_up_lets_waiting_submitters_in "W4" [Native] [31];
        resizing::W4_resize_above_the_first_size_stays_correct "W4" [Native] [];
        resizing::W4_resize_down_lets_running_tasks_finish "W4" [Native] [];
        resizing::W4_resize_down_and_up_again_keeps_the_busy "W4" [Native] [];
        resizing::W4_resize_between_numbers_and_ranges "W4" [Native] [];
        resizing::W4_resize_says_what_is_wrong "W4" [Native] [];
        resizing::W4_resizing_under_load_loses_nothing "W4" [Native] [];
        resizing::W4_a_resize_is_not_undone "W4" [Native] [];
        resizing::hazard_30_deciders_never_go_below_the_minimum "hazard" [Native] [30];
        resizing::hazard_34_a_burst_leaves_no_threads_behind "hazard" [Native, NamedThreads] [34];
        resizing::hazard_87_resize_races_with_shutdown "hazard" [Native] [87];
        // steering.rs
        steering::S7_stop_one_worker_after_its_task "S7" [Native] [];
        steering::S7_stop_one_worker_hard "S7" [Native] [];
        steering::S7_stop_one_worker_hard_reaches_a_fire_and_forget_task "S7" [Native] [];
        steering::S7_recycle_one_worker "S7" [Native] [];
        steering::S7_recycle_an_idle_worker "S7" [Native] [];
        steering::S7_an_unknown_worker_is_an_error "S7" [Native] [];
        steering::S7_cancel_one_task_by_id_from_the_roster "S7" [Native] [];
        steering::S8_pause_holds_the_backlog "S8" [Native] [];
        steering::S8_what_is_submitted_after_a_pause_does_not_start "S8" [Native] [];
        steering::S8_queued_tasks_can_be_cancelled_while_paused "S8" [Native] [];
        steering::S8_a_waiter_inside_may_run_its_own_target "S8" [Native] [];
        steering::S8_queue_zero_has_no_idle_worker_while_paused "S8" [Native] [];
        steering::S8_queue_zero_runs_what_it_accepted_before_a_pause "S8" [Native] [];
        steering::S8_queue_zero_has_its_workers_back_after_a_pause "S8" [Native] [];
        steering::S8_close_does_not_end_the_pause "S8" [Native] [];
        steering::S8_shutdown_ends_the_pause "S8" [Native] [];
        steering::S8_the_last_drop_ends_the_pause "S8" [Native] [];
        steering::S8_wait_idle_waits_for_a_paused_pool "S8" [Native] [];
        // workers.rs
        workers::W1_threads_are_named "W1" [Native] [];
        workers::W1_exactly_as_many_workers_as_asked_for "W1" [Native] [10];
        workers::W1_stack_size "W1" [Native] [];
        workers::W1_hooks_run_once_per_worker "W1" [Native] [];
        workers::W1_each_worker_has_its_own_state "W1" [Native] [];
        workers::W1_state_is_rebuilt_after_a_panic "W1" [Native] [];
        workers::W1_state_is_rebuilt_after_a_late_panic "W1" [Native] [];
        workers::W1_a_wait_inside_a_stateful_pool_would_deadlock "W1" [Native] [];
        workers::W1_what_state_excludes_is_a_build_error "W1" [Native] [];
        workers::W3_the_roster_shows_idle_running_and_stopping "W3" [Native] [];
        workers::W3_the_roster_shows_starting "W3" [Native] [];
        workers::W3_the_roster_shows_restarting_with_its_cause "W3" [Native] [];
        workers::W3_pool_states "W3" [Native] [];
        // workers_lost.rs
        workers_lost::W2_state_that_cannot_be_made "W2" [Native] [];
        workers_lost::W2_a_panicking_start_hook "W2" [Native] [];
        workers_lost::W2_a_panicking_stop_hook "W2" [Native] [];
        workers_lost::W2_spawn_failure_later_loses_no_task "W2" [Native] [27, 28];
        workers_lost::hazard_27_nobody_is_started_while_unwinding "hazard" [Native] [27];
        workers_lost::W2_a_first_worker_that_fails_is_a_build_error "W2" [Native] [28];
        workers_lost::W2_failing_builds_leave_nothing_behind "W2" [Native] [28];
        // many.rs
        many::G4_every_result_comes_once "G4" [Native] [];
        many::G4_the_window_bounds_what_is_not_collected "G4" [Native] [];
        many::G4_every_kind_of_outcome_comes "G4" [Native] [];
        many::G4_a_shutdown_comes_through_the_stream "G4" [Native] [];
        many::G4_dropping_the_stream_detaches "G4" [Native] [];
        many::G4_next_inside_a_task_runs_its_own_tasks "G4" [Native] [];
        many::W5_a_batch_gives_all_outcomes_in_order "W5" [Native] [];
        many::W5_an_incomplete_batch_lists_the_unfinished "W5" [Native] [];
        many::W5_an_empty_batch_is_done "W5" [Native] [];
        // accounting.rs
        accounting::A1_identity_at_rest "A1" [Native] [65];
        accounting::A1_gauges_stay_within_their_bounds "A1" [Native] [];
        accounting::A1_inequalities_always "A1" [Native] [64];
        accounting::A1_identity_survives_shutdown_in_the_middle "A1" [Native] [];
        accounting::A1_abandoned_tasks_keep_the_identity "A1" [Native] [];
        accounting::A2_one_snapshot_shows_it_all "A2" [Native] [];
        // hazards_races.rs
        hazards_races::hazard_02_all_workers_wait_for_queued_tasks "hazard" [Native] [2];
        hazards_races::hazard_02_fork_join_by_handles "hazard" [WaitInside] [2];
        hazards_races::hazard_07_a_free_place_always_wakes_a_submitter "hazard" [BoundedQueue] [7];
        hazards_races::hazard_14_a_slow_producer_starves_nobody "hazard" [Native] [14];
        hazards_races::hazard_29_a_task_comes_as_an_idle_worker_leaves "hazard" [Native] [29];
        hazards_races::hazard_29_a_task_comes_as_the_last_idle_worker_is_replaced "hazard" [Native] [29];
        hazards_races::hazard_33_no_wake_up_is_lost "hazard" [] [33];
        hazards_races::hazard_33_every_idle_worker_can_be_woken "hazard" [Native] [33];
        hazards_handles::hazard_42_a_handle_dropped_on_a_worker_or_by_its_own_task "hazard" [Native] [42];
        hazards_handles::hazard_43_a_handle_moves_between_pollers "hazard" [Native] [43];
        hazards_handles::hazard_78_user_code_may_park_and_unpark "hazard" [Native] [78];
        hazards_races::hazard_80_submit_then_drop_gives_the_value "hazard" [DrainsOnDrop] [80];
        hazards_handles::hazard_81_waiters_leave_while_being_told "hazard" [Native] [81];
        hazards_races::hazard_86_no_lock_is_held_while_captures_are_dropped "hazard" [Native] [86];
        hazards_races::hazard_15_a_task_chain_ends_with_the_drain "hazard" [Native] [15];
        hazards_races::hazard_19_shutdowns_race "hazard" [Native] [19];
        // hazards_panics.rs
        hazards_panics::hazard_26_panics_never_shrink_the_pool "hazard" [Native] [26];
        hazards_panics::hazard_40_a_display_of_the_user_panics "hazard" [Native] [40];
        hazards_panics::hazard_83_a_panicking_waker_starves_nobody "hazard" [Native] [83];
        hazards_panics::hazard_84_payloads_that_panic_in_drop_nested "hazard" [Native] [84];
        hazards_panics::hazard_66_closures_that_never_return_a_value "hazard" [Native] [66];
        hazards_panics::hazard_24_the_process_ends_with_running_workers "hazard" [Native] [24];
        hazards_panics::hazard_24_thread_locals_may_use_the_pool "hazard" [Native] [24];
        hazards_panics::R3_a_bad_callback_does_not_keep_the_work "R3" [Native] [];
        // hazards_memory.rs
        hazards_memory::hazard_63_an_idle_worker_pins_nothing "hazard" [Native] [63];
        hazards_memory::hazard_75_closures_of_every_size "hazard" [Native] [75];
        hazards_memory::hazard_66_zero_sized_and_over_aligned "hazard" [Native] [66];
        hazards_memory::hazard_67_captures_are_dropped_exactly_once "hazard" [Native] [67];
        hazards_memory::hazard_44_a_forgotten_handle_is_harmless "hazard" [Native] [44];
        hazards_memory::hazard_46_abandoned_tasks_do_not_kill_the_pool "hazard" [Native] [46];
        hazards_memory::hazard_52_tasks_and_children_leave_a_long_lived_token "hazard" [Alone, Native] [52];
        hazards_memory::hazard_63_uncollected_results_do_not_pile_up "hazard" [Alone, Native] [63];
    } };
}

macro_rules! table {
    ([$list:ident] $($module:ident :: $test:ident $clause:literal [$($need:ident),*] [$($hazard:literal),*];)*) => {
        static $list: &[TestInfo] = &[$(TestInfo {
            name: stringify!($test),
            clause: $clause,
            needs: &[$(Need::$need),*],
            hazards: &[$($hazard),*],
            run: tests::$module::$test,
        }),*];
    };
}

for_each_test!(table, TESTS);

/// Stamps the whole suite out as `#[test]`s for one kind, in a module of its own.
///
/// ```text
/// tidegate_conformance::stamp_suite!(my_pool, MyKind::new());
/// ```
#[macro_export]
macro_rules! stamp_suite {
    ($module:ident, $kind:expr) => {
        #[allow(non_snake_case)]
        mod $module {
            #[allow(unused_imports)]
            use super::*;

            fn kind() -> std::sync::Arc<dyn $crate::Kind> {
                std::sync::Arc::new($kind)
            }

            $crate::for_each_test!($crate::stamp_tests, kind);
        }
    };
}

/// The `#[test]`s of [`stamp_suite`].
#[doc(hidden)]
#[macro_export]
macro_rules! stamp_tests {
    ([$kind:ident] $($module:ident :: $test:ident $clause:literal [$($need:ident),*] [$($hazard:literal),*];)*) => {
        $(#[test]
        fn $test() {
            $crate::runner::check(&$kind(), stringify!($test));
        })*
    };
}
