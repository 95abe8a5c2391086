"""What clients will do and what will be broken, and when: all of it drawn from one seed before anything runs."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from chaos.acts import COSTLY, QUICK, WEBHOOKS, WEIGHTS, Act
from chaos.process_plan import Begin, draw_begins

TENANTS = ("ada", "bob", "eve")
FIRST_FAULT_S = 6.0  # so that the run knows what is normal
LAST_FAULT_S = 15.0  # before the load's end, so that it shows how all comes back
SIZES = (1, 1, 2, 3, 8, 40)  # how many timers a call asks for
DUE_MEAN_S = 3.0
DUE_MAX_S = 20.0
DUE_AFTER_S = 4.0  # the end of the load: nobody waits for longer
ENDLESS_S = 15.0  # how long a rule without an end is left alone: else the load would grow all the while
COSTLY_S = 10.0  # between two acts that cost a process
LAST_ACT_S = 8.0  # before the load's end: what is due after that is delivered at once, so that nobody waits for it


@dataclass(frozen=True, slots=True)
class Wish:
    """One timer that a client will ask for."""

    due_in_s: float
    as_moment: bool = False  # ask for a due date instead of a delay
    name: str | None = None
    rule: str | None = None
    act: Act | None = None  # what its target is to do; none: its target is the log


@dataclass(frozen=True, slots=True)
class Create:
    """Ask for some timers in one call; with `again_s` the same call is sent once more, so long after its answer."""

    at_s: float
    tenant_id: str
    wishes: tuple[Wish, ...]
    again_s: float | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Cancel or move the first timer of an earlier `Create`, by its key or by its name."""

    at_s: float
    verb: Literal["cancel", "reschedule"]
    of: int  # which step of the plan made it
    by_name: bool
    due_in_s: float = 0.0
    open_s: float = 0.0  # how long the client's own transaction stays open around it


Step: TypeAlias = Create | Change


@dataclass(frozen=True, slots=True)
class Break:
    """Break something, from when on and for how long."""

    at_s: float
    fault: str
    for_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """All that will happen in a run; moments are seconds from its start."""

    seed: int
    length_s: float
    steps: Sequence[Step]
    breaks: Sequence[Break]
    begins: Sequence[Begin] = ()


@dataclass(frozen=True, slots=True)
class Menu:
    """A fault that may be drawn: how often, compared with others, how long it lasts, and how long to leave after it."""

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
    menu: Sequence[Menu],
    targeted: float = 0.0,
    webhooks: bool = False,
    instances_per_s: float = 0.0,
) -> Plan:
    """Draw a plan; the same arguments give the same plan.

    units:   about six timers a call, schedules' occurrences included; `targeted` is the share of those with a target,
             of which half are webhooks if `webhooks` are wanted; instances of processes are started beside
    """
    # Each by a chance of its own: a seed gives the same faults at any load, and the same timers whatever they call.
    steps = _steps(random.Random(seed), length_s=length_s, calls_per_s=calls_per_s)
    breaks = draw_breaks(random.Random(f"{seed} breaks"), length_s=length_s, menu=menu)
    weights = {**WEIGHTS, **WEBHOOKS} if webhooks else WEIGHTS
    aimed = _aimed(random.Random(f"{seed} targets"), steps, weights, share=targeted, length_s=length_s)
    begins = draw_begins(random.Random(f"{seed} instances"), length_s=length_s, instances_per_s=instances_per_s)
    return Plan(seed, length_s, list(aimed), breaks, begins)


def _aimed(
    chance: random.Random, steps: Sequence[Step], weights: Mapping[Act, float], *, share: float, length_s: float
) -> Iterator[Step]:
    """Give a share of the timers a target, and draw what it is to do."""
    costly_at_s = 0.0
    for step in steps:
        if not isinstance(step, Create):
            yield step
            continue
        wishes = []
        for wish in step.wishes:
            act: Act | None = None
            if chance.random() < share:
                is_late = step.at_s + wish.due_in_s > length_s - LAST_ACT_S
                if wish.rule or is_late:
                    act = chance.choice(QUICK)
                elif step.at_s >= costly_at_s:
                    act, costly_at_s = chance.choice(COSTLY), step.at_s + COSTLY_S
                else:
                    (act,) = chance.choices(list(weights), list(weights.values()))
            wishes.append(replace(wish, act=act))
        yield replace(step, wishes=tuple(wishes))


def _steps(chance: random.Random, *, length_s: float, calls_per_s: float) -> list[Step]:
    steps: list[Step] = []
    creates: list[int] = []
    endless: deque[Change] = deque()
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
    # Once more at the end: who asks again and again for a rule while Postgres is away may get it after its cancelling.
    return steps + [_end(length_s, number) for number in creates if _is_endless(steps[number])]


def _create(chance: random.Random, at_s: float, tenant_id: str, *, number: int, left_s: float) -> Create:
    """Draw what to ask for. Every tenant uses the same names, each once: what one does must not touch another's."""
    if chance.random() < 0.15:
        wish = Wish(due_in_s=0.0, name=f"rule {number}", rule=_rule(chance, left_s))
        return Create(at_s, tenant_id, (wish,), again_s=_again(chance, 0.3))
    named = chance.random() < 0.6
    wishes = tuple(
        Wish(
            due_in_s=min(chance.expovariate(1 / DUE_MEAN_S), DUE_MAX_S, left_s + DUE_AFTER_S),
            as_moment=chance.random() < 0.3,
            name=f"order {number}" if named and n == 0 else None,
        )
        for n in range(chance.choice(SIZES))
    )
    return Create(at_s, tenant_id, wishes, again_s=_again(chance, 0.15))


def _again(chance: random.Random, share: float) -> float | None:
    return chance.uniform(0.0, 4.0) if chance.random() < share else None


def _rule(chance: random.Random, left_s: float) -> str:
    """Draw a repeat or a cron rule that has ended, or is short, before the run does."""
    period_s = chance.choice((1, 2, 3))
    if chance.random() < 0.2:
        return f"*/{period_s} * * * * *"  # without end: it is cancelled some time later
    return f"R{max(1, min(chance.randint(1, 12), int(left_s / period_s)))}/PT{period_s}S"


def _is_endless(step: Step) -> bool:
    return isinstance(step, Create) and (step.wishes[0].rule or "R").startswith("*")


def _end(at_s: float, number: int) -> Change:
    return Change(at_s, "cancel", number, by_name=True)


def _change(chance: random.Random, at_s: float, steps: Sequence[Step], *, of: int) -> Change:
    create = steps[of]
    assert isinstance(create, Create)
    first = create.wishes[0]
    return Change(
        at_s,
        # A schedule that is moved leaves its grid, and the oracle with it.
        "cancel" if first.rule else chance.choice(("cancel", "reschedule")),
        of,
        by_name=first.name is not None and chance.random() < 0.5,
        due_in_s=chance.uniform(0.0, 5.0),
        open_s=chance.choice((0.0, 0.0, 0.0, 0.3)),
    )


def draw_breaks(chance: random.Random, *, length_s: float, menu: Sequence[Menu]) -> list[Break]:
    """Draw faults one after another, and now and then a second one into the first."""
    breaks: list[Break] = []
    at_s, end_s = FIRST_FAULT_S, length_s - LAST_FAULT_S
    deck: list[Menu] = []
    while menu:
        deck = deck or _deck(chance, menu)
        entry = deck.pop()
        for_s = chance.uniform(entry.least_s, entry.most_s)
        if at_s + for_s > end_s:
            deck = [it for it in deck if at_s + it.most_s <= end_s]  # a shorter one may still do
            if not deck:
                break
            continue
        breaks.append(Break(at_s, entry.fault, for_s))
        mixed = chance.random() < 0.15
        at_s += chance.uniform(0.2, 1.0) if mixed else for_s + entry.rest_s * chance.uniform(0.8, 1.3)
    return breaks


def _deck(chance: random.Random, menu: Sequence[Menu]) -> list[Menu]:
    """Put faults into an order of chance, each as often as its weight says, and its own evenly spread."""
    cards = [(entry, nth) for entry in menu for nth in range(_times(entry))]
    chance.shuffle(cards)
    places = [(nth + place / len(cards)) / _times(entry) for place, (entry, nth) in enumerate(cards)]
    return [cards[n][0] for n in sorted(range(len(cards)), key=places.__getitem__)]


def _times(entry: Menu) -> int:
    return max(1, round(entry.weight))
