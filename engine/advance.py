"""Apply signals to one instance, in the signals' order, and collect the rows that must be written."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shardclock_server.bpmn.model import Definition
from shardclock_server.bpmn.step import Instance, advance, begin, begin_stopped, read_catches, read_state, write_state
from shardclock_server.bpmn.step.advance import StepResult
from shardclock_server.bpmn.step.effects import InstanceEnded, Outcome
from shardclock_server.bpmn.step.signals import Continued, Signal
from shardclock_server.bpmn.step.tokens import CALLS_DEPTH_MAX
from shardclock_server.engine.inbox import (
    BEGIN,
    CANCEL,
    CLOSED,
    CONTINUED,
    UnreadableSignal,
    content_of,
    kind_of,
    signal_of,
)
from shardclock_server.engine.outbox import Outbox, Owner
from shardclock_server.sql.processes.apply import Row, Writes
from shardclock_server.sql.processes.signals import DueSignal
from shardclock_server.timers.model import BIGINT_MAX

NODES_MAX = 500  # The number of nodes that one instance may enter in one batch: about 15 ms without slow expressions.
# The time that one instance may use in one batch; if the time ends at a node, the node is finished first.
BUDGET_S = 0.05
BUDGET_CHARS = 4 * 1_048_576  # The characters of values and signals that one instance may write in one batch.
NAMES_MAX = 20  # The history lists the names of at most this many variables of one signal.
ACTOR_FIELDS = ("by", "key_prefix")  # The person or role that sent the signal; over HTTP also the API key.


@dataclass(slots=True)
class StepBudget:
    """Limit one instance's work in one batch, so that other instances don't wait; later batches do the rest."""

    nodes: int
    until_s: float
    calls_depth_max: int = CALLS_DEPTH_MAX
    chars: int = 0  # the number of characters that earlier steps in this batch have produced

    def may_continue(self, chars: int) -> bool:
        """Return whether a step that has produced `chars` characters may enter one more node."""
        self.nodes -= 1
        return self.chars + chars < BUDGET_CHARS and not self.is_over

    def advance(self, instance: Instance, definition: Definition, signal: Signal, now: datetime) -> StepResult:
        """Advance an instance by one signal, within the limit."""
        step = advance(
            definition, instance, signal, now=now, may_continue=self.may_continue, calls_depth_max=self.calls_depth_max
        )
        self.chars += step.chars
        return step

    @property
    def is_over(self) -> bool:
        """Return whether the limit is reached."""
        return self.nodes <= 0 or self.chars >= BUDGET_CHARS or time.monotonic() >= self.until_s


@dataclass(slots=True)
class Advanced:
    """An instance that has processed signals, and the effects of these signals.

    shape:   signals  the processed signals, in order; empty if the continuation of an unfinished step used up the limit
             was      the version with which the instance was read; 0 for a new instance
             stale    the number of signals without an effect
             chars    the number of characters of values and of sent signals
    """

    owner: Owner
    signals: Sequence[DueSignal]
    definition_key: int
    was: int
    instance: Instance
    outbox: Outbox
    history: list[Row]
    stale: int = 0
    chars: int = 0

    @property
    def is_unfinished(self) -> bool:
        """Return whether the last step stopped at the limit of its work; a later batch continues the step."""
        return self.instance.continuation is not None and self.outbox.ended is None

    def writes(self) -> Writes:
        """Return all rows that must be written.

        errors:  StateTooLarge
        """
        ended, owner = self.outbox.ended, self.owner
        step: Row = {
            "instance_key": owner.instance_key,
            "was": self.was,
            "definition_key": self.definition_key,
            "tenant_id": owner.tenant_id,
            "process_id": owner.process_id,
            "parent_key": owner.parent_key,
            "parent_token": owner.parent_token,
            "root_key": owner.root_key,
            "state": None if ended else write_state(self.instance),
            "outcome": ended and ended.outcome.value.upper(),
            "error_code": ended and ended.error_code,
            "result": ended and dict(ended.variables),
            "signals": [*self.history, *self.outbox.stopped()],
            "passes": self.outbox.passes,
        }
        written = Writes(signals=[(row["key"], owner.instance_key) for row in self.history], steps=[step])
        self.outbox.write(written)
        return written


def definition_of(first: DueSignal) -> int:
    """Return the key of the definition of a signal's instance, even if the instance has not started.

    errors:  UnreadableSignal  the signal lacks the key of a definition
    """
    if first.definition_key is not None:
        return first.definition_key
    named = content_of(first).get("definition")
    if isinstance(named, int) and 0 < named <= BIGINT_MAX:
        return named
    raise UnreadableSignal("the signal that begins an instance names no definition")


def advance_by(
    signals: Sequence[DueSignal],
    definition: Definition,
    definition_key: int,
    *,
    calls_depth_max: int = CALLS_DEPTH_MAX,
) -> Advanced:
    """Start an instance if it has not started, and apply its signals until the limit is reached.

    An unfinished step is continued before a signal is applied. Only a cancellation is applied before the unfinished
    step. If a step is still unfinished at the end, the instance sends itself a signal to continue, unless such a signal
    is pending.

    shape:   all `signals` are for one instance, in order; the first signal may start the instance
    errors:  UnreadableSignal, ValueError  a signal can't be processed
    """
    budget = StepBudget(NODES_MAX, time.monotonic() + BUDGET_S, calls_depth_max)
    begins = signals[0].version is None
    done = _begun(signals, definition, definition_key, budget) if begins else _read(signals, definition, definition_key)
    was_cut = done.instance.continuation is not None and not begins
    for taken in signals[1:] if begins else signals:
        # A cancellation is applied first, because it takes little time and ends the unfinished step.
        if done.history and budget.is_over and kind_of(content_of(taken)) != CANCEL:
            break
        if not _take(done, definition, taken, budget):
            break
    done.signals, done.chars = signals[: len(done.history)], budget.chars
    is_on_its_way = was_cut and all(row["kind"] != CONTINUED for row in done.history)
    if done.is_unfinished and not is_on_its_way:
        done.outbox.continue_later()
    return done


def begun_with_incident(first: DueSignal, definition: Definition, definition_key: int, sentence: str) -> Advanced:
    """Start an instance with an incident, because its regular start can't be written; `sentence` is the reason.

    errors:  UnreadableSignal  the signal can't be read
    """
    content = content_of(first)
    owner = Owner(first.instance_key, first.tenant_id, definition.process_id)
    outbox = Outbox(owner, definition, first_new=0)
    instance, step = begin_stopped(
        definition, content.get("variables", {}), sentence, now=first.server_time, start=first.node_id
    )
    outbox.add(step.effects, now=first.server_time)
    history = [_history_of(first, {**content, "kind": BEGIN}, stale=False)]
    return Advanced(owner, [first], definition_key, 0, instance, outbox, history)


def cancels_start(first: DueSignal) -> bool:
    """Return whether a signal cancels an instance that has not started."""
    return first.version is None and not first.is_first and first.definition_key is not None


def canceled_start(cancel: DueSignal) -> Advanced:
    """Cancel an instance that has not started, without loading the instance's model."""
    assert cancel.definition_key is not None, "its start is known"
    assert cancel.process_id is not None, "its start is known"
    parent = cancel.parent_key, cancel.parent_token, cancel.root_key
    owner = Owner(cancel.instance_key, cancel.tenant_id, cancel.process_id, *parent)
    outbox = Outbox(owner, Definition(cancel.process_id, cancel.process_id, {}, (), {}, {}), first_new=0)
    outbox.add([InstanceEnded(Outcome.CANCELED, {})], now=cancel.server_time)
    history = [
        {"key": cancel.instance_key, "kind": BEGIN, "stale": True},
        _history_of(cancel, content_of(cancel), stale=False),
    ]
    return Advanced(owner, [cancel], cancel.definition_key, 0, Instance(), outbox, history)


def _begun(signals: Sequence[DueSignal], definition: Definition, definition_key: int, budget: StepBudget) -> Advanced:
    first = signals[0]
    content = content_of(first)
    parent, parent_token = content.get("parent"), content.get("parent_token")
    owner = Owner(first.instance_key, first.tenant_id, definition.process_id, parent, parent_token, content.get("root"))
    outbox = Outbox(owner, definition, first_new=0)
    instance, step = begin(
        definition,
        content.get("variables", {}),
        now=first.server_time,
        start=first.node_id,
        depth=content.get("depth", 0),
        catches=read_catches(content.get("catches")),
        may_continue=budget.may_continue,
        calls_depth_max=budget.calls_depth_max,
    )
    budget.chars += step.chars
    outbox.add(step.effects, now=first.server_time)
    history = [_history_of(first, {**content, "kind": BEGIN}, stale=False)]
    return Advanced(owner, signals, definition_key, 0, instance, outbox, history)


def _read(signals: Sequence[DueSignal], definition: Definition, definition_key: int) -> Advanced:
    first = signals[0]
    assert first.state is not None, "it runs"
    assert first.version is not None, "it has begun"
    parent = first.parent_key, first.parent_token, first.root_key
    owner = Owner(first.instance_key, first.tenant_id, definition.process_id, *parent)
    instance = read_state(first.state)
    outbox = Outbox(owner, definition, first_new=instance.next_key)
    return Advanced(owner, signals, definition_key, first.version, instance, outbox, [])


def _take(done: Advanced, definition: Definition, taken: DueSignal, budget: StepBudget) -> bool:
    """Advance an instance by one signal; return False if the limit ended before this signal."""
    content, now = content_of(taken), taken.server_time
    kind = kind_of(content)
    if kind != CANCEL and not _continue_step(done, definition, now, budget) and kind != CONTINUED:
        return False
    is_stale = done.outbox.ended is not None or taken.is_first
    if not is_stale and kind not in (CONTINUED, CLOSED):
        step = budget.advance(done.instance, definition, signal_of(taken, content), now)
        done.outbox.add(step.effects, now=now)
        is_stale = step.is_stale
    if (is_stale or kind == CLOSED) and taken.token is not None and done.outbox.ended is None:
        _close_late(done, taken.token, taken.node_id)
    if is_stale and isinstance(message := content.get("message"), int):
        done.outbox.give_back(message)
    done.history.append(_history_of(taken, content, stale=is_stale))
    done.stale += is_stale
    return True


def _continue_step(done: Advanced, definition: Definition, now: datetime, budget: StepBudget) -> bool:
    """Continue an unfinished step; return False if the step is still unfinished."""
    if done.is_unfinished:
        step = budget.advance(done.instance, definition, Continued(), now)
        done.outbox.add(step.effects, now=now)
    return not done.is_unfinished


def _close_late(done: Advanced, token: int, node_id: str | None) -> None:
    """Close the wait (a timer or a task) that sent a stale signal, so that the wait sends no further signal.

    Otherwise a schedule would send a signal at its next occurrence. A task could also send another signal, if its
    row was locked when the wait was first closed.
    """
    if token not in done.instance.tokens:
        done.outbox.close_late(token, None)
    elif node_id is not None:
        done.outbox.close_late(token, node_id)


def _history_of(taken: DueSignal, content: Mapping[str, Any], *, stale: bool) -> Row:
    row: Row = {"key": taken.timer_key, "kind": kind_of(content)}
    row |= {} if taken.token is None else {"token": taken.token}
    row |= {} if taken.node_id is None else {"node": taken.node_id}
    row |= {name: content[name] for name in ACTOR_FIELDS if name in content}
    # The history has only the names of the variables, because values may be large or secret.
    row |= {"variables": sorted(content["variables"])[:NAMES_MAX]} if content.get("variables") else {}
    return row | ({"stale": True} if stale else {})
