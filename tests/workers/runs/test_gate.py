"""A hint leads to a look at once; if looks find nothing to begin, hints lead to few of them, and to none too late."""

from __future__ import annotations

from itertools import pairwise

from shardclock_server.workers.runs.gate import GAP_S, HintGate

POLL_S = 0.1


def looks_of_a_second(gate: HintGate, *, found: bool) -> list[float]:
    """Play a hint each millisecond; return when a look was made, each by a turn that takes no time."""
    looks: list[float] = []
    due_s: float | None = None
    for now_s in (number / 1_000 for number in range(1_000)):
        if (wait_s := gate.ask(now_s)) is not None:
            due_s = now_s + wait_s
        if due_s is not None and now_s >= due_s:
            looks.append(now_s)
            gate.begin()
            gate.learn(found=found, now_s=now_s)
            due_s = None
    return looks


def test_a_hint_leads_to_a_look_at_once() -> None:
    assert HintGate(POLL_S).ask(7.0) == 0.0
    assert len(looks_of_a_second(HintGate(POLL_S), found=True)) == 1_000


def test_hints_whose_looks_find_nothing_lead_to_as_few_as_polls_would() -> None:
    looks = looks_of_a_second(HintGate(POLL_S), found=False)

    assert len(looks) <= 1 / POLL_S + 6
    assert max(later - before for before, later in pairwise(looks)) <= POLL_S + 0.002


def test_many_hints_ask_for_one_look_and_one_that_finds_something_opens_the_gate() -> None:
    gate = HintGate(POLL_S)
    assert [gate.ask(0.0), gate.ask(0.0)] == [0.0, None]
    gate.begin()
    gate.learn(found=False, now_s=0.0)
    assert gate.ask(0.0) == GAP_S
    gate.begin()
    gate.learn(found=True, now_s=0.001)
    assert gate.ask(0.001) == 0.0


def test_a_hint_while_a_look_is_under_way_is_for_the_next_one() -> None:
    gate = HintGate(POLL_S)
    gate.begin()
    assert gate.ask(0.01) is None
    assert gate.learn(found=True, now_s=0.02) == 0.02
    assert gate.ask(0.02) is None  # that look is still to come
    gate.begin()
    assert gate.learn(found=False, now_s=0.03) is None


def test_polls_that_find_nothing_open_the_gate_again() -> None:
    gate = HintGate(POLL_S)
    looks_of_a_second(gate, found=False)

    for number in range(10):
        gate.begin()
        gate.learn(found=False, now_s=2.0 + number)

    assert gate.ask(11.001) == 0.0
