"""The audit: what an operator did, in a form that is bounded and holds no secret, and how it ended.

Each interface has one seam where operators' verbs pass: `gateway/requests/recording.py` and `cli/recording.py`.
"""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

DONE, NOT_DONE, FAILED = "done", "not done", "failed"
LISTED_MAX = 10_000

WITHHELD = "…"
FIELDS_MAX, ITEMS_MAX = 40, 20
NAME_CHARACTERS_MAX, TEXT_CHARACTERS_MAX = 60, 200
WHAT_BYTES_MAX = 8_192
DEPTH_MAX, BITS_MAX = 4, 64

# The fields of requests, and the options of commands, whose values are recorded. Of any other one only the name is:
# so one that is added later is no secret that leaks, but one that waits to be named here.
SHOWN = frozenset({
    # which
    "name", "group", "prefix", "tenant", "timer_key", "target", "cluster_id", "name_prefix", "due_from", "due_before",
    "process_instance", "process_instance_key", "filter", "failing", "died_before", "limit", "every", "all_timers",
    "all_tenants", "role", "of_job", "function", "file", "resource", "process_id", "version", "definition_key",
    "instance_key", "business_key", "terminated", "begun",
    # how
    "reason", "why", "dry_run", "force", "yes", "shift", "operation", "delay", "at", "zone", "cron", "repeat", "missed",
    "overlap", "priority", "per_s", "per_second", "to", "partitions", "asked", "least", "most", "within_s", "wait_s",
    "expires", "scopes", "asymmetric", "end", "no_headers", "no_rate", "policy", "concurrency", "rate", "rate_per_s",
    "timeout", "timeout_s", "max_attempts", "expires_after", "expires_after_s", "no_expires_after", "give_up_after",
    "give_up_after_s", "no_give_up_after", "retry_min", "retry_min_s", "retry_max", "retry_max_s", "timers",
    "payload_bytes", "waiters", "endpoints", "timers_max", "payload_bytes_max", "waiters_max", "endpoints_max",
    "instances", "tasks", "messages", "definitions", "instances_max", "tasks_max", "messages_max", "definitions_max",
    "schedules", "schedules_max",
    "wanted", "min", "max", "target_per_s", "verb", "due_date",
})  # fmt: skip
# The same of those whose values are numbers: a process's token is one, and a bulk change's token is a text.
SHOWN_NUMBERS = frozenset({"token"})


def shown(fields: Mapping[str, object]) -> dict[str, Any]:
    """Make what is recorded of what was asked for; fields that were not given are left out.

    shape:   JSON, at most 8,192 bytes
    """
    found = _object(fields, depth=1)
    return found if len(json.dumps(found)) <= WHAT_BYTES_MAX else dict.fromkeys(found, WITHHELD)


def _object(fields: Mapping[str, object], *, depth: int) -> dict[str, Any]:
    given = [(name, value) for name, value in fields.items() if value is not None and value is not False]
    return {
        _name(name): _value(value, depth=depth) if _is_shown(name, value) else WITHHELD
        for name, value in given[:FIELDS_MAX]
    }


def _is_shown(name: str, value: object) -> bool:
    return name in SHOWN or (name in SHOWN_NUMBERS and isinstance(value, int))


def _value(value: object, *, depth: int) -> Any:
    if isinstance(value, str):
        return _text(value, TEXT_CHARACTERS_MAX)
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
    return _text(name.encode("ascii", "replace").decode(), NAME_CHARACTERS_MAX)


def _text(text: str, most: int) -> str:
    printable = "".join(it if it.isprintable() else "?" for it in text[:most])
    return f"{printable}…" if len(text) > most else printable
