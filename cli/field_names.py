"""Map the names of fields, which SQL and JSON use, to the names of options on the command line."""

import re
from collections.abc import Mapping

OPTIONS = {
    "assignee": "--assignee",
    "business_key": "--business-key",
    "changed_before": "--changed-before",
    "changed_from": "--changed-from",
    "for_user": "--for-user",
    "due_before": "--due-before",
    "due_date": "--at",
    "due_from": "--due-from",
    "delay": "--in",
    "schedule": "--every",
    "missed": "--missed",
    "name": "--name",
    "name_contains": "--name-contains",
    "name_prefix": "--name-prefix",
    "on_conflict": "--on-conflict",
    "operation": "--operation",
    "order_by": "--order-by",
    "page": "--page",
    "payload": "--payload",
    "process_instance_key": "--process-instance",
    "shift": "--shift",
    "state": "--state",
    "tenant_id": "--tenant",
    "until": "--until",
    "zone": "--zone",
}
NAMED_FIELD = re.compile(rf"({'|'.join(OPTIONS)})(?= [\"'])")
# Matches a field's name that is not at the start of a refusal.
ELSEWHERE = re.compile(r" (by|as|set|with) (on_conflict|zone|until)\b")


def in_options(refusal: str, called: Mapping[str, str] = OPTIONS) -> str:
    """Replace a field's name by its option's name in a refusal from SQL."""
    named = NAMED_FIELD.match(refusal)
    renamed = called[named[1]] + refusal[named.end() :] if named else refusal
    return ELSEWHERE.sub(lambda found: f" {found[1]} {OPTIONS[found[2]]}", renamed)
