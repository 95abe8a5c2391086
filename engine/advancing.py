"""Advance one instance by its signals, in their order, and gather what is to be written."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shardclock_server.bpmn.model import Definition
from shardclock_server.bpmn.step import Instance, advance, begin, begin_stopped, read_catches, read_state, write_state
from shardclock_server.bpmn.step.advance import Step
from shardclock_server.bpmn.step.effects import Ended, Outcome
from shardclock_server.bpmn.step.signals import Continued, Signal
from shardclock_server.bpmn.step.stepping import CALLS_DEPTH_MAX
from shardclock_server.engine.inbox import BEGIN, CANCEL, CLOSED, CONTINUED, Unreadable, kind_of, said_by, signal_of
from shardclock_server.engine.outbox import Outbox, Owner
from shardclock_server.sql.processes.apply import Row, Writes
from shardclock_server.sql.processes.signals import DueSignal
from shardclock_server.timers.model import BIGINT_MAX

NODES_MAX = 500  # that one instance enters in one batch: some 15 ms, unless expressions take long
SHARE_S = 0.05  # the same in time; a node that has begun is finished
SHARE_CHARS = 4 * 1_048_576  # the same in characters that it makes, of values and of what it sends
NAMES_MAX = 20  # of the variables of one signal, in the history
WHO = ("by", "key_prefix")  # a person or a role, and over HTTP by which API key


@dataclass(slots=True)
class Share:
    """What one instance may do in one batch, lest the others of its engine wait for it; the rest is another batch's."""

    nodes: int
    until_s: float
    calls_depth_max: int = CALLS_DEPTH_MAX
    chars: int = 0  # that the steps before this one have made

    def goes_on(self, chars: int) -> bool:
        """Say whether one more node may be entered by a step that has made so many characters."""
        self.nodes -= 1
        return self.chars + chars < SHARE_CHARS and not self.is_over

    def advance(self, instance: Instance, definition: Definition, signal: Signal, now: datetime) -> Step:
        """Advance an instance by one signal, as far as there is time."""
        step = advance(
            definition, instance, signal, now=now, goes_on=self.goes_on, calls_depth_max=self.calls_depth_max
        )
        self.chars += step.chars
        return step

    @property
    def is_over(self) -> bool:
        """Say whether the rest is another batch's."""
        return self.nodes <= 0 or self.chars >= SHARE_CHARS or time.monotonic() >= self.until_s


@dataclass(slots=True)
class Advanced:
    """An instance after its signals, with what follows.

    shape:   `signals` are those that were taken: the first of those that were read; none if the rest of an earlier step
             took all the time. `was` is the version that was read, 0 of an instance that begins;
             `stale` counts signals that changed nothing, and `chars` characters of values and of what is sent
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
    def has_rest(self) -> bool:
        """Say whether something is left of a step for which there was no time."""
        return self.instance.rest is not None and self.outbox.ended is None

    def writes(self) -> Writes:
        """Return all that is to be written.

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
    """Tell of which definition the instance of a signal is, or is to be.

    errors:  Unreadable  the signal names none
    """
    if first.definition_key is not None:
        return first.definition_key
    named = said_by(first).get("definition")
    if isinstance(named, int) and 0 < named <= BIGINT_MAX:
        return named
    raise Unreadable("the signal that begins an instance names no definition")


def advance_by(
    signals: Sequence[DueSignal],
    definition: Definition,
    definition_key: int,
    *,
    calls_depth_max: int = CALLS_DEPTH_MAX,
) -> Advanced:
    """Advance an instance, or begin it, by as many of its signals as there is time for.

    What a step has left comes before the next signal, but for a cancellation. If something is left at the end, the
    instance gets a signal to go on with it, unless one is on its way already.

    shape:   `signals` are of one instance, in order; it runs, or the first of them begins it
    errors:  Unreadable, ValueError  a signal can't be taken
    """
    share = Share(NODES_MAX, time.monotonic() + SHARE_S, calls_depth_max)
    begins = signals[0].version is None
    done = _begun(signals, definition, definition_key, share) if begins else _read(signals, definition, definition_key)
    was_cut = done.instance.rest is not None and not begins
    for taken in signals[1:] if begins else signals:
        # A cancellation takes little time, and saves the rest.
        if done.history and share.is_over and kind_of(said_by(taken)) != CANCEL:
            break
        if not _take(done, definition, taken, share):
            break
    done.signals, done.chars = signals[: len(done.history)], share.chars
    is_on_its_way = was_cut and all(row["kind"] != CONTINUED for row in done.history)
    if done.has_rest and not is_on_its_way:
        done.outbox.continue_later()
    return done


def begun_stopped(first: DueSignal, definition: Definition, definition_key: int, sentence: str) -> Advanced:
    """Begin an instance with an incident that says why no engine can write its start.

    errors:  Unreadable  the signal can't be read
    """
    said = said_by(first)
    owner = Owner(first.instance_key, first.tenant_id, definition.process_id)
    outbox = Outbox(owner, definition, first_new=0)
    instance, step = begin_stopped(
        definition, said.get("variables", {}), sentence, now=first.server_time, start=first.node_id
    )
    outbox.add(step.effects, now=first.server_time)
    history = [_history_of(first, {**said, "kind": BEGIN}, stale=False)]
    return Advanced(owner, [first], definition_key, 0, instance, outbox, history)


def cancels_start(first: DueSignal) -> bool:
    """Say whether a signal cancels an instance that has not begun."""
    return first.version is None and not first.is_first and first.definition_key is not None


def canceled_start(cancel: DueSignal) -> Advanced:
    """Cancel an instance that has not begun: nothing of its process runs, and its model is not needed."""
    assert cancel.definition_key is not None, "its start is known"
    assert cancel.process_id is not None, "its start is known"
    parent = cancel.parent_key, cancel.parent_token, cancel.root_key
    owner = Owner(cancel.instance_key, cancel.tenant_id, cancel.process_id, *parent)
    outbox = Outbox(owner, Definition(cancel.process_id, cancel.process_id, {}, (), {}, {}), first_new=0)
    outbox.add([Ended(Outcome.CANCELED, {})], now=cancel.server_time)
    history = [
        {"key": cancel.instance_key, "kind": BEGIN, "stale": True},
        _history_of(cancel, said_by(cancel), stale=False),
    ]
    return Advanced(owner, [cancel], cancel.definition_key, 0, Instance(), outbox, history)


def _begun(signals: Sequence[DueSignal], definition: Definition, definition_key: int, share: Share) -> Advanced:
    first = signals[0]
    said = said_by(first)
    parent, parent_token = said.get("parent"), said.get("parent_token")
    owner = Owner(first.instance_key, first.tenant_id, definition.process_id, parent, parent_token, said.get("root"))
    outbox = Outbox(owner, definition, first_new=0)
    instance, step = begin(
        definition,
        said.get("variables", {}),
        now=first.server_time,
        start=first.node_id,
        depth=said.get("depth", 0),
        catches=read_catches(said.get("catches")),
        goes_on=share.goes_on,
        calls_depth_max=share.calls_depth_max,
    )
    share.chars += step.chars
    outbox.add(step.effects, now=first.server_time)
    history = [_history_of(first, {**said, "kind": BEGIN}, stale=False)]
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


def _take(done: Advanced, definition: Definition, taken: DueSignal, share: Share) -> bool:
    """Advance an instance by one signal; False: there was no time for it, because of what an earlier step had left."""
    said, now = said_by(taken), taken.server_time
    kind = kind_of(said)
    if kind != CANCEL and not _finish_rest(done, definition, now, share) and kind != CONTINUED:
        return False
    is_stale = done.outbox.ended is not None or taken.is_first
    if not is_stale and kind not in (CONTINUED, CLOSED):
        step = share.advance(done.instance, definition, signal_of(taken, said), now)
        done.outbox.add(step.effects, now=now)
        is_stale = step.is_stale
    if (is_stale or kind == CLOSED) and taken.token is not None and done.outbox.ended is None:
        _close_late(done, taken.token, taken.node_id)
    if is_stale and isinstance(message := said.get("message"), int):
        done.outbox.give_back(message)
    done.history.append(_history_of(taken, said, stale=is_stale))
    done.stale += is_stale
    return True


def _finish_rest(done: Advanced, definition: Definition, now: datetime, share: Share) -> bool:
    """Go on with what an earlier step had no time for, if there is something; say whether nothing is left."""
    if done.has_rest:
        step = share.advance(done.instance, definition, Continued(), now)
        done.outbox.add(step.effects, now=now)
    return not done.has_rest


def _close_late(done: Advanced, token: int, node_id: str | None) -> None:
    """Close what a stale signal came from, lest it come again: a schedule's next occurrence, a task that was locked."""
    if token not in done.instance.tokens:
        done.outbox.close_late(token, None)
    elif node_id is not None:
        done.outbox.close_late(token, node_id)


def _history_of(taken: DueSignal, said: Mapping[str, Any], *, stale: bool) -> Row:
    row: Row = {"key": taken.timer_key, "kind": kind_of(said)}
    row |= {} if taken.token is None else {"token": taken.token}
    row |= {} if taken.node_id is None else {"node": taken.node_id}
    row |= {name: said[name] for name in WHO if name in said}
    # Their names: values may be large, and secret.
    row |= {"variables": sorted(said["variables"])[:NAMES_MAX]} if said.get("variables") else {}
    return row | ({"stale": True} if stale else {})
