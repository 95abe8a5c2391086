"""Check S10 in the calls that handlers recorded: each call belongs to a firing, and begins during a claim."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chaos.history.calls import HandlerCall
from chaos.history.changes import DeliveryDeleted, DeliveryWritten, Recorded
from chaos.promises.wording import clock, record_of
from chaos.run_index import DELIVERED, NumberedChange, RunIndex, commits_of

CLOCK_SLACK_S = 0.005  # The possible difference between two clocks of one machine that are read one after the other.
GOING_S = 0.5  # The time from the kill of a process until its end; the process may still begin a call in this time.
LEASE_S = 10.0
ANY = 0  # the value of `attempt` for a call without an attempt number
# Kinds of faults in which a worker may not notice the end of its lease.
STALLING = ("store", "lock", "head", "load")


class Claim(NamedTuple):
    """One claim: its attempt, the interval in which its worker may call, and the record of its end."""

    attempt: int
    began_s: float
    until_s: float
    end: Recorded | None = None

    def has(self, began_at: float) -> bool:
        """Return whether a call may begin at a moment."""
        return self.began_s - CLOCK_SLACK_S <= began_at <= self.until_s + GOING_S


def called(run: RunIndex) -> Iterator[str | None]:
    """Check that each call fits its firing and the claims of its delivery, and that each delivery's end fits its calls.

    A call must begin after the commit of its firing, and must have the same key and payload at each attempt. The number
    of the attempt increases; calls of webhooks have no such number. A worker may not notice the end of its claim after
    a kill, a freeze, an outage of Postgres, or the removal of a service task. Such a worker may call until its lease
    ends. If a run has no recorded calls, the ends of deliveries are not checked.
    """
    claims_by_key = {key: claims_of(run, steps) for key, steps in run.deliveries.items()}
    began: dict[int, list[HandlerCall]] = {}
    for call in run.history.attempts:
        began.setdefault(call.timer_key, []).append(call)
        violation = _violation(run, call, claims_by_key.get(call.timer_key, ()))
        told = f"call at {clock(call.began_at)} of {call.target} for timer {call.timer_key}, attempt {call.attempt}"
        yield f"{told}: {violation}" if violation else None
    if not began or not run.clock_is_true:
        return
    for key, claims in claims_by_key.items():
        for claim in claims:
            if claim.end is not None and claim.end.intent != "DEAD" and not _was_called(claim, began.get(key, ())):
                yield f"{record_of(claim.end)}: no call of the handler was recorded"


def claims_of(run: RunIndex, steps: list[NumberedChange]) -> list[Claim]:
    """List the claims of a delivery, in commit order; the last claim has no end if the delivery was not settled."""
    claims: list[Claim] = []
    row: DeliveryWritten | None = None
    begun: Claim | None = None
    for number, changes in commits_of(steps):
        at_s = run.committed_s[number]
        rows = [change for change in changes if isinstance(change, DeliveryWritten)]
        for new in rows:
            if begun is not None and row is not None and new.claims > row.claims:
                claims.append(begun._replace(until_s=_noticed_by_s(run, row, begun)))
                begun = None
            elif begun is not None and new.claimed_by is None:
                claims.append(begun._replace(until_s=at_s))
                begun = None
            if begun is None and new.claimed_by is not None:
                begun = Claim(new.failed_attempts + 1, at_s, run.history.ended_at)
            row = new
        if begun is not None and any(isinstance(change, DeliveryDeleted) for change in changes):
            ends = (it for it in changes if isinstance(it, Recorded) and it.intent in DELIVERED)
            end = next((it for it in ends if row is None or it.holder == row.claimed_by), None)
            # The worker gets no message when a step of the instance removes the service task.
            until_s = at_s if end is not None or row is None or not row.job else _noticed_by_s(run, row, begun)
            claims.append(begun._replace(until_s=until_s, end=end))
            begun = None
    return claims if begun is None else [*claims, begun]


def hash_of(payload: str | None) -> str:
    """Hash the JSON of a payload in the same way as the handler."""
    text = json.dumps(json.loads(payload or "null"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _violation(run: RunIndex, call: HandlerCall, claims: Sequence[Claim]) -> str:
    """Describe the violation of a call; the text is empty without a violation."""
    for number, cause in run.deliveries.get(call.timer_key, ()):
        untimely = _is_untimely(call, run.committed_s[number], claims) if run.clock_is_true else ""
        if isinstance(cause, Recorded) and cause.intent == "TRIGGERED":
            return _is_of_another(call, cause) or untimely
        if isinstance(cause, DeliveryWritten) and cause.new and cause.job:
            return _is_of_another_job(call, cause) or untimely
    return "no timer fired for this call"


def _is_of_another_job(call: HandlerCall, job: DeliveryWritten) -> str:
    if (call.target, call.tenant_id) != (job.target, job.tenant_id):
        return (
            f"the call has the tenant {call.tenant_id}; the service task belongs to {job.tenant_id}, with the"
            f" target {job.target}"
        )
    return "" if call.body == hash_of(job.payload) else f"the payload is not {job.payload}"


def _is_of_another(call: HandlerCall, fired: Recorded) -> str:
    if (call.target, call.tenant_id, call.occurrence) != (fired.target, fired.tenant_id, fired.occurrence):
        return f"the call is for {call.tenant_id}, #{call.occurrence}; the firing is {record_of(fired)}"
    return "" if call.body == hash_of(fired.payload) else f"the payload is not {fired.payload}"


def _is_untimely(call: HandlerCall, fired_s: float, claims: Sequence[Claim]) -> str:
    if call.began_at < fired_s - CLOCK_SLACK_S:
        return f"the firing was committed later, at {clock(fired_s)}"
    turns = [claim.attempt for claim in claims if claim.has(call.began_at)]
    if turns and call.attempt in (ANY, *turns):
        return ""
    return f"attempt {turns[-1]} was due" if turns else "no worker had claimed the delivery"


def _was_called(claim: Claim, calls: Sequence[HandlerCall]) -> bool:
    return any(call.attempt in (ANY, claim.attempt) and claim.has(call.began_at) for call in calls)


def _noticed_by_s(run: RunIndex, row: DeliveryWritten, claim: Claim) -> float:
    """Return the moment at which a worker must have noticed the loss of its claim.

    This moment is the end of the worker's lease; the moment is later after a freeze of the worker or an outage of
    Postgres.
    """
    until_s = claim.began_s if row.claimed_until is None else row.claimed_until.timestamp()
    for fault in sorted(run.history.faults, key=lambda fault: fault.began_at):
        stalls = fault.kind in STALLING or fault.detail.get("worker") == row.claimed_by
        if stalls and fault.began_at <= until_s and claim.began_s <= fault.ended_at:
            until_s = max(until_s, fault.ended_at + LEASE_S)
    return until_s
