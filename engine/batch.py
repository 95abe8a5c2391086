"""Advance one batch of instances in memory, round robin over tenants, within limits of time and characters."""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from shardclock_server.bpmn.model import Definition, NodeKind
from shardclock_server.bpmn.step.tokens import CALLS_DEPTH_MAX
from shardclock_server.engine.advance import Advanced, advance_by, canceled_start, cancels_start, definition_of
from shardclock_server.engine.definitions import Definitions, Missing
from shardclock_server.engine.inbox import CANCEL, content_of, is_thrown, kind_of
from shardclock_server.engine.retry_policy import FamilyIsFull
from shardclock_server.engine.tenant_scheduler import TenantScheduler
from shardclock_server.engine.usage_increase import NOTHING as NO_INCREASE
from shardclock_server.engine.usage_increase import UsageIncrease, usage_increase_of
from shardclock_server.sql.bisection import halves_of
from shardclock_server.sql.processes.apply import DESCENDANTS_MAX, Writes
from shardclock_server.sql.processes.signals import DueSignal

BATCH_S = 0.25  # After this time the batch is written, and the next turn reads the remaining signals again.
BATCH_CHARS = 16 * 1_048_576  # With this number of characters the batch is full, and is written.

Signals = Sequence[DueSignal]
NOTHING: Mapping[int, str] = {}


class CanceledBeforeStart(Missing):
    """An instance was cancelled before its start, so the engine discards its signals."""


class SortedSignals(NamedTuple):
    """The signals of one turn: of running instances, of ended instances, and thrown signals.

    shape:   one list for each instance; one list for each thrown signal
    """

    running: list[Signals]
    ended: list[Signals]
    thrown: list[Signals]


def sort_signals(signals: Iterable[DueSignal], one_by_one: Collection[int]) -> SortedSignals:
    """Group signals by instance, and keep their order. For an instance in `one_by_one`, use only the first signal."""
    by_instance: dict[int, list[DueSignal]] = {}
    for signal in signals:
        earlier = by_instance.setdefault(signal.instance_key, [])
        if not earlier or signal.instance_key not in one_by_one:
            earlier.append(signal)
    found = SortedSignals([], [], [])
    for its_signals in by_instance.values():
        first = its_signals[0]
        (found.ended if first.has_ended else found.thrown if is_thrown(first) else found.running).append(its_signals)
    return found


class CallLimits(NamedTuple):
    """The limit of nested call activities, and the limit of active descendants of one instance."""

    depth_max: int = CALLS_DEPTH_MAX
    descendants_max: int = DESCENDANTS_MAX


CALL_LIMITS = CallLimits()


@dataclass(slots=True)
class StepBatch:
    """The results of one turn's signals, in memory.

    shape:   rows       the number of rows to write, by tenant
             full       the reason why a family (a root instance and its called instances) refused a start, by root
                        instance
             increases  for each instance, the tenant and the increase of the tenant's usage
    """

    writes: Writes = field(default_factory=Writes)
    read: dict[int, Signals] = field(default_factory=dict)
    advanced: dict[int, Advanced] = field(default_factory=dict)
    failed: list[tuple[Signals, Exception]] = field(default_factory=list)
    rows: Counter[str] = field(default_factory=Counter)
    increases: dict[int, tuple[str, UsageIncrease]] = field(default_factory=dict)
    full: dict[int, str] = field(default_factory=dict)

    def refuse_growth(self, first: DueSignal, definition: Definition, full: Mapping[int, str]) -> None:
        """Refuse to start a process with call activities in a full family, because its calls would be refused later.

        errors:  FamilyIsFull
        """
        why = full.get(first.root_key or 0)
        if why and first.is_first and any(node.kind == NodeKind.CALL for node in definition.nodes.values()):
            self.full[first.root_key or 0] = why
            raise FamilyIsFull(why)

    def add(self, signals: Signals, done: Advanced, increase: UsageIncrease) -> int:
        """Add an instance that was advanced; return how many characters its rows have.

        errors:  StateTooLarge
        """
        writes = done.writes()
        key, tenant = done.owner.instance_key, done.owner.tenant_id
        self.rows[tenant] += self.writes.add(writes)
        self.advanced[key] = done
        self.read[key] = signals
        self.increases[key] = tenant, increase
        return done.chars + sum(len(row["state"] or "") for row in writes.steps)

    def suspects(self) -> tuple[list[int], list[int]]:
        """Return two lists: the instances with a signal that has failed before, and all other instances."""
        found: tuple[list[int], list[int]] = [], []
        for key in self.advanced:
            found[all(signal.failed_attempts == 0 for signal in self.read[key])].append(key)
        return found

    def parts_of(self, keys: Sequence[int]) -> Sequence[Sequence[int]]:
        """Divide instances after a failed write into one group per tenant, the smallest group first.

        If all instances have the same tenant, divide them into halves.
        """
        tenants: defaultdict[str, list[int]] = defaultdict(list)
        for key in keys:
            tenants[self.advanced[key].owner.tenant_id].append(key)
        return sorted(tenants.values(), key=len) if len(tenants) > 1 else halves_of(keys)

    def unfinished(self) -> dict[str, set[int]]:
        """Return for each tenant the instances with signals that did not fit into the batch; a set may be empty."""
        found: defaultdict[str, set[int]] = defaultdict(set)
        for key, done in self.advanced.items():
            found[done.owner.tenant_id] |= {key} if len(done.signals) < len(self.read[key]) else set()
        return found


class Unwritable(Exception):
    """The write of a batch failed, perhaps because of a single instance."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason

    @staticmethod
    def of(error: Exception) -> "Unwritable | None":
        """Convert an error to this class if an instance of the batch may have caused it."""
        return error if isinstance(error, Unwritable) else None


def by_tenant(instances: Iterable[Signals]) -> dict[str, list[Signals]]:
    """Group instances by tenant, in the given order."""
    found: defaultdict[str, list[Signals]] = defaultdict(list)
    for signals in instances:
        found[signals[0].tenant_id].append(signals)
    return found


def advance_all(
    instances: Iterable[Signals],
    definitions: Definitions,
    queue: TenantScheduler,
    *,
    calls_depth_max: int = CALLS_DEPTH_MAX,
    full: Mapping[int, str] = NOTHING,
) -> StepBatch:
    """Advance instances until the batch is full; add each instance's processor time to its tenant's usage.

    shape:   `full` maps a root instance to the reason why its family may not grow
    """
    batch, began_s, chars = StepBatch(), time.monotonic(), 0
    work_s = time.thread_time()
    for signals in queue.in_turn(by_tenant(instances)):
        try:
            if cancels_start(signals[0]):
                # The next turn reads these signals as signals of an ended instance.
                chars += batch.add(signals[:1], canceled_start(signals[0]), NO_INCREASE)
            else:
                definition_key, definition = _definition(signals[0], definitions)
                batch.refuse_growth(signals[0], definition, full)
                done = advance_by(signals, definition, definition_key, calls_depth_max=calls_depth_max)
                chars += batch.add(signals, done, usage_increase_of(done, definition))
        except Exception as error:  # noqa: BLE001 - an error of one instance must not stop all others
            batch.failed.append((signals, error))
        began_work_s, work_s = work_s, time.thread_time()
        queue.charge(signals[0].tenant_id, work_s - began_work_s)
        if chars > BATCH_CHARS or time.monotonic() - began_s > BATCH_S:
            break
    return batch


def _definition(first: DueSignal, definitions: Definitions) -> tuple[int, Definition]:
    if first.version is None and not first.is_first:
        missing = CanceledBeforeStart if kind_of(content_of(first)) == CANCEL else Missing
        raise missing(f"there is no instance {first.instance_key}")
    key = definition_of(first)
    return key, definitions.get(key, first.tenant_id)
