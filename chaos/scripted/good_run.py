"""Write a valid run with many events, to which a test adds a violation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from chaos.checker import Verdict
from chaos.history.calls import TimerRequest
from chaos.scripted.instance import Race, stopped, taken_signal, waiting
from chaos.scripted.run import ScriptedRun, at, blank

A, B = 0xA, 0xB  # The holders of the even slots and of the odd slots.
V, W = 0x56, 0x57  # Workers.
Violation = Callable[[ScriptedRun], None]
FAR_S = 600.0


def payload(key: int) -> str:
    """Return the payload of a client's timer."""
    return f'{{"of":{key}}}'


def timer(key: int, due_s: float | None = None, **more: object) -> TimerRequest:
    """Request a timer that is due at a moment."""
    request = TimerRequest(key, due_date=None if due_s is None else at(due_s), payload=payload(key))
    return replace(request, **more)  # type: ignore[arg-type]


def aimed(key: int, due_s: float, act: str = "return") -> TimerRequest:
    """Request a timer with a handler that performs an action."""
    return timer(key, due_s, payload=f'{{"act":"{act}","of":{key}}}', target="chaos.async")


def schedule(run: ScriptedRun, made_s: float, first: TimerRequest, first_s: float) -> None:
    """Let ada create a schedule; its row has the first due date, but its request has no date."""
    run.commit(made_s + 0.005, run.row_of(made_s, "ada", replace(first, due_date=at(first_s))))
    run.call(made_s, "schedule", "ada", timers=[first])


def good() -> ScriptedRun:
    """Write a valid run with many events and faults."""
    run = blank()
    run.holder(-0.5, A, 0)
    run.holder(-0.5, B, 1)
    for key in range(1, 11):
        run.schedule(key / 10, ("ada", "bob")[key % 2], timer(key, 2 + key / 2, name=f"order {key // 2}"))
    run.call(1.5, "schedule", "ada", timers=[timer(2, 3, name="order 1")], resends=2)
    for key in range(1, 11):
        run.fire_in_time((A, B)[key % 2], key)
    client_verbs(run)
    schedules(run)
    faults(run)
    run.schedule(50, "ada", timer(900, FAR_S))  # The timer is pending at the end.
    deliveries(run)
    processes(run)
    return run


def client_verbs(run: ScriptedRun) -> None:
    """Cancel and move timers before and after their firing."""
    run.schedule(8, "ada", timer(300, 10), timer(302, 9), timer(304, delay_s=1.5))
    run.schedule(8, "bob", timer(303, 9, name="order 99"), outcome="unknown", commits=False)
    run.call(8.1, "schedule", "bob", "fail", timers=[timer(305, 9)], error="no")
    run.cancel(8.205, 300)
    run.call(8.2, "cancel", "ada", timer_key=300, answer="CANCELED")
    run.move(8.305, 302, 9.5)
    run.call(8.3, "reschedule", "ada", timer_key=302, delay_s=1.19, answer="RESCHEDULED")
    run.call(8.4, "cancel", "ada", name="order 99", answer="UNKNOWN")
    run.fire_in_time(A, 302)
    run.fire_in_time(A, 304)
    run.call(9.9, "cancel", "ada", timer_key=302, answer="TRIGGERED")


def schedules(run: ScriptedRun) -> None:
    """Let a repeat run to its end. Let a cron rule miss two occurrences, and cancel the rule by its name."""
    schedule(run, 10, timer(100, rule="R3/PT1S", name="beat"), 11.002)
    run.fire_in_time(A, 100, run.next_of(100, 102, 12.002))
    run.fire_in_time(A, 102, run.next_of(102, 104, 13.002))
    run.fire_in_time(A, 104)
    schedule(run, 13.5, timer(200, rule="*/2 * * * * *", name="tick"), 14)
    run.claim(13.6, A, 200)
    skipped = run.record(18.1, 200, "SKIPPED", A, occurrence=2, detail='{"count": 2, "policy": "fire_once"}')
    run.fire(18.1, A, 200, skipped, run.next_of(200, 202, 20, number=4))  # the store was unavailable at the due dates
    run.cancel(18.505, 202)
    run.call(18.5, "cancel", "ada", name="tick", answer="CANCELED")
    run.commit(19, run.row_of(19, "default", TimerRequest(400, name="poison", rule="R/often")))
    run.history.poisoned = frozenset({400})
    run.claim(19.1, A, 400)
    run.pause(19.2, A, 400)


def faults(run: ScriptedRun) -> None:
    """Kill the store and a shard, suspend a shard, and flood the cluster."""
    run.fault("store", 14, 18, 5.0)
    run.fault("head", 14.5, 17, 5.0, detail={"whole": True})
    run.schedule(20, "bob", timer(500, 25.2), timer(502, 30.5), timer(503, 31.0))
    run.claim(24, A, 500)
    run.fault("kill", 25, 25, 2.0, victims=[A])
    run.holder(25.5, A, None, ended=True)
    run.claim(25.9, B, 500)
    run.fire(26.0, B, 500)
    run.holder(26.5, A + 2, 0)
    run.claim(28.6, A + 2, 502)
    run.fault("freeze", 30, 30, 2.0, victims=[A + 2])
    run.holder(30.9, A + 2, 0, silent=True)
    run.claim(31.0, B, 502)
    run.holder(31.2, A + 2, 0)
    run.fire(31.3, B, 502)
    run.fire(31.302, B, 503)  # without a claim
    run.fault("load", 40, 42, 5.0, detail={"tenant": "herd"})
    run.schedule(39, "bob", timer(601, 41))
    run.fire_in_time(B, 601)


def deliveries(run: ScriptedRun) -> None:
    """Let a worker die during a call, and let another worker repeat the call.

    Let an operator redrive and discard a dead letter.
    """
    run.holder(50, V, 0, role="worker")
    run.holder(50, W, 1, role="worker")
    run.schedule(50, "bob", aimed(852, 51, "raise"), aimed(854, 51, "die"))
    run.fire_in_time(A + 2, 852)
    run.fire_in_time(A + 2, 854)
    run.take(51.01, V, 852)
    run.attempt(51.02, 852)
    run.holder(51.1, V, None, ended=True, role="worker")
    fail_until(run, 51.2, 852, attempts=3, intent="DELIVERED")
    fail_until(run, 52.0, 854, attempts=8, intent="DEAD")
    run.redrive(54.0, 854)
    fail_until(run, 54.1, 854, attempts=8, intent="DEAD")
    run.commit(56.0, run.ending(56.0, None, 854, "DISCARDED"))


def processes(run: ScriptedRun) -> None:
    """Let a task and its timer race twice.

    The task wins the first race and the timer the second. Cancel an instance.
    """
    Race.begun(run, 56.0, 2000, due_s=FAR_S).approved(56.2, W)
    lost = Race.begun(run, 56.5, 2100, due_s=57.0)
    lost.instance.call(56.6, "start", resends=run.history.calls[-1].number)
    lost.instance.fire(57.002, B, lost.timer)
    late = lost.instance.complete(57.003, lost.task)
    lost.expired(57.02, taken_signal(late, "completed", 3, stale=True))
    lost.instance.call(57.2, "stop", "NOT_FOUND")
    spent = lost.instance.signal(57.3, "happened", "late")
    lost.instance.late(57.31, spent)
    paid = waiting(run, 57.4, 2200)
    paid.call(57.5, "publish", "KEPT")
    stopped(paid, 57.6)


def fail_until(run: ScriptedRun, at_s: float, key: int, *, attempts: int, intent: str) -> None:
    """Let worker W repeat the call of a delivery. The last attempt ends the delivery with the record `intent`."""
    for attempt in range(1, attempts + 1):
        run.take(at_s, W, key)
        run.attempt(at_s + 0.01, key, attempt)
        if attempt < attempts:
            run.fail(at_s + 0.02, key)
        else:
            run.settle(at_s + 0.02, W, key, intent, attempt)
        at_s += 0.2


def red(verdict: Verdict) -> set[str]:
    """Return the promises that a history breaks."""
    return {finding.promise for finding in verdict.findings if finding.violations}
