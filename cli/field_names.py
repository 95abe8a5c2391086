"""The name of each field in SQL and in lines of JSON, and its option on the command line."""

import re
from collections.abc import Mapping

OPTIONS = {
    "assignee": "--assignee",
    "business_key": "--business-key",
    "for_user": "--for-user",
    "due_before": "--due-before",
    "due_date": "--at",
    "due_from": "--due-from",
    "delay": "--in",
    "schedule": "--every",
    "missed": "--missed",
    "name": "--name",
    "name_prefix": "--name-prefix",
    "on_conflict": "--on-conflict",
    "operation": "--operation",
    "page": "--page",
    "payload": "--payload",
    "process_instance_key": "--process-instance",
    "shift": "--shift",
    "state": "--state",
    "tenant_id": "--tenant",
    "zone": "--zone",
}
NAMED_FIELD = re.compile(rf"({'|'.join(OPTIONS)})(?= [\"'])")
ELSEWHERE = re.compile(r" (by|as) (on_conflict|zone)\b")  # in the way out that a refusal names


def in_options(refusal: str, called: Mapping[str, str] = OPTIONS) -> str:
    """Replace the name of a field by that of its option in a refusal from SQL."""
    named = NAMED_FIELD.match(refusal)
    renamed = called[named[1]] + refusal[named.end() :] if named else refusal
    return ELSEWHERE.sub(lambda found: f" {found[1]} {OPTIONS[found[2]]}", renamed)
