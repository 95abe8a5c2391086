"""Advance one batch in memory: the instances of all tenants in turn, within bounds of time and of characters."""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shardclock_server.bpmn.model import Definition, Kind
from shardclock_server.bpmn.step.stepping import CALLS_DEPTH_MAX
from shardclock_server.engine.advancing import Advanced, advance_by, canceled_start, cancels_start, definition_of
from shardclock_server.engine.definitions import Definitions, Gone
from shardclock_server.engine.fair_queue import FairQueue
from shardclock_server.engine.inbox import CANCEL, is_thrown, kind_of, said_by
from shardclock_server.engine.needs import NOTHING as NO_NEEDS
from shardclock_server.engine.needs import Needs, needs_of
from shardclock_server.engine.putting_off import FamilyIsFull
from shardclock_server.sql.processes.apply import DESCENDANTS_MAX, Writes
from shardclock_server.sql.processes.signals import DueSignal

BATCH_S = 0.25  # after so long a batch is written, and the rest of its signals are taken again
BATCH_CHARS = 16 * 1_048_576  # the same for what is to be written

Signals = Sequence[DueSignal]
NOTHING: Mapping[int, str] = {}


class CanceledUnbegun(Gone):
    """A client has cancelled an instance, and then its start was given up."""


class Found(NamedTuple):
    """The signals of one turn, by instance: of instances that go on and that have ended, and thrown ones."""

    going: list[Signals]
    ended: list[Signals]
    thrown: list[Signals]


def sort_signals(signals: Iterable[DueSignal], one_by_one: Collection[int]) -> Found:
    """Sort signals by instance, in their order; of the instances that are named, take the first alone."""
    by_instance: dict[int, list[DueSignal]] = {}
    for signal in signals:
        earlier = by_instance.setdefault(signal.instance_key, [])
        if not earlier or signal.instance_key not in one_by_one:
            earlier.append(signal)
    found = Found([], [], [])
    for its_signals in by_instance.values():
        first = its_signals[0]
        (found.ended if first.has_ended else found.thrown if is_thrown(first) else found.going).append(its_signals)
    return found


class CallLimits(NamedTuple):
    """How many call activities may wait for each other's children, and how many descendants of an instance may live."""

    depth_max: int = CALLS_DEPTH_MAX
    descendants_max: int = DESCENDANTS_MAX


CALL_LIMITS = CallLimits()


@dataclass(slots=True)
class Batch:
    """The results of the signals of one turn, in memory.

    shape:   `rows` counts the rows that are to be written, by tenant; `full` has the families of which a start was
             refused, by their root, with the reason; `needs` has an entry for
             each instance
    """

    writes: Writes = field(default_factory=Writes)
    read: dict[int, Signals] = field(default_factory=dict)
    advanced: dict[int, Advanced] = field(default_factory=dict)
    failed: list[tuple[Signals, Exception]] = field(default_factory=list)
    rows: Counter[str] = field(default_factory=Counter)
    needs: dict[int, tuple[str, Needs]] = field(default_factory=dict)
    full: dict[int, str] = field(default_factory=dict)

    def refuse_growth(self, first: DueSignal, definition: Definition, full: Mapping[int, str]) -> None:
        """Refuse a start in a full family if the process has call activities: its calls would be refused.

        errors:  FamilyIsFull
        """
        why = full.get(first.root_key or 0)
        if why and first.is_first and any(node.kind == Kind.CALL for node in definition.nodes.values()):
            self.full[first.root_key or 0] = why
            raise FamilyIsFull(why)

    def add(self, signals: Signals, done: Advanced, needs: Needs) -> int:
        """Add an instance that has advanced; return how many characters are to be written of it.

        errors:  StateTooLarge
        """
        writes = done.writes()
        key, tenant = done.owner.instance_key, done.owner.tenant_id
        self.rows[tenant] += self.writes.add(writes)
        self.advanced[key] = done
        self.read[key] = signals
        self.needs[key] = tenant, needs
        return done.chars + sum(len(row["state"] or "") for row in writes.steps)

    def suspects(self) -> tuple[list[int], list[int]]:
        """Find the instances with a signal that has failed before, and all others."""
        found: tuple[list[int], list[int]] = [], []
        for key in self.advanced:
            found[all(signal.failed_attempts == 0 for signal in self.read[key])].append(key)
        return found

    def parts_of(self, keys: Sequence[int]) -> list[list[int]]:
        """Divide instances that can't be written together: by tenant, the smallest part first, then in halves."""
        tenants: defaultdict[str, list[int]] = defaultdict(list)
        for key in keys:
            tenants[self.advanced[key].owner.tenant_id].append(key)
        if len(tenants) > 1:
            return sorted(tenants.values(), key=len)
        middle = len(keys) // 2
        return [[*keys[:middle]], [*keys[middle:]]]

    def cut(self) -> dict[str, set[int]]:
        """Find the instances with signals that the turn had no time for, by tenant; a tenant may have none."""
        found: defaultdict[str, set[int]] = defaultdict(set)
        for key, done in self.advanced.items():
            found[done.owner.tenant_id] |= {key} if len(done.signals) < len(self.read[key]) else set()
        return found


class Unwritable(Exception):
    """One instance of a batch, or the whole batch at once, can't be written for a reason."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason

    @staticmethod
    def of(error: Exception) -> "Unwritable | None":
        """Return an error that one instance of a batch may have caused."""
        return error if isinstance(error, Unwritable) else None


def by_tenant(instances: Iterable[Signals]) -> dict[str, list[Signals]]:
    """Sort instances by their tenants, each tenant's in their order."""
    found: defaultdict[str, list[Signals]] = defaultdict(list)
    for signals in instances:
        found[signals[0].tenant_id].append(signals)
    return found


def advance_all(
    instances: Iterable[Signals],
    definitions: Definitions,
    queue: FairQueue,
    *,
    calls_depth_max: int = CALLS_DEPTH_MAX,
    full: Mapping[int, str] = NOTHING,
) -> Batch:
    """Advance instances until the batch is full; each tenant pays for the processor's time that its instances take.

    shape:   `full` has the reasons why families may not grow, by their root
    """
    batch, began_s, chars = Batch(), time.monotonic(), 0
    work_s = time.thread_time()
    for signals in queue.in_turn(by_tenant(instances)):
        try:
            if cancels_start(signals[0]):
                # The other signals of the instance find that it has ended.
                chars += batch.add(signals[:1], canceled_start(signals[0]), NO_NEEDS)
            else:
                definition_key, definition = _definition(signals[0], definitions)
                batch.refuse_growth(signals[0], definition, full)
                done = advance_by(signals, definition, definition_key, calls_depth_max=calls_depth_max)
                chars += batch.add(signals, done, needs_of(done, definition))
        except Exception as error:  # noqa: BLE001 - whatever one instance does, the others go on
            batch.failed.append((signals, error))
        began_work_s, work_s = work_s, time.thread_time()
        queue.charge(signals[0].tenant_id, work_s - began_work_s)
        if chars > BATCH_CHARS or time.monotonic() - began_s > BATCH_S:
            break
    return batch


def _definition(first: DueSignal, definitions: Definitions) -> tuple[int, Definition]:
    if first.version is None and not first.is_first:
        gone = CanceledUnbegun if kind_of(said_by(first)) == CANCEL else Gone
        raise gone(f"there is no instance {first.instance_key}")
    key = definition_of(first)
    return key, definitions.get(key, first.tenant_id)
