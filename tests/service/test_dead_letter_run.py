"""A run over all dead letters changes each letter once, oldest first; the run stays below its rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from shardclock_server.service import operations
from shardclock_server.service.bulk_run import BulkBroken, BulkProgress
from shardclock_server.service.dead_letter_run import DeadLetterRun
from shardclock_server.service.dead_letters import discarding, redriving
from shardclock_server.service.operation_verbs import change_keys
from shardclock_server.sql.deliveries.dead_letters import DeadLetterFilter
from shardclock_server.sql.session import Session, StoreUnavailable
from tests.support.deliveries import HANDLER, bury, declare
from tests.support.factories import query
from tests.support.operations import an_operator

EACH = DeadLetterFilter()
INSTANCE = """
    insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)
    values (7, 1, 1, 'acme', 'order', '')
"""


class Told(BulkProgress):
    """Record the progress."""

    def __init__(self) -> None:
        self.found_: list[tuple[int, bool]] = []
        self.changed_: list[tuple[int, int]] = []

    def found(self, things: int, /, *, all_found: bool) -> None:
        self.found_.append((things, all_found))

    def changed(self, things: int, /, *, of: int) -> None:
        self.changed_.append((things, of))


class Batches:
    """Record the batches and pauses of a run; with a `dsn`, redriven deliveries fail again in the pause."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, dsn: str | None = None) -> None:
        self.asked: list[list[int]] = []
        self.pauses_s: list[float] = []
        self._dsn = dsn
        monkeypatch.setattr(operations, "change_keys", self._change)

    async def pause(self, length_s: float) -> None:
        self.pauses_s.append(length_s)
        if self._dsn is not None:
            await query(self._dsn, "delete from shardclock.deliveries")
            await bury_as(self._dsn, self.asked[-1])

    async def _change(
        self, session: Session, verb: str, change: Mapping[str, Any], keys: Sequence[int]
    ) -> Sequence[int]:
        self.asked.append(list(keys))
        return await change_keys(session, verb, change, keys)


async def bury_as(dsn: str, keys: Sequence[int]) -> None:
    """Insert dead letters with these keys that died now."""
    before = [row[0] for row in await query(dsn, "select timer_key from shardclock.dead_letters")]
    await bury(dsn, len(keys))
    await query(
        dsn,
        "update shardclock.dead_letters d set timer_key = n.key from unnest($1::bigint[], $2::bigint[]) as n (old, key)"
        " where d.timer_key = n.old",
        [max(before, default=0) + number for number in range(1, len(keys) + 1)],
        list(keys),
    )


async def bury_in_turn(dsn: str, count: int) -> None:
    """Insert dead letters, given up a minute apart; the letter with the largest key was given up first."""
    await bury(dsn, count)
    await query(dsn, "update shardclock.dead_letters set died_at = now() - timer_key * interval '1 min'")


async def test_dead_letters_are_changed_in_batches_in_the_order_in_which_they_were_given_up(
    dsn: str, operator: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await declare(dsn, HANDLER)
    await bury_in_turn(dsn, 5)
    batches, told = Batches(monkeypatch), Told()
    run = DeadLetterRun(an_operator(), redriving(operator), EACH, batch=2)

    await run.run(operator, told, dry_run=False)

    assert batches.asked == [[5, 4], [3, 2], [1]]
    assert sorted(run.changed_keys) == [1, 2, 3, 4, 5]
    assert run.outcome(dry_run=False).sentence == "put back: 5 dead letters are due again"
    assert (told.found_, told.changed_) == ([(2, False), (4, False), (5, False), (5, True)], [(2, 5), (4, 5), (5, 5)])


async def test_a_dead_letter_that_dies_again_during_the_run_is_not_redriven_twice(
    dsn: str, operator: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bury_in_turn(dsn, 3)
    batches = Batches(monkeypatch, dsn)
    run = DeadLetterRun(an_operator(), redriving(operator, per_s=1), EACH, batch=1)
    run.pause = batches.pause

    await run.run(operator, Told(), dry_run=False)

    assert batches.asked == [[3], [2], [1]]
    left = await query(dsn, "select timer_key from shardclock.dead_letters order by timer_key")
    assert [row["timer_key"] for row in left] == [2, 3]


async def test_with_a_rate_a_batch_waits_until_the_previous_batch_is_due(
    dsn: str, operator: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bury_in_turn(dsn, 50)
    batches = Batches(monkeypatch)
    run = DeadLetterRun(an_operator(), redriving(operator, per_s=2), EACH)
    run.pause = batches.pause

    await run.run(operator, Told(), dry_run=False)

    assert ([len(keys) for keys in batches.asked], batches.pauses_s) == ([20, 20, 10], [10.0, 10.0])


async def test_a_dry_run_counts_all_dead_letters_and_changes_nothing(dsn: str, operator: Session) -> None:
    await bury(dsn, 5)
    await bury(dsn, 2, "cart.left")
    run = DeadLetterRun(an_operator(), discarding(operator), EACH, batch=3)

    await run.run(operator, Told(), dry_run=True)

    would = run.outcome(dry_run=True)
    which = f"of the targets cart.left and {HANDLER}"
    assert would.sentence == f"7 dead letters would be discarded, {which}; nothing was changed"
    assert (list(would.keys), list(run.changed_keys)) == ([1, 2, 3, 4, 5, 6, 7], [])


async def test_signals_that_can_not_be_redriven_are_counted_over_all_batches(dsn: str, operator: Session) -> None:
    await bury(dsn, 3)
    await bury(dsn, 2, "process:instance")

    await query(dsn, INSTANCE)
    await query(dsn, "update shardclock.dead_letters set process_instance_key = 7 where target = 'process:instance'")
    run = DeadLetterRun(an_operator(), discarding(operator), EACH, batch=2)

    await run.run(operator, Told(), dry_run=False)

    left = "unchanged: 2 had a waiting instance: redrive the signal, or cancel the instance"
    assert run.outcome(dry_run=False).sentence == f"3 dead letters discarded; {left}"


async def test_a_broken_run_reports_its_changes_and_the_number_of_unknown_outcomes(
    dsn: str, operator: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bury_in_turn(dsn, 5)

    async def change(session: Session, verb: str, parameters: Mapping[str, Any], keys: Sequence[int]) -> Sequence[int]:
        if 3 in keys:
            raise StoreUnavailable("no answer")
        return await change_keys(session, verb, parameters, keys)

    monkeypatch.setattr(operations, "change_keys", change)
    run = DeadLetterRun(an_operator(), discarding(operator), EACH, batch=2)

    with pytest.raises(BulkBroken, match="Postgres does not answer"):
        await run.run(operator, Told(), dry_run=False)
    assert (run.outcome(dry_run=False).sentence, run.unsure) == ("2 dead letters discarded", 2)
