"""An operation stores why rows stay unchanged: the number of rows for each reason, over all pages."""

from __future__ import annotations

import pytest

from shardclock.api.refusals.deliveries import DEAD_LETTER_AWAITED
from shardclock_server.service.dead_letters import change_letters, discarding
from shardclock_server.service.operation_verbs import (
    CANCEL,
    DISCARD,
    PAUSE,
    REDRIVE,
    RESCHEDULE,
    RESOLVE,
    RESUME,
    RETRY,
)
from shardclock_server.service.operations import continue_operation, find_operation
from shardclock_server.service.unchanged import PREDICATES, describe_unchanged
from shardclock_server.sql.deliveries.dead_letters import DeadLetterFilter
from shardclock_server.sql.operations.operations import count_unchanged
from shardclock_server.sql.session import Session
from shardclock_server.timers.refusal import Refusal
from tests.support.deliveries import bury
from tests.support.factories import add_timers, query
from tests.support.operations import EACH, an_operator, begun, counts, shown

IN_A_DAY = "now() + interval '1 day'"
PAUSED = "select shardclock.pause_timers($1, until => '2999-01-01Z')"
CANCELED = "select shardclock.cancel_timers($1)"
INSTANCE = """
    insert into shardclock.instances (instance_key, definition_key, version, tenant_id, process_id, state)
    values (7, 1, 1, 'acme', 'order', '')
"""

pytestmark = pytest.mark.usefixtures("small_pages")


async def test_the_reasons_of_all_pages_are_added(dsn: str, operator: Session) -> None:
    keys = await add_timers(dsn, 7, IN_A_DAY)
    due = await begun(operator, PAUSE, until="2999-01-01T00:00:00Z")
    await query(dsn, CANCELED, [keys[0], keys[3], keys[4]])
    await query(dsn, PAUSED, [keys[1]])

    for _ in range(4):
        await continue_operation(operator, due)

    assert await counts(operator, due) == ("DONE", 7, 3, 4)
    assert (await shown(operator, due)).unchanged_reasons == {"timer_ended": 3, "nothing_to_change": 1}


@pytest.mark.parametrize(
    ("verb", "reasons"),
    [
        (CANCEL, {"nothing_to_change": 2, "timer_ended": 1}),
        (RESUME, {"nothing_to_change": 2, "timer_ended": 1}),
        (RESCHEDULE, {"nothing_to_change": 1, "timer_ended": 1, "timer_unplanned": 1}),
        (REDRIVE, {"unknown_dead_letter": 2, "not_redriven": 1}),
        (DISCARD, {"unknown_dead_letter": 2, "dead_letter_awaited": 1}),
        (RETRY, {"delivery_ended": 2, "delivery_dead": 1}),
        (RESOLVE, {"unknown_incident": 3}),
    ],
)
async def test_each_verb_has_reasons_with_a_predicate(
    dsn: str, operator: Session, verb: str, reasons: dict[str, int]
) -> None:
    pending, unplanned = await add_timers(dsn, 2, IN_A_DAY)
    await query(dsn, "update shardclock.timers set anchor_occurrence = null where timer_key = $1", unplanned)
    await bury(dsn, 1)
    of_timers = verb in (CANCEL, RESUME, RESCHEDULE)

    found = await count_unchanged(operator, verb, [pending, unplanned, 0] if of_timers else [1, 2, 3])

    assert found == reasons
    assert found.keys() <= PREDICATES.keys()


async def test_a_change_in_one_step_stores_the_reasons(dsn: str, operator: Session) -> None:
    await bury(dsn, 1, "process:instance")
    await bury(dsn, 2)
    await query(dsn, INSTANCE)
    await query(dsn, "update shardclock.dead_letters set process_instance_key = 7 where target = 'process:instance'")

    done = await change_letters(operator, discarding(operator), DeadLetterFilter(), dry_run=False, by=an_operator())

    assert done.sentence == (
        "2 dead letters discarded; unchanged: 1 had a waiting instance: redrive the signal, or cancel the instance"
    )
    assert done.operation_id is not None
    found = await find_operation(operator, EACH, done.operation_id)
    assert (found.unchanged, found.unchanged_reasons) == (1, {"dead_letter_awaited": 1})


async def test_a_discard_of_one_signal_that_an_instance_waits_for_is_refused(dsn: str, operator: Session) -> None:
    await bury(dsn, 1, "process:instance")
    await query(dsn, INSTANCE)
    ((signal,),) = await query(dsn, "update shardclock.dead_letters set process_instance_key = 7 returning timer_key")

    with pytest.raises(Refusal) as refused:
        await change_letters(operator, discarding(operator), DeadLetterFilter(timer_key=signal), dry_run=False)

    assert refused.value.code == DEAD_LETTER_AWAITED
    assert f"dead-letters redrive {signal}" in str(refused.value)


def test_the_most_frequent_reason_comes_first() -> None:
    assert (
        describe_unchanged({"nothing_to_change": 2, "timer_ended": 1_035})
        == "1,035 had ended; 2 had this change already"
    )
    assert describe_unchanged({}) == ""
