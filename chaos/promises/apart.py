"""L5 and I1: a timer that can't be fired fails alone, and no tenant meets another's timers."""

from __future__ import annotations

import json
from collections.abc import Iterator

from chaos.history import Recorded
from chaos.lives import Run, Wanted
from chaos.promises.wording import record_of, row_of


def poison_fails_alone(run: Run) -> Iterator[str | None]:
    """See that what can't be fired doesn't, and that no shard pauses anything else."""
    for key in sorted(run.poisoned):
        life = run.lives.get(key)
        if life is not None:
            fired = life.records("TRIGGERED")
            yield f"{record_of(fired[0][1])}: it can't be fired" if fired else None
    for key, life in run.lives.items():
        if key not in run.poisoned:
            for _, record in life.records("PAUSED"):
                yield f"{record_of(record)}: a shard paused it" if record.holder is not None else None


def tenants_apart(run: Run) -> Iterator[str | None]:
    """Hold tenant, name and payload of each row and record against what was asked for, and each change against a call.

    A change by a client must have been asked for by a call that names the timer: by its key, or by its name and tenant.
    """
    meant: set[tuple[str, object]] = {
        (call.verb, which)
        for call in run.history.calls
        if call.verb != "schedule" and call.outcome != "fail"
        for which in (call.timer_key, (call.tenant_id, call.name))
        if which is not None
    }
    for key, life in run.lives.items():
        if life.row is None or key in run.poisoned:
            continue
        wanted = run.wanted_of(key, (life.row.tenant_id, life.row.name) if life.row.name else None)
        if wanted is None:
            continue  # nobody asked for it: S7 says so
        same = (life.row.tenant_id, life.row.name) == (wanted.tenant_id, wanted.name)
        yield None if same else f"{row_of(life.row)}: asked for by {wanted.tenant_id} as {wanted.name}"
        for _, record in life.records():
            yield _stray(record, wanted) or _unasked(record, meant)


def _stray(record: Recorded, wanted: Wanted) -> str | None:
    if (record.tenant_id, record.name) != (wanted.tenant_id, wanted.name):
        return f"{record_of(record)}: asked for by {wanted.tenant_id} as {wanted.name}"
    asked, got = wanted.asked.payload, record.payload
    if asked == got or (asked is not None and got is not None and json.loads(asked) == json.loads(got)):
        return None
    return f"{record_of(record)}: payload {got}, asked for with {asked}"


def _unasked(record: Recorded, meant: set[tuple[str, object]]) -> str | None:
    verb = {"CANCELED": "cancel", "RESCHEDULED": "reschedule"}.get(record.intent)
    if verb is None or (verb, record.timer_key) in meant or (verb, (record.tenant_id, record.name)) in meant:
        return None
    return f"{record_of(record)}: nobody asked for it"
