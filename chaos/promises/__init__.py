"""Check the promises against the index of a run. Each check is a generator.

A check yields once for each case: None if the promise was kept, otherwise a line that names the writer and the
violation. If a violation concerns several promises, only the most specific promise reports it. A promise without a
check is a promise about a feature that does not exist yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from chaos.promises.answers import each_call_returns, read_once
from chaos.promises.claims import claims_bounded, fenced, legal_transitions
from chaos.promises.deliveries import delivered
from chaos.promises.firings import cancelled_stays, never_early, never_lost, once, one_key_one_timer, survives_a_crash
from chaos.promises.instances import ended, nothing_after_the_end, one_start_one_instance
from chaos.promises.isolation import poison_fails_alone, tenants_apart
from chaos.promises.lateness import bounded_lag, drained, floods_apart, serve_again, taken_over
from chaos.promises.schedules import agrees_with_oracle, in_order
from chaos.promises.signals import answers_true, taken_once
from chaos.promises.tokens import agrees_with_model
from chaos.run_index import RunIndex

Check: TypeAlias = Callable[[RunIndex], Iterator[str | None]]


class Promise(NamedTuple):
    """A promise with its title and its check."""

    promise: str
    title: str
    check: Check | None


PROMISES = (
    Promise("S1", "no timer fires before its due date", never_early),
    Promise("S2", "no timer is lost", never_lost),
    Promise("S3", "each occurrence fires at most once", once),
    Promise("S4", "a cancelled timer does not fire, and answers are true", cancelled_stays),
    Promise("S5", "the occurrences of a schedule come in order, without a gap", in_order),
    Promise("S6", "occurrences have the due dates that an independent oracle computes", agrees_with_oracle),
    Promise("S7", "a repeated call with the same key makes one timer", one_key_one_timer),
    Promise("S8", "no holder overwrites a valid claim", fenced),
    Promise("S9", "timers change only by legal transitions", legal_transitions),
    Promise("S10", "each firing with a target is delivered, and there is no other delivery", delivered),
    Promise("P1", "each started instance ends", ended),
    Promise("P2", "one start begins one instance", one_start_one_instance),
    Promise("P3", "each signal to an instance is processed once", taken_once),
    Promise("P4", "tokens follow the model, and each effect happens once", agrees_with_model),
    Promise("P5", "an instance has no step after its end", nothing_after_the_end),
    Promise("P6", "clients' answers about processes are true", answers_true),
    Promise("D1", "acknowledged timers survive a crash of the store", survives_a_crash),
    Promise("L1", "lag is bounded, and normal again after a fault", bounded_lag),
    Promise("L2", "each call returns", each_call_returns),
    Promise("L3", "a backlog becomes empty", drained),
    Promise("L4", "readers of the log see each record once", read_once),
    Promise("L5", "a timer that can't fire does not stop other timers", poison_fails_alone),
    Promise("L6", "one tenant's flood delays no other tenant", floods_apart),
    Promise("I1", "one tenant does not affect another tenant", tenants_apart),
    Promise("B1", "the number of claims is bounded", claims_bounded),
    Promise("T1", "other shards take over in the promised time, 99 of 100 times", taken_over),
    Promise("T2", "all shards serve again after a lost head", serve_again),
)
