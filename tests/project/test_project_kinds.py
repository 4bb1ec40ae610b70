"""The kinds of errors are a promise to scripts and logs: one is added here, and none is renamed."""

import importlib
import pkgutil

import rayshot
from rayshot.errors import RayshotError

KINDS = {
    "actor_died",
    "actor_exited",
    "answer_changed",
    "answer_timed_out",
    "actor_not_found",
    "already_exists",
    "bad_manifest",
    "bad_signature",
    "bad_state",
    "cluster_refused",
    "cluster_unreachable",
    "code_mismatch",
    "commit_unknown",
    "config_error",
    "corrupt_chunk",
    "corrupt_file",
    "damaged",
    "encryption_key_needed",
    "error",
    "fenced",
    "foreign_lake",
    "format_too_new",
    "head_lost",
    "hook_failed",
    "incomparable",
    "incompatible",
    "inconsistent_cut",
    "intent_expired",
    "interrupted",
    "key_not_found",
    "keys_missing",
    "lake_in_use",
    "limit_exceeded",
    "lives_elsewhere",
    "name_in_use",
    "log_lost",
    "loop_not_repeatable",
    "message_not_serializable",
    "message_too_large",
    "migration_failed",
    "missing_chunk",
    "missing_file",
    "name_of_system",
    "name_taken",
    "no_answer",
    "not_an_object_ref",
    "not_found",
    "not_ready",
    "not_stable",
    "outside_conflict",
    "outside_failed",
    "outside_handler",
    "outside_refused",
    "poison_message",
    "position_taken",
    "predicate_failed",
    "python_mismatch",
    "restore_failed",
    "rolled_back",
    "schedule_failed",
    "sink_ahead",
    "sink_behind",
    "sink_fenced",
    "sink_refused",
    "sink_taken",
    "snapshot_aborted",
    "snapshot_deleted",
    "snapshot_mismatch",
    "snapshot_not_found",
    "snapshots_exist",
    "stale_handle",
    "state_not_serializable",
    "steps_exhausted",
    "store_error",
    "store_full",
    "store_unavailable",
    "system_down",
    "system_not_found",
    "system_recovering",
    "system_stopped",
    "task_left_behind",
    "unknown_key",
    "unknown_method",
    "unproved",
    "unsafe_path",
    "unsigned",
    "unsupported_version",
    "untrusted",
    "usage_error",
    "waits_for_handler",
    "wrong_arguments",
}


def test_every_error_has_one_of_these_kinds_and_each_kind_is_that_of_an_error():
    for module in pkgutil.walk_packages(rayshot.__path__, "rayshot."):
        importlib.import_module(module.name)
    assert {error.kind for error in descendants(RayshotError) if error.__module__.startswith("rayshot.")} == KINDS


def descendants(of):
    yield of
    for one in of.__subclasses__():
        yield from descendants(one)
