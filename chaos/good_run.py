"""Make a run in which all went well, though a lot happened; a test adds to it what it wants judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from chaos.checker import Verdict
from chaos.history import Asked
from chaos.process_tape import Race, stopped, told, waiting
from chaos.tape import Tape, at, blank

A, B = 0xA, 0xB  # holders: of the slots that are even, and that are odd
V, W = 0x56, 0x57  # workers
Seed = Callable[[Tape], None]
FAR_S = 600.0


def payload(key: int) -> str:
    """Write what travels with a timer, as a client does."""
    return f'{{"of":{key}}}'


def timer(key: int, due_s: float | None = None, **more: object) -> Asked:
    """Want a timer at a moment."""
    asked = Asked(key, due_date=None if due_s is None else at(due_s), payload=payload(key))
    return replace(asked, **more)  # type: ignore[arg-type]


def aimed(key: int, due_s: float, act: str = "return") -> Asked:
    """Want a timer whose handler is to do something."""
    return timer(key, due_s, payload=f'{{"act":"{act}","of":{key}}}', target="chaos.async")


def schedule(tape: Tape, made_s: float, first: Asked, first_s: float) -> None:
    """Let ada make a schedule; the row gets the first due date, the wish doesn't have one."""
    tape.commit(made_s + 0.005, tape.row_of(made_s, "ada", replace(first, due_date=at(first_s))))
    tape.call(made_s, "schedule", "ada", timers=[first])


def good() -> Tape:
    """Make a run in which everything went well, although a lot happened and much was broken."""
    tape = blank()
    tape.holder(-0.5, A, 0)
    tape.holder(-0.5, B, 1)
    for key in range(1, 11):
        tape.ask(key / 10, ("ada", "bob")[key % 2], timer(key, 2 + key / 2, name=f"order {key // 2}"))
    tape.call(1.5, "schedule", "ada", timers=[timer(2, 3, name="order 1")], resends=2)
    for key in range(1, 11):
        tape.live((A, B)[key % 2], key)
    client_verbs(tape)
    schedules(tape)
    faults(tape)
    tape.ask(50, "ada", timer(900, FAR_S))  # pending at the end
    deliveries(tape)
    processes(tape)
    return tape


def client_verbs(tape: Tape) -> None:
    """Cancel and move, in time and too late."""
    tape.ask(8, "ada", timer(300, 10), timer(302, 9), timer(304, delay_s=1.5))
    tape.ask(8, "bob", timer(303, 9, name="order 99"), outcome="unknown", commits=False)
    tape.call(8.1, "schedule", "bob", "fail", timers=[timer(305, 9)], error="no")
    tape.cancel(8.205, 300)
    tape.call(8.2, "cancel", "ada", timer_key=300, answer="CANCELED")
    tape.move(8.305, 302, 9.5)
    tape.call(8.3, "reschedule", "ada", timer_key=302, delay_s=1.19, answer="RESCHEDULED")
    tape.call(8.4, "cancel", "ada", name="order 99", answer="UNKNOWN")
    tape.live(A, 302)
    tape.live(A, 304)
    tape.call(9.9, "cancel", "ada", timer_key=302, answer="TRIGGERED")


def schedules(tape: Tape) -> None:
    """Let a repeat run to its end, and a cron rule miss two occurrences, and be cancelled by its name."""
    schedule(tape, 10, timer(100, rule="R3/PT1S", name="beat"), 11.002)
    tape.live(A, 100, tape.next_of(100, 102, 12.002))
    tape.live(A, 102, tape.next_of(102, 104, 13.002))
    tape.live(A, 104)
    schedule(tape, 13.5, timer(200, rule="*/2 * * * * *", name="tick"), 14)
    tape.claim(13.6, A, 200)
    skipped = tape.record(18.1, 200, "SKIPPED", A, occurrence=2, detail='{"count": 2, "policy": "fire_once"}')
    tape.fire(18.1, A, 200, skipped, tape.next_of(200, 202, 20, number=4))  # the store was away
    tape.cancel(18.505, 202)
    tape.call(18.5, "cancel", "ada", name="tick", answer="CANCELED")
    tape.commit(19, tape.row_of(19, "default", Asked(400, name="poison", rule="R/often")))
    tape.history.poisoned = frozenset({400})
    tape.claim(19.1, A, 400)
    tape.set_aside(19.2, A, 400)


def faults(tape: Tape) -> None:
    """Break the store, kill a shard, suspend one, and flood the cluster."""
    tape.fault("store", 14, 18, 5.0)
    tape.fault("head", 14.5, 17, 5.0, detail={"whole": True})
    tape.ask(20, "bob", timer(500, 25.2), timer(502, 30.5), timer(503, 31.0))
    tape.claim(24, A, 500)
    tape.fault("kill", 25, 25, 2.0, victims=[A])
    tape.holder(25.5, A, None, ended=True)
    tape.claim(25.9, B, 500)
    tape.fire(26.0, B, 500)
    tape.holder(26.5, A + 2, 0)
    tape.claim(28.6, A + 2, 502)
    tape.fault("freeze", 30, 30, 2.0, victims=[A + 2])
    tape.holder(30.9, A + 2, 0, silent=True)
    tape.claim(31.0, B, 502)
    tape.holder(31.2, A + 2, 0)
    tape.fire(31.3, B, 502)
    tape.fire(31.302, B, 503)  # without a claim
    tape.fault("load", 40, 42, 5.0, detail={"tenant": "herd"})
    tape.ask(39, "bob", timer(601, 41))
    tape.live(B, 601)


def deliveries(tape: Tape) -> None:
    """Let a worker die of a call that the next one makes again, and a dead letter be redriven, and then discarded."""
    tape.holder(50, V, 0, role="worker")
    tape.holder(50, W, 1, role="worker")
    tape.ask(50, "bob", aimed(852, 51, "raise"), aimed(854, 51, "die"))
    tape.live(A + 2, 852)
    tape.live(A + 2, 854)
    tape.take(51.01, V, 852)
    tape.attempt(51.02, 852)
    tape.holder(51.1, V, None, ended=True, role="worker")
    fail_until(tape, 51.2, 852, attempts=3, intent="DELIVERED")
    fail_until(tape, 52.0, 854, attempts=8, intent="DEAD")
    tape.redrive(54.0, 854)
    fail_until(tape, 54.1, 854, attempts=8, intent="DEAD")
    tape.commit(56.0, tape.ending(56.0, None, 854, "DISCARDED"))


def processes(tape: Tape) -> None:
    """Let a task and its timer race, each win once, and let an instance be cancelled."""
    Race.begun(tape, 56.0, 2000, due_s=FAR_S).approved(56.2, W)
    lost = Race.begun(tape, 56.5, 2100, due_s=57.0)
    lost.player.call(56.6, "start", resends=tape.history.calls[-1].number)
    lost.player.fire(57.002, B, lost.timer)
    late = lost.player.complete(57.003, lost.task)
    lost.expired(57.02, told(late, "completed", 3, stale=True))
    lost.player.call(57.2, "stop", "NOT_FOUND")
    spent = lost.player.signal(57.3, "happened", "late")
    lost.player.late(57.31, spent)
    paid = waiting(tape, 57.4, 2200)
    paid.call(57.5, "publish", "KEPT")
    stopped(paid, 57.6)


def fail_until(tape: Tape, at_s: float, key: int, *, attempts: int, intent: str) -> None:
    """Let W call a handler, again and again, until so many attempts have come to this end."""
    for attempt in range(1, attempts + 1):
        tape.take(at_s, W, key)
        tape.attempt(at_s + 0.01, key, attempt)
        if attempt < attempts:
            tape.fail(at_s + 0.02, key)
        else:
            tape.settle(at_s + 0.02, W, key, intent, attempt)
        at_s += 0.2


def red(verdict: Verdict) -> set[str]:
    """Name the promises that are broken."""
    return {finding.promise for finding in verdict.findings if finding.violations}
