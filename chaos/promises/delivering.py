"""S10, by what was committed: a firing with a target has a delivery, which one worker at a time has in hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chaos.acts import act_of
from chaos.history import Change, DeliveryDeleted, DeliveryWritten, Recorded
from chaos.lives import DELIVERED, REDRIVEN, Run, Step, commits_of, has_ended
from chaos.promises.calling import called
from chaos.promises.wording import clock, record_of


class Deed(NamedTuple):
    """What one commit did to one delivery; `stepped` says that it advanced the instance whose service task it is."""

    rows: Sequence[DeliveryWritten]
    gone: bool
    fired: Recorded | None
    redriven: Recorded | None
    ends: Sequence[Recorded]
    stepped: bool = False


def delivered(run: Run) -> Iterator[str | None]:
    """Hold each delivery against its firing, its claims and its end, and each call of a handler against these.

    A firing with a target leaves a delivery in its own commit, and nothing else does but the redriving of a dead
    letter, or a step of an instance, whose service task it is (P4 says which). A worker takes it only if no other one
    has it in hand, and only who has it in hand ends it, as its handler was to end it; or a step of its instance, which
    waits for it no more. What is given up is a dead letter until somebody redrives or discards it.
    """
    for firing in run.firings:
        wanted = run.wanted_of(firing.record.timer_key, (firing.record.tenant_id, firing.record.name or ""))
        if wanted is not None and wanted.asked.target != firing.record.target:
            yield f"{record_of(firing.record)}: for {firing.record.target}, asked for {wanted.asked.target}"
    for key, steps in run.deliveries.items():
        yield next(_offences(run, key, steps), None)
    for key in sorted(set(run.history.dead_letters) - run.deliveries.keys() - run.processes.signals.keys()):
        yield f"timer {key}: a dead letter of no firing"
    yield from called(run)


def _offences(run: Run, key: int, steps: list[Step]) -> Iterator[str]:
    """Follow a delivery from commit to commit."""
    row: DeliveryWritten | None = None
    fired: Recorded | None = None
    is_dead = False
    stepped = _stepped(run, key)
    for number, changes in commits_of(steps):
        deed = _deed(changes)._replace(stepped=number in stepped)
        fired = deed.fired or fired
        offence = (
            _begins_wrong(deed, key, is_dead=is_dead)
            or _changes_hands_wrong(run, number, row, deed)
            or _ends_wrong(row, deed, key, is_dead=is_dead)
            or _is_unlike(fired, deed)
        )
        if offence:
            yield f"{offence}, in the commit at {clock(run.committed_s[number])}"
        row = None if deed.gone else deed.rows[-1] if deed.rows else row
        if deed.ends or deed.redriven:
            is_dead = bool(deed.ends) and deed.ends[-1].intent == "DEAD"
    if row is not None:
        yield f"timer {key}: its delivery to {row.target} had no end by {clock(run.history.ended_at)}"
    if is_dead != (key in run.history.dead_letters):
        yield f"timer {key}: {'its dead letter is lost' if is_dead else 'a dead letter that was none'}"


def _deed(changes: Sequence[Change]) -> Deed:
    records = [change for change in changes if isinstance(change, Recorded)]
    return Deed(
        [change for change in changes if isinstance(change, DeliveryWritten)],
        any(isinstance(change, DeliveryDeleted) for change in changes),
        next((record for record in records if record.intent == "TRIGGERED"), None),
        next((record for record in records if record.intent == REDRIVEN), None),
        [record for record in records if record.intent in DELIVERED],
    )


def _begins_wrong(deed: Deed, key: int, *, is_dead: bool) -> str:
    made = any(row.new for row in deed.rows)
    cause = deed.fired or deed.redriven
    if made and cause is None and not deed.stepped:
        return f"timer {key}: a delivery, and nothing fired"
    if cause is not None and not made:
        return f"{record_of(cause)}: it left no delivery to {cause.target}"
    if deed.redriven is not None and not is_dead:
        return f"{record_of(deed.redriven)}: it was no dead letter"
    return ""


def _changes_hands_wrong(run: Run, number: int, before: DeliveryWritten | None, deed: Deed) -> str:
    """Say what is wrong with a claim, a renewal or an attempt that failed; nothing if all is right."""
    for row in deed.rows:
        if row.new or before is None:
            continue
        told = f"timer {row.timer_key}"
        if row.claims > before.claims:
            if _is_in_hand(run, number, before):
                return f"{told}: {_worker(row)} took its delivery, which {_worker(before)} had in hand"
        elif row.claimed_by is None and before.claimed_by is None:
            return f"{told}: an attempt was settled that nobody had in hand"
        elif row.claimed_by not in (None, before.claimed_by):
            return f"{told}: {_worker(row)} has its delivery from {_worker(before)} without a claim"
        if row.failed_attempts > before.failed_attempts + 1:
            return f"{told}: {row.failed_attempts} attempts failed, just now it was {before.failed_attempts}"
    return ""


def _ends_wrong(before: DeliveryWritten | None, deed: Deed, key: int, *, is_dead: bool) -> str:
    if deed.gone and not deed.ends and not deed.stepped:
        return f"timer {key}: its delivery is gone without a record"
    if len(deed.ends) > 1:
        return f"{record_of(deed.ends[0])}: it ended in {len(deed.ends)} ways"
    for end in deed.ends:
        why = ""
        if deed.stepped:
            why = "" if deed.gone and end.intent == "DISCARDED" else "its instance has not discarded it"
        elif end.holder is None:
            why = "" if is_dead and end.intent == "DISCARDED" else "it was no dead letter"
        elif before is None:
            why = "there was no delivery"
        elif not deed.gone:
            why = "its delivery is still there"
        elif end.holder != before.claimed_by:
            why = f"{_worker(before)} had it in hand"
        if why:
            return f"{record_of(end)}: {why}"
    return ""


def _is_unlike(fired: Recorded | None, deed: Deed) -> str:
    """Say that a worker has recorded an end to which this handler can't have come."""
    for end in deed.ends:
        if fired is None or end.holder is None:
            continue
        act, attempt = act_of(fired.payload), int(json.loads(end.detail or "{}").get("attempt", 1))
        if end.intent != act.ending or attempt < act.attempt:
            return f"{record_of(end)}: at attempt {attempt}, and its handler was to {act.name}"
    return ""


def _is_in_hand(run: Run, number: int, row: DeliveryWritten) -> bool:
    """Say whether a worker's claim stands: its time is not up, and the worker has not ended."""
    if row.claimed_by is None or row.claimed_until is None or not run.clock_is_true:
        return False
    return row.claimed_until.timestamp() > run.committed_s[number] and not has_ended(run, row.claimed_by, number)


def _stepped(run: Run, key: int) -> set[int]:
    """Name the commits that advanced the instance of this service task, and those that closed what it had left.

    shape:   none if it is no service task
    """
    key_of_instance = run.processes.jobs.get(key)
    if key_of_instance is None:
        return set()
    life = run.processes.instances[key_of_instance]
    return {number for number, _ in life.steps}.union(life.closed)


def _worker(row: DeliveryWritten) -> str:
    return "nobody" if row.claimed_by is None else f"{row.claimed_by:x}"
