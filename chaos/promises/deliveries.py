"""Check S10 in the commits: each firing with a target has a delivery, which at most one worker claims at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chaos.behaviours import behaviour_of
from chaos.history.changes import Change, DeliveryDeleted, DeliveryWritten, Recorded
from chaos.promises.calls import called
from chaos.promises.wording import clock, record_of
from chaos.run_index import DELIVERED, REDRIVEN, NumberedChange, RunIndex, commits_of, has_ended


class DeliveryCommit(NamedTuple):
    """The changes of one delivery in one commit; `stepped` is true if the commit advanced the delivery's instance."""

    rows: Sequence[DeliveryWritten]
    gone: bool
    fired: Recorded | None
    redriven: Recorded | None
    ends: Sequence[Recorded]
    stepped: bool = False


def delivered(run: RunIndex) -> Iterator[str | None]:
    """Compare each delivery with its firing, its claims and its end; compare each call with its delivery.

    A delivery is written by the commit of the firing or of the redrive of a dead letter. For a service task, a step of
    the instance writes the delivery; P4 checks this step. A worker claims a delivery only while no other claim is
    valid. Two ends of a delivery are legal: the claiming worker writes the outcome of the handler's action, or a step
    of the instance ends a delivery for which the instance no longer waits. A delivery without attempts left is a dead
    letter until an operator redrives or discards it.
    """
    for firing in run.firings:
        request = run.request_of(firing.record.timer_key, (firing.record.tenant_id, firing.record.name or ""))
        if request is not None and request.timer.target != firing.record.target:
            yield (
                f"{record_of(firing.record)}: the target is {firing.record.target}, the request had"
                f" {request.timer.target}"
            )
    for key, steps in run.deliveries.items():
        yield next(_violations(run, key, steps), None)
    for key in sorted(set(run.history.dead_letters) - run.deliveries.keys() - run.processes.signals.keys()):
        yield f"timer {key}: the dead letter has no firing"
    yield from called(run)


def _violations(run: RunIndex, key: int, steps: list[NumberedChange]) -> Iterator[str]:
    """Check the changes of a delivery, commit by commit."""
    row: DeliveryWritten | None = None
    fired: Recorded | None = None
    is_dead = False
    stepped = _stepped(run, key)
    for number, changes in commits_of(steps):
        commit = _commit_of(changes)._replace(stepped=number in stepped)
        fired = commit.fired or fired
        violation = (
            _wrong_begin(commit, key, is_dead=is_dead)
            or _wrong_claim(run, number, row, commit)
            or _wrong_end(row, commit, key, is_dead=is_dead)
            or _unlike_behaviour(fired, commit)
        )
        if violation:
            yield f"{violation}, in the commit at {clock(run.committed_s[number])}"
        row = None if commit.gone else commit.rows[-1] if commit.rows else row
        if commit.ends or commit.redriven:
            is_dead = bool(commit.ends) and commit.ends[-1].intent == "DEAD"
    if row is not None:
        yield f"timer {key}: the delivery to {row.target} had not ended by {clock(run.history.ended_at)}"
    if is_dead != (key in run.history.dead_letters):
        yield f"timer {key}: {'the dead letter is lost' if is_dead else 'the dead letter has no failed delivery'}"


def _commit_of(changes: Sequence[Change]) -> DeliveryCommit:
    records = [change for change in changes if isinstance(change, Recorded)]
    return DeliveryCommit(
        [change for change in changes if isinstance(change, DeliveryWritten)],
        any(isinstance(change, DeliveryDeleted) for change in changes),
        next((record for record in records if record.intent == "TRIGGERED"), None),
        next((record for record in records if record.intent == REDRIVEN), None),
        [record for record in records if record.intent in DELIVERED],
    )


def _wrong_begin(commit: DeliveryCommit, key: int, *, is_dead: bool) -> str:
    made = any(row.new for row in commit.rows)
    cause = commit.fired or commit.redriven
    if made and cause is None and not commit.stepped:
        return f"timer {key}: the delivery has no firing"
    if cause is not None and not made:
        return f"{record_of(cause)}: no delivery to {cause.target} was created"
    if commit.redriven is not None and not is_dead:
        return f"{record_of(commit.redriven)}: the delivery was not a dead letter"
    return ""


def _wrong_claim(run: RunIndex, number: int, before: DeliveryWritten | None, commit: DeliveryCommit) -> str:
    """Describe an illegal claim, renewal or failed attempt; the text is empty if all are legal."""
    for row in commit.rows:
        if row.new or before is None:
            continue
        told = f"timer {row.timer_key}"
        if row.claims > before.claims:
            if _is_claimed(run, number, before):
                return f"{told}: {_worker(row)} claimed the delivery, which {_worker(before)} had claimed"
        elif row.claimed_by is None and before.claimed_by is None:
            return f"{told}: an attempt ended without a claim"
        elif row.claimed_by not in (None, before.claimed_by):
            return f"{told}: {_worker(row)} has the delivery of {_worker(before)} without a claim"
        if row.failed_attempts > before.failed_attempts + 1:
            return f"{told}: {row.failed_attempts} attempts have failed, and {before.failed_attempts} before the change"
    return ""


def _wrong_end(before: DeliveryWritten | None, commit: DeliveryCommit, key: int, *, is_dead: bool) -> str:
    if commit.gone and not commit.ends and not commit.stepped:
        return f"timer {key}: the delivery was deleted without a record"
    if len(commit.ends) > 1:
        return f"{record_of(commit.ends[0])}: the delivery has {len(commit.ends)} end records"
    for end in commit.ends:
        why = ""
        if commit.stepped:
            why = "" if commit.gone and end.intent == "DISCARDED" else "its instance had not discarded the delivery"
        elif end.holder is None:
            why = "" if is_dead and end.intent == "DISCARDED" else "the delivery was not a dead letter"
        elif before is None:
            why = "there was no delivery"
        elif not commit.gone:
            why = "the delivery still exists"
        elif end.holder != before.claimed_by:
            why = f"{_worker(before)} had claimed it"
        if why:
            return f"{record_of(end)}: {why}"
    return ""


def _unlike_behaviour(fired: Recorded | None, commit: DeliveryCommit) -> str:
    """Describe an end of a delivery that contradicts the handler's action."""
    for end in commit.ends:
        if fired is None or end.holder is None:
            continue
        behaviour, attempt = behaviour_of(fired.payload), int(json.loads(end.detail or "{}").get("attempt", 1))
        if end.intent != behaviour.ending or attempt < behaviour.attempt:
            return f"{record_of(end)}: the delivery ended at attempt {attempt}, but the handler should {behaviour.name}"
    return ""


def _is_claimed(run: RunIndex, number: int, row: DeliveryWritten) -> bool:
    """Return whether a worker's claim is valid: the lease has time left, and the worker has not ended."""
    if row.claimed_by is None or row.claimed_until is None or not run.clock_is_true:
        return False
    return row.claimed_until.timestamp() > run.committed_s[number] and not has_ended(run, row.claimed_by, number)


def _stepped(run: RunIndex, key: int) -> set[int]:
    """Return the commits that advanced the instance of a service task, or that removed its remaining rows.

    shape:   empty if the delivery is not a service task
    """
    key_of_instance = run.processes.jobs.get(key)
    if key_of_instance is None:
        return set()
    instance = run.processes.instances[key_of_instance]
    return {number for number, _ in instance.steps}.union(instance.closed)


def _worker(row: DeliveryWritten) -> str:
    return "no worker" if row.claimed_by is None else f"{row.claimed_by:x}"
