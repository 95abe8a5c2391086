"""Check L5 and I1: a timer that can't be fired delays no other timer, and tenants are separate."""

from __future__ import annotations

import json
from collections.abc import Iterator

from chaos.history.changes import Recorded
from chaos.promises.wording import record_of, row_of
from chaos.run_index import RequestHistory, RunIndex


def poison_fails_alone(run: RunIndex) -> Iterator[str | None]:
    """Check that no poison timer (a timer that can't be fired) fires, and that shards pause only poison timers."""
    for key in sorted(run.poisoned):
        timer = run.timers.get(key)
        if timer is not None:
            fired = timer.records("TRIGGERED")
            yield f"{record_of(fired[0][1])}: a timer that can't be fired has fired" if fired else None
    for key, timer in run.timers.items():
        if key not in run.poisoned:
            for _, record in timer.records("PAUSED"):
                yield f"{record_of(record)}: a shard paused the timer" if record.holder is not None else None


def tenants_apart(run: RunIndex) -> Iterator[str | None]:
    """Compare tenant, name and payload of each row and record with the request, and each client's change with a call.

    The call must name the timer by its key, or by its name and tenant.
    """
    meant: set[tuple[str, object]] = {
        (call.verb, which)
        for call in run.history.calls
        if call.verb != "schedule" and call.outcome != "fail"
        for which in (call.timer_key, (call.tenant_id, call.name))
        if which is not None
    }
    for key, timer in run.timers.items():
        if timer.row is None or key in run.poisoned:
            continue
        request = run.request_of(key, (timer.row.tenant_id, timer.row.name) if timer.row.name else None)
        if request is None:
            continue  # S7 reports this violation.
        same = (timer.row.tenant_id, timer.row.name) == (request.tenant_id, request.name)
        yield (
            None
            if same
            else (f"{row_of(timer.row)}: the request had the tenant {request.tenant_id} and the name {request.name}")
        )
        for _, record in timer.records():
            yield _differs(record, request) or _unrequested(record, meant)


def _differs(record: Recorded, request: RequestHistory) -> str | None:
    if (record.tenant_id, record.name) != (request.tenant_id, request.name):
        return f"{record_of(record)}: the request had the tenant {request.tenant_id} and the name {request.name}"
    requested, got = request.timer.payload, record.payload
    if requested == got or (requested is not None and got is not None and json.loads(requested) == json.loads(got)):
        return None
    return f"{record_of(record)}: the payload is {got}, the request had {requested}"


def _unrequested(record: Recorded, meant: set[tuple[str, object]]) -> str | None:
    verb = {"CANCELED": "cancel", "RESCHEDULED": "reschedule", "PAUSED": "pause"}.get(record.intent)
    if record.intent == "PAUSED" and record.holder is not None:
        return None  # L5 checks the timers that a shard pauses.
    if verb is None or (verb, record.timer_key) in meant or (verb, (record.tenant_id, record.name)) in meant:
        return None
    return f"{record_of(record)}: no client requested this change"
