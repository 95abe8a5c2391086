"""Draw the plan of a run from one seed: the calls of clients and the faults, each with its time."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from chaos.behaviours import COSTLY, QUICK, WEBHOOKS, WEIGHTS, Behaviour
from chaos.process_plan import PlannedInstance, draw_instances

TENANTS = ("ada", "bob", "eve")
FIRST_FAULT_S = 6.0  # The time before the first fault, which shows the normal lag.
LAST_FAULT_S = 15.0  # The time from the last fault to the load's end, which shows the recovery.
SIZES = (1, 1, 2, 3, 8, 40)  # The possible numbers of timers in a call.
DUE_MEAN_S = 3.0
DUE_MAX_S = 20.0
DUE_AFTER_S = 4.0  # The latest due date of timers, in seconds after the end of the load.
ENDLESS_S = 15.0  # The time until the cancellation of an endless rule, so that the load does not grow.
COSTLY_S = 10.0  # The time between two actions that end a process.
# At the end of the load, deliveries succeed at the first attempt for this time, so that the run can end.
LAST_ACT_S = 8.0


@dataclass(frozen=True, slots=True)
class PlannedTimer:
    """One timer in a client's call."""

    due_in_s: float
    as_moment: bool = False  # The client gives a due date instead of a delay.
    name: str | None = None
    rule: str | None = None
    behaviour: Behaviour | None = None  # The action of the target; None if the target is the log.


@dataclass(frozen=True, slots=True)
class CreateTimers:
    """A call that schedules timers; with `again_s`, the client repeats the call this long after the answer."""

    at_s: float
    tenant_id: str
    timers: tuple[PlannedTimer, ...]
    again_s: float | None = None


@dataclass(frozen=True, slots=True)
class ChangeTimer:
    """A call that cancels, moves or pauses the first timer of an earlier `CreateTimers`, by the timer's key or name.

    A pause ends after `due_in_s`.
    """

    at_s: float
    verb: Literal["cancel", "reschedule", "pause"]
    of: int  # The index of the `CreateTimers` in the plan.
    by_name: bool
    due_in_s: float = 0.0
    open_s: float = 0.0  # The time for which the client's transaction around the call stays open.


ClientStep: TypeAlias = CreateTimers | ChangeTimer


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault with its time and duration."""

    at_s: float
    fault: str
    for_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """All calls and faults of a run; moments are seconds from its start."""

    seed: int
    length_s: float
    steps: Sequence[ClientStep]
    faults: Sequence[PlannedFault]
    instances: Sequence[PlannedInstance] = ()


@dataclass(frozen=True, slots=True)
class FaultOption:
    """A possible fault: its relative frequency, its duration, and the pause after the fault."""

    fault: str
    weight: float = 1.0
    least_s: float = 0.0
    most_s: float = 0.0
    rest_s: float = 4.0


def draw(
    seed: int,
    *,
    length_s: float,
    calls_per_s: float,
    fault_options: Sequence[FaultOption],
    targeted: float = 0.0,
    webhooks: bool = False,
    instances_per_s: float = 0.0,
) -> Plan:
    """Draw a plan; the same arguments give the same plan.

    units:   a call has about six timers, including the occurrences of schedules. `targeted` is the share of timers with
             a target; with `webhooks`, half of the targets are webhooks. `instances_per_s` process instances start per
             second.
    """
    # Each part of the plan has a separate random generator. With the same seed, the faults therefore do not depend on
    # the load, and the timers do not depend on the share of targets.
    steps = _steps(random.Random(seed), length_s=length_s, calls_per_s=calls_per_s)
    faults = draw_faults(random.Random(f"{seed} breaks"), length_s=length_s, fault_options=fault_options)
    weights = {**WEIGHTS, **WEBHOOKS} if webhooks else WEIGHTS
    aimed = _aimed(random.Random(f"{seed} targets"), steps, weights, share=targeted, length_s=length_s)
    instances = draw_instances(random.Random(f"{seed} instances"), length_s=length_s, instances_per_s=instances_per_s)
    return Plan(seed, length_s, list(aimed), faults, instances)


def _aimed(
    chance: random.Random,
    steps: Sequence[ClientStep],
    weights: Mapping[Behaviour, float],
    *,
    share: float,
    length_s: float,
) -> Iterator[ClientStep]:
    """Give a share of the timers a target with a random action."""
    costly_at_s = 0.0
    for step in steps:
        if not isinstance(step, CreateTimers):
            yield step
            continue
        timers = []
        for timer in step.timers:
            behaviour: Behaviour | None = None
            if chance.random() < share:
                is_late = step.at_s + timer.due_in_s > length_s - LAST_ACT_S
                if timer.rule or is_late:
                    behaviour = chance.choice(QUICK)
                elif step.at_s >= costly_at_s:
                    behaviour, costly_at_s = chance.choice(COSTLY), step.at_s + COSTLY_S
                else:
                    (behaviour,) = chance.choices(list(weights), list(weights.values()))
            timers.append(replace(timer, behaviour=behaviour))
        yield replace(step, timers=tuple(timers))


def _steps(chance: random.Random, *, length_s: float, calls_per_s: float) -> list[ClientStep]:
    steps: list[ClientStep] = []
    creates: list[int] = []
    endless: deque[ChangeTimer] = deque()
    names: Counter[str] = Counter()
    at_s = 0.0
    while (at_s := at_s + chance.expovariate(calls_per_s)) < length_s:
        while endless and endless[0].at_s < at_s:
            steps.append(endless.popleft())
        if creates and chance.random() < 0.25:
            steps.append(_change(chance, at_s, steps, of=chance.choice(creates[-200:])))
            continue
        creates.append(len(steps))
        tenant_id = chance.choice(TENANTS)
        names[tenant_id] += 1
        steps.append(_create(chance, at_s, tenant_id, number=names[tenant_id], left_s=length_s - at_s))
        if _is_endless(steps[-1]):
            endless.append(_end(at_s + ENDLESS_S, creates[-1]))
    # Cancel each endless rule a second time at the end, because a repeated call of a client may create the rule after
    # the first cancellation.
    return steps + [_end(length_s, number) for number in creates if _is_endless(steps[number])]


def _create(chance: random.Random, at_s: float, tenant_id: str, *, number: int, left_s: float) -> CreateTimers:
    """Draw the timers of a call.

    All tenants use the same names, and each tenant uses a name once, so that the checker finds a change of another
    tenant's timer.
    """
    if chance.random() < 0.15:
        timer = PlannedTimer(due_in_s=0.0, name=f"rule {number}", rule=_rule(chance, left_s))
        return CreateTimers(at_s, tenant_id, (timer,), again_s=_again(chance, 0.3))
    named = chance.random() < 0.6
    timers = tuple(
        PlannedTimer(
            due_in_s=min(chance.expovariate(1 / DUE_MEAN_S), DUE_MAX_S, left_s + DUE_AFTER_S),
            as_moment=chance.random() < 0.3,
            name=f"order {number}" if named and n == 0 else None,
        )
        for n in range(chance.choice(SIZES))
    )
    return CreateTimers(at_s, tenant_id, timers, again_s=_again(chance, 0.15))


def _again(chance: random.Random, share: float) -> float | None:
    return chance.uniform(0.0, 4.0) if chance.random() < share else None


def _rule(chance: random.Random, left_s: float) -> str:
    """Draw a repeat or a cron rule that ends before the end of the run, by itself or by a client's cancellation."""
    period_s = chance.choice((1, 2, 3))
    if chance.random() < 0.2:
        return f"*/{period_s} * * * * *"  # An endless rule, which a client cancels later.
    return f"R{max(1, min(chance.randint(1, 12), int(left_s / period_s)))}/PT{period_s}S"


def _is_endless(step: ClientStep) -> bool:
    return isinstance(step, CreateTimers) and (step.timers[0].rule or "R").startswith("*")


def _end(at_s: float, number: int) -> ChangeTimer:
    return ChangeTimer(at_s, "cancel", number, by_name=True)


def _change(chance: random.Random, at_s: float, steps: Sequence[ClientStep], *, of: int) -> ChangeTimer:
    create = steps[of]
    assert isinstance(create, CreateTimers)
    first = create.timers[0]
    return ChangeTimer(
        at_s,
        # Don't move or pause schedules, because the oracle can't check a schedule after a move or after missed
        # occurrences.
        "cancel" if first.rule else chance.choice(("cancel", "reschedule", "pause")),
        of,
        by_name=first.name is not None and chance.random() < 0.5,
        due_in_s=chance.uniform(0.0, 5.0),
        open_s=chance.choice((0.0, 0.0, 0.0, 0.3)),
    )


def draw_faults(chance: random.Random, *, length_s: float, fault_options: Sequence[FaultOption]) -> list[PlannedFault]:
    """Draw a sequence of faults; sometimes a fault begins during the previous fault."""
    faults: list[PlannedFault] = []
    at_s, end_s = FIRST_FAULT_S, length_s - LAST_FAULT_S
    deck: list[FaultOption] = []
    while fault_options:
        deck = deck or _deck(chance, fault_options)
        entry = deck.pop()
        for_s = chance.uniform(entry.least_s, entry.most_s)
        if at_s + for_s > end_s:
            # A shorter fault may still fit into the rest of the load.
            deck = [it for it in deck if at_s + it.most_s <= end_s]
            if not deck:
                break
            continue
        faults.append(PlannedFault(at_s, entry.fault, for_s))
        mixed = chance.random() < 0.15
        at_s += chance.uniform(0.2, 1.0) if mixed else for_s + entry.rest_s * chance.uniform(0.8, 1.3)
    return faults


def _deck(chance: random.Random, fault_options: Sequence[FaultOption]) -> list[FaultOption]:
    """Shuffle the faults.

    Each fault occurs in proportion to its weight, and the occurrences are spread evenly.
    """
    cards = [(entry, nth) for entry in fault_options for nth in range(_times(entry))]
    chance.shuffle(cards)
    places = [(nth + place / len(cards)) / _times(entry) for place, (entry, nth) in enumerate(cards)]
    return [cards[n][0] for n in sorted(range(len(cards)), key=places.__getitem__)]


def _times(entry: FaultOption) -> int:
    return max(1, round(entry.weight))
