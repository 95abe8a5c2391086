"""Which problems each operation may answer: those of all, those of its kind, and those of its own."""

from collections.abc import Collection, Mapping
from typing import Any

from shardclock_server.gateway.requests.idempotency import HEADER
from shardclock_server.gateway.requests.problems import (
    BROKEN,
    CONFLICT,
    IN_FLIGHT,
    KINDS,
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
    TRY_AGAIN,
    UNREADABLE,
    WRONG_MEDIA_TYPE,
    Kind,
)

ALWAYS = {BROKEN, TRY_AGAIN, UNREADABLE}
WITHOUT_POSTGRES = "healthz"
# A tenant that a key does not know is not found, and what can't be a tenant, or a query, is refused.
WITH_KEY = {NO_KEY, NOT_ALLOWED, NOT_FOUND, REFUSED, TOO_MANY}
WITH_BODY = {TOO_SLOW, TOO_LARGE, WRONG_MEDIA_TYPE}
BY_PARAMETER: Mapping[str, Collection[Kind]] = {
    HEADER: {IN_FLIGHT, OTHER_REQUEST},
    "If-Match": {STALE},
    "wait": {OVER_QUOTA},
}
CHANGES = ("move_timer", "cancel_timer", "pause_timer", "resume_timer", "run_timer", "operate_timer")
OWN: Mapping[str, Collection[Kind]] = {
    "create_timer": {NAME_TAKEN, OVER_QUOTA},
    "create_timers": {OVER_QUOTA},
    "put_timer": {OVER_QUOTA},
    **{f"{verb}_timers": {MORE_MATCH} for verb in ("cancel", "pause", "resume", "shift")},
    # No date is planned yet; or it is a timer of a job or a process, or, for an operator, is not.
    **{name: {TOO_LATE, CONFLICT} for change in CHANGES for name in (change, f"{change}_by_name")},
    # With another rule a plain timer becomes a schedule.
    **{name: {TOO_LATE, CONFLICT, OVER_QUOTA} for name in ("move_timer", "move_timer_by_name")},
    "retry_delivery": {TOO_LATE},
    "cancel_delivery": {TOO_LATE, CONFLICT},
    **{name: {CONFLICT} for name in ("redrive_dead_letter", "redrive_dead_letters")},
    **{name: {CONFLICT} for name in ("change_endpoint", "remove_endpoint", "disable_endpoint")},
    **{name: {CONFLICT} for name in ("enable_endpoint", "rotate_endpoint", "end_rotation", "test_endpoint")},
    "add_endpoint": {CONFLICT, OVER_QUOTA},
    **{name: {OVER_QUOTA} for name in ("start_process", "publish_message")},
    **{name: {OVER_QUOTA} for name in ("stream_log", "deploy_model", "preview_schedule")},
    **{name: {OVER_QUOTA} for name in ("explain_timer", "explain_timer_by_name")},
    "lease_records": {CONFLICT},
    **{name: {CONFLICT} for name in ("claim_task", "unclaim_task", "complete_task", "cancel_instance")},
    **{name: {CONFLICT} for name in ("set_variables", "resolve_incident")},
    "move_tokens": {CONFLICT, OVER_QUOTA},
    "acknowledge_records": {CONFLICT},
    **{name: {CONFLICT} for name in ("extend_service_task", "complete_service_task", "fail_service_task")},
    **{name: {CONFLICT} for name in ("throw_service_task_error", "release")},
    **{name: {CONFLICT} for name in ("put_job", "remove_job", "run_job", "cancel_job", "enable_job")},
}


def kinds_of(operation: Mapping[str, Any]) -> list[Kind]:
    """List the problems that an operation of the reference may answer, in the order of their statuses."""
    kinds = {*ALWAYS, *OWN.get(operation["operationId"], ())}
    if operation["operationId"] == WITHOUT_POSTGRES:
        kinds.remove(TRY_AGAIN)
    if operation.get("security"):
        kinds |= WITH_KEY
    if "requestBody" in operation:
        kinds |= WITH_BODY
    for parameter in operation.get("parameters", ()):
        kinds |= set(BY_PARAMETER.get(parameter["name"], ()))
    return sorted(kinds, key=lambda kind: (kind.status, KINDS.index(kind)))
