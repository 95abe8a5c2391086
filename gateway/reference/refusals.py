"""List the possible problems of each operation: shared by all, shared by similar operations, or specific."""

from collections.abc import Collection, Mapping
from typing import Any

from shardclock.api.codes import (
    BROKEN,
    CONFLICT,
    GENERAL,
    IN_FLIGHT,
    MORE_MATCH,
    NAME_TAKEN,
    NO_KEY,
    NOT_ALLOWED,
    NOT_FOUND,
    OTHER_REQUEST,
    OVER_QUOTA,
    REFUSED,
    STALE,
    TOO_LARGE,
    TOO_LATE,
    TOO_MANY,
    TOO_SLOW,
    UNAVAILABLE,
    UNREADABLE,
    WRONG_MEDIA_TYPE,
    RefusalCode,
)
from shardclock_server.gateway.requests.idempotency import HEADER

ALWAYS = {BROKEN, UNAVAILABLE, UNREADABLE}
WITHOUT_POSTGRES = "healthz"
# NOT_FOUND: the key has no access to the tenant. REFUSED: the tenant's name or the query is invalid.
WITH_KEY = {NO_KEY, NOT_ALLOWED, NOT_FOUND, REFUSED, TOO_MANY}
WITH_BODY = {TOO_SLOW, TOO_LARGE, WRONG_MEDIA_TYPE}
BY_PARAMETER: Mapping[str, Collection[RefusalCode]] = {
    HEADER: {IN_FLIGHT, OTHER_REQUEST},
    "If-Match": {STALE},
    "wait": {OVER_QUOTA},
}
CHANGES = ("move_timer", "cancel_timer", "pause_timer", "resume_timer", "run_timer", "change_system_timer")
OWN: Mapping[str, Collection[RefusalCode]] = {
    "create_timer": {NAME_TAKEN, OVER_QUOTA},
    "create_timers": {OVER_QUOTA},
    "put_timer": {OVER_QUOTA},
    **{f"{verb}_timers": {MORE_MATCH} for verb in ("cancel", "pause", "resume", "shift")},
    # CONFLICT: the timer has no planned date, or belongs to a job or a process; for change_system_timer, the timer
    # belongs to a client.
    **{name: {TOO_LATE, CONFLICT} for change in CHANGES for name in (change, f"{change}_by_name")},
    # A change of the rule may turn a plain timer into a schedule, which needs quota.
    **{name: {TOO_LATE, CONFLICT, OVER_QUOTA} for name in ("move_timer", "move_timer_by_name")},
    "retry_delivery": {TOO_LATE},
    "cancel_delivery": {TOO_LATE, CONFLICT},
    **{name: {CONFLICT} for name in ("redrive_dead_letter", "redrive_dead_letters", "discard_dead_letter")},
    **{name: {CONFLICT} for name in ("change_endpoint", "remove_endpoint", "disable_endpoint")},
    **{name: {CONFLICT} for name in ("enable_endpoint", "rotate_endpoint", "end_rotation", "test_endpoint")},
    "add_endpoint": {CONFLICT, OVER_QUOTA},
    "test_subscription": {CONFLICT},
    **{name: {OVER_QUOTA} for name in ("start_process", "publish_message")},
    **{name: {OVER_QUOTA} for name in ("stream_log", "deploy_model", "preview_schedule")},
    **{name: {OVER_QUOTA} for name in ("explain_timer", "explain_timer_by_name")},
    "lease_records": {CONFLICT},
    "cancel_operation": {TOO_LATE},
    **{name: {CONFLICT} for name in ("claim_task", "unclaim_task", "complete_task", "cancel_instance")},
    **{name: {CONFLICT} for name in ("set_variables", "resolve_incident")},
    "move_tokens": {CONFLICT, OVER_QUOTA},
    "acknowledge_records": {CONFLICT},
    **{name: {CONFLICT} for name in ("extend_service_task", "complete_service_task", "fail_service_task")},
    **{name: {CONFLICT} for name in ("throw_service_task_error", "release")},
    **{name: {CONFLICT} for name in ("put_job", "remove_job", "run_job", "cancel_job", "enable_job")},
}


def codes_of(operation: Mapping[str, Any]) -> list[RefusalCode]:
    """List the possible problems of an operation, in the order of their statuses."""
    codes = {*ALWAYS, *OWN.get(operation["operationId"], ())}
    if operation["operationId"] == WITHOUT_POSTGRES:
        codes.remove(UNAVAILABLE)
    if operation.get("security"):
        codes |= WITH_KEY
    if "requestBody" in operation:
        codes |= WITH_BODY
    for parameter in operation.get("parameters", ()):
        codes |= set(BY_PARAMETER.get(parameter["name"], ()))
    return sorted(codes, key=lambda code: (code.status, GENERAL.index(code)))
