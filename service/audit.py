"""List audit records, and reduce an operator's request to a short form without secrets for the record.

`gateway/requests/recording.py` writes the records of the API, and `cli/recording.py` writes the records of the command
line.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from shardclock_server.sql.audit.acts import AuditCursor, AuditFilter, AuditRecord, list_acts
from shardclock_server.sql.page_cursors import read_cursor, write_cursor
from shardclock_server.sql.session import Session

DONE, NOT_DONE, FAILED = "done", "not done", "failed"
LISTED_MAX = 10_000

WITHHELD = "…"
FIELDS_MAX, ITEMS_MAX = 40, 20
NAME_CHARS_MAX, TEXT_CHARS_MAX = 60, 200
WHAT_BYTES_MAX = 8_192
DEPTH_MAX, BITS_MAX = 4, 64

# A record stores the values of these fields and options, and only the names of all other fields. If a developer forgets
# to add a new field to this list, the audit stores no value of the field, and leaks no secret.
RECORDED_FIELDS = frozenset({
    # the selected object
    "name", "group", "prefix", "tenant", "timer_key", "timer_keys", "target", "cluster_id", "name_prefix", "due_from",
    "due_before", "process_instance", "process_instance_key", "filter", "name_contains", "changed_from",
    "changed_before", "only_schedules", "failing", "died_before", "reason_line", "limit", "every", "all_timers",
    "all_tenants", "role", "of_job", "function", "file", "resource", "process_id", "version", "definition_key",
    "instance_key", "business_key", "terminated", "begun", "state",
    # the change
    "reason", "why", "dry_run", "force", "yes", "shift", "operation", "delay", "at", "zone", "cron", "repeat", "missed",
    "overlap", "priority", "per_s", "per_second", "to", "partitions", "asked", "least", "most", "within_s", "wait_s",
    "expires", "scopes", "asymmetric", "end", "no_headers", "no_rate", "policy", "concurrency", "rate", "rate_per_s",
    "timeout", "timeout_s", "max_attempts", "expires_after", "expires_after_s", "no_expires_after", "give_up_after",
    "give_up_after_s", "no_give_up_after", "retry_min", "retry_min_s", "retry_max", "retry_max_s", "timers",
    "payload_bytes", "waiters", "endpoints", "timers_max", "payload_bytes_max", "waiters_max", "endpoints_max",
    "instances", "tasks", "messages", "definitions", "instances_max", "tasks_max", "messages_max", "definitions_max",
    "schedules", "schedules_max", "on", "kinds", "failures", "failures_min", "text_only",
    "wanted", "min", "max", "target_per_s", "verb", "due_date", "until",
    # the result
    "matched", "changed", "operation_id", "changes",
})  # fmt: skip
# A record stores the value of these fields only if the value is a number. The token of a process is a number, but the
# token of a bulk change is a secret text.
RECORDED_NUMBERS = frozenset({"token"})


@dataclass(frozen=True, slots=True)
class AuditPage:
    """One page of audit records. `next` is the argument `page` for the next page; None: this is the last page."""

    acts: list[AuditRecord]
    next: str | None


async def page_of(session: Session, wanted: AuditFilter, *, size: int, page: str | None = None) -> AuditPage:
    """Find audit records, the newest first.

    shape:   at most `size` records
    errors:  Refusal           `page` is not the `next` of an earlier page
             StoreUnavailable  Postgres did not answer within the timeout
    """
    assert 0 < size <= LISTED_MAX
    after = read_cursor(AuditCursor, page, "from a list of audit records")
    acts = await list_acts(session, wanted, limit=size, after=after)
    return AuditPage(acts, next=write_cursor(acts[-1].cursor) if len(acts) == size else None)


def recorded_fields(fields: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields of a request that an audit record stores; empty fields are omitted.

    shape:   JSON, at most 8,192 bytes; for a larger request, the field names without values
    """
    found = _object(fields, depth=1)
    return found if len(json.dumps(found)) <= WHAT_BYTES_MAX else dict.fromkeys(found, WITHHELD)


def _object(fields: Mapping[str, object], *, depth: int) -> dict[str, Any]:
    given = [(name, value) for name, value in fields.items() if value is not None and value is not False]
    return {
        _name(name): _value(value, depth=depth) if _is_recorded(name, value) else WITHHELD
        for name, value in given[:FIELDS_MAX]
    }


def _is_recorded(name: str, value: object) -> bool:
    return name in RECORDED_FIELDS or (name in RECORDED_NUMBERS and isinstance(value, int))


def _value(value: object, *, depth: int) -> Any:
    if isinstance(value, str):
        return _text(value, TEXT_CHARS_MAX)
    if isinstance(value, bool | int | float) and _is_json(value):
        return value
    if isinstance(value, dict) and depth < DEPTH_MAX:
        return _object(value, depth=depth + 1)
    if isinstance(value, list | tuple) and depth < DEPTH_MAX:
        return [_value(item, depth=depth + 1) for item in value[:ITEMS_MAX]]
    return WITHHELD


def _is_json(number: float) -> bool:
    return number.bit_length() < BITS_MAX if isinstance(number, int) else isfinite(number)


def _name(name: str) -> str:
    return _text(name.encode("ascii", "replace").decode(), NAME_CHARS_MAX)


def _text(text: str, most: int) -> str:
    printable = "".join(it if it.isprintable() else "?" for it in text[:most])
    return f"{printable}…" if len(text) > most else printable
