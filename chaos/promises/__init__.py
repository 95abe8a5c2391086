"""The promises, one check each: a pure function of a run that goes through its cases.

A check yields once for each thing that it has checked: None if the promise was kept, else a line that says by whom and
how it was broken. Each offence is told by one promise only, the one that says most, where one doesn't follow from the
other. A promise without a check is not built yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from chaos.lives import Run
from chaos.promises.answers import nobody_waits_for_ever, read_once
from chaos.promises.apart import poison_fails_alone, tenants_apart
from chaos.promises.delivering import delivered
from chaos.promises.firing import (
    cancelled_for_good,
    never_early,
    never_lost,
    once,
    one_key_one_timer,
    survives_a_crash,
)
from chaos.promises.holding import fenced, few_at_a_time, step_by_step
from chaos.promises.instances import ended, nothing_after_the_end, one_start_one_instance
from chaos.promises.lateness import bounded_lag, drained, taken_over, unflooded, whole_again
from chaos.promises.schedules import as_the_oracle_says, in_order
from chaos.promises.signals import taken_once, told_truly
from chaos.promises.tokens import as_the_model_says

Check: TypeAlias = Callable[[Run], Iterator[str | None]]


class Promise(NamedTuple):
    """What is promised, what it is called for short, and how it is checked."""

    promise: str
    title: str
    check: Check | None


PROMISES = (
    Promise("S1", "never early", never_early),
    Promise("S2", "never lost", never_lost),
    Promise("S3", "each occurrence fires once at most", once),
    Promise("S4", "what is cancelled doesn't fire, and answers are true", cancelled_for_good),
    Promise("S5", "a schedule's occurrences come in order, without a gap", in_order),
    Promise("S6", "occurrences are those of an independent oracle", as_the_oracle_says),
    Promise("S7", "one key, one timer", one_key_one_timer),
    Promise("S8", "nobody writes over a claim that stands", fenced),
    Promise("S9", "only legal transitions", step_by_step),
    Promise("S10", "each firing is delivered to its end, and nothing else is", delivered),
    Promise("P1", "each instance that was started comes to its end", ended),
    Promise("P2", "one start, one instance", one_start_one_instance),
    Promise("P3", "each signal to an instance is taken once", taken_once),
    Promise("P4", "tokens go as the model says, and each effect is made once", as_the_model_says),
    Promise("P5", "nothing comes after an instance's end", nothing_after_the_end),
    Promise("P6", "what clients are told of processes is true", told_truly),
    Promise("D1", "what was acknowledged survives a crash of the store", survives_a_crash),
    Promise("L1", "lag is bounded, and normal again after a fault", bounded_lag),
    Promise("L2", "no waiter hangs", nobody_waits_for_ever),
    Promise("L3", "the backlog drains", drained),
    Promise("L4", "readers of the log see each record once", read_once),
    Promise("L5", "a poison timer fails alone", poison_fails_alone),
    Promise("L6", "one tenant's flood delays nobody else", unflooded),
    Promise("I1", "tenants are apart", tenants_apart),
    Promise("B1", "claims are bounded", few_at_a_time),
    Promise("T1", "takeover in the promised time, 99 of 100 times", taken_over),
    Promise("T2", "all shards serve again after a lost head", whole_again),
)
