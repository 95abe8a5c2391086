"""S10, by what handlers wrote down: each call belongs to a firing, and to a claim that was in hand when it began."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chaos.history import Attempt, DeliveryDeleted, DeliveryWritten, Recorded
from chaos.lives import DELIVERED, Run, Step, commits_of
from chaos.promises.wording import clock, record_of

CLOCK_SLACK_S = 0.005  # two clocks of one machine, read one after the other
GOING_S = 0.5  # a process that is being ended may begin another call until it is gone
LEASE_S = 10.0
ANY = 0  # the attempt of a call that doesn't say which one it is
# While one of these lasts, a worker may not hear that its lease has run out.
STALLING = ("store", "lock", "head", "load")


class Hand(NamedTuple):
    """One claim: which attempt it is for, from when until when its worker may call, and the record that ended it."""

    attempt: int
    began_s: float
    until_s: float
    end: Recorded | None = None

    def has(self, began_at: float) -> bool:
        """Say whether a call may begin then."""
        return self.began_s - CLOCK_SLACK_S <= began_at <= self.until_s + GOING_S


def called(run: Run) -> Iterator[str | None]:
    """Hold each call against its firing and against the claims of its delivery, and each end against its calls.

    A call comes after the commit of its firing, with the same key and payload at each attempt, and attempts count up; a
    webhook doesn't say which attempt it is.
    After a claim has ended it is legal only as long as the lease of an earlier claim lasts, whose worker did not hear
    of that: one that was killed, frozen, or without Postgres, or whose service task its instance took away. Without any
    call there is nothing to say of ends.
    """
    hands = {key: hands_of(run, steps) for key, steps in run.deliveries.items()}
    began: dict[int, list[Attempt]] = {}
    for call in run.history.attempts:
        began.setdefault(call.timer_key, []).append(call)
        offence = _offence(run, call, hands.get(call.timer_key, ()))
        told = f"call at {clock(call.began_at)} of {call.target} for timer {call.timer_key}, attempt {call.attempt}"
        yield f"{told}: {offence}" if offence else None
    if not began or not run.clock_is_true:
        return
    for key, claims in hands.items():
        for hand in claims:
            if hand.end is not None and hand.end.intent != "DEAD" and not _was_called(hand, began.get(key, ())):
                yield f"{record_of(hand.end)}: nobody had called its handler"


def hands_of(run: Run, steps: list[Step]) -> list[Hand]:
    """List the claims of a delivery, in commit order; the last one has no end if nobody settled it."""
    hands: list[Hand] = []
    row: DeliveryWritten | None = None
    begun: Hand | None = None
    for number, changes in commits_of(steps):
        at_s = run.committed_s[number]
        rows = [change for change in changes if isinstance(change, DeliveryWritten)]
        for new in rows:
            if begun is not None and row is not None and new.claims > row.claims:
                hands.append(begun._replace(until_s=_heard_by_s(run, row, begun)))
                begun = None
            elif begun is not None and new.claimed_by is None:
                hands.append(begun._replace(until_s=at_s))
                begun = None
            if begun is None and new.claimed_by is not None:
                begun = Hand(new.failed_attempts + 1, at_s, run.history.ended_at)
            row = new
        if begun is not None and any(isinstance(change, DeliveryDeleted) for change in changes):
            ends = (it for it in changes if isinstance(it, Recorded) and it.intent in DELIVERED)
            end = next((it for it in ends if row is None or it.holder == row.claimed_by), None)
            # Nobody tells the worker that an instance has taken its service task away.
            until_s = at_s if end is not None or row is None or not row.job else _heard_by_s(run, row, begun)
            hands.append(begun._replace(until_s=until_s, end=end))
            begun = None
    return hands if begun is None else [*hands, begun]


def hash_of(payload: str | None) -> str:
    """Hash a payload as the handler does, from its JSON."""
    text = json.dumps(json.loads(payload or "null"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _offence(run: Run, call: Attempt, hands: Sequence[Hand]) -> str:
    """Say what is wrong with a call; nothing if all is right."""
    for number, cause in run.deliveries.get(call.timer_key, ()):
        untimely = _is_untimely(call, run.committed_s[number], hands) if run.clock_is_true else ""
        if isinstance(cause, Recorded) and cause.intent == "TRIGGERED":
            return _is_of_another(call, cause) or untimely
        if isinstance(cause, DeliveryWritten) and cause.new and cause.job:
            return _is_of_another_job(call, cause) or untimely
    return "nothing fired for it"


def _is_of_another_job(call: Attempt, job: DeliveryWritten) -> str:
    if (call.target, call.tenant_id) != (job.target, job.tenant_id):
        return f"told it is of {call.tenant_id}; it is a service task of {job.tenant_id}, for {job.target}"
    return "" if call.body == hash_of(job.payload) else f"another payload than {job.payload}"


def _is_of_another(call: Attempt, fired: Recorded) -> str:
    if (call.target, call.tenant_id, call.occurrence) != (fired.target, fired.tenant_id, fired.occurrence):
        return f"told it is of {call.tenant_id}, #{call.occurrence}; what fired is {record_of(fired)}"
    return "" if call.body == hash_of(fired.payload) else f"another payload than {fired.payload}"


def _is_untimely(call: Attempt, fired_s: float, hands: Sequence[Hand]) -> str:
    if call.began_at < fired_s - CLOCK_SLACK_S:
        return f"its firing was committed at {clock(fired_s)}"
    turns = [hand.attempt for hand in hands if hand.has(call.began_at)]
    if turns and call.attempt in (ANY, *turns):
        return ""
    return f"it was the turn of attempt {turns[-1]}" if turns else "no worker had it in hand"


def _was_called(hand: Hand, calls: Sequence[Attempt]) -> bool:
    return any(call.attempt in (ANY, hand.attempt) and hand.has(call.began_at) for call in calls)


def _heard_by_s(run: Run, row: DeliveryWritten, hand: Hand) -> float:
    """Say by when a worker must have heard that another one has taken what it had in hand: when its lease runs out.

    What kept it from hearing puts that off: it was stopped itself, or Postgres was not there.
    """
    until_s = hand.began_s if row.claimed_until is None else row.claimed_until.timestamp()
    for fault in sorted(run.history.faults, key=lambda fault: fault.began_at):
        stalls = fault.kind in STALLING or fault.detail.get("worker") == row.claimed_by
        if stalls and fault.began_at <= until_s and hand.began_s <= fault.ended_at:
            until_s = max(until_s, fault.ended_at + LEASE_S)
    return until_s
