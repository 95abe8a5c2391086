"""A redrive skips dead letters with targets that can't be called, and reports these dead letters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg
import pytest

from shardclock.api.refusals.deliveries import NOT_REDRIVEN
from shardclock_server.service.bulk_run import NO_PROGRESS
from shardclock_server.service.dead_letter_run import DeadLetterRun
from shardclock_server.service.dead_letters import DeadLetterChange, change_letters, discarding, redriving
from shardclock_server.service.operations import NOW, continue_operation
from shardclock_server.sql.deliveries.dead_letters import DeadLetterFilter, discard_dead_letters, redrive_dead_letters
from shardclock_server.sql.operations.operations import find_due_operation
from shardclock_server.sql.session import Session
from tests.support.deliveries import HANDLER, bury, declare
from tests.support.factories import query, value
from tests.support.operations import an_operator, counts
from tests.support.refusals import refusing
from tests.support.waiting import eventually

EACH = DeadLetterFilter()
DISABLED, REMOVED, UNDECLARED = "webhook:billing", "webhook:gone", "order.gone"


@pytest.fixture
async def letters(dsn: str) -> None:
    """Insert two dead letters of a declared handler, and two each of targets that can't be called."""
    await declare(dsn, HANDLER)
    await query(
        dsn,
        "insert into shardclock.endpoints (tenant_id, name, url, headers, secrets, policy, disabled_at, disabled_why)"
        " values ('acme', 'billing', 'https://example.com/', '{}', '{whsec_AAAA}', '{}', now(), 'it answered 410')",
    )
    for target in (HANDLER, DISABLED, REMOVED, UNDECLARED):
        await bury(dsn, 2, target)


async def targets_on_their_way(dsn: str) -> list[str]:
    """Read the targets of all deliveries."""
    return [row["target"] for row in await query(dsn, "select target from shardclock.deliveries order by timer_key")]


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("batch", [1, 2, 10_000])
async def test_dead_letters_with_a_callable_target_are_redriven_and_the_others_are_reported_with_the_reason(
    dsn: str, operator: Session, batch: int
) -> None:
    would = await change_letters(operator, redriving(operator), EACH, dry_run=True)
    run = DeadLetterRun(an_operator(), redriving(operator), EACH, batch=batch)
    await run.run(operator, NO_PROGRESS, dry_run=False)
    done = run.outcome(dry_run=False).sentence

    assert await targets_on_their_way(dsn) == [HANDLER] * 2 + [UNDECLARED] * 2
    assert await value(dsn, "select count(*) from shardclock.dead_letters") == 4
    assert done.startswith("put back: 4 dead letters are due again; left: 2 dead letters, because ")
    for sentence in (would.sentence, done):
        assert f"target '{DISABLED}' was disabled at" in sentence
        assert '(it answered 410): enable it (shardclock endpoints enable); or redrive with "enable": true' in sentence
        assert f"target '{REMOVED}' has no endpoint: add it" in sentence
        assert f"waiting: 2 dead letters, because target '{UNDECLARED}' is unknown" in sentence


@pytest.mark.usefixtures("letters")
async def test_a_limit_counts_only_dead_letters_with_a_callable_target(dsn: str, operator: Session) -> None:
    await query(dsn, "update shardclock.dead_letters set died_at = now() - interval '1 h' where target = $1", DISABLED)

    done = await change_letters(operator, redriving(operator), EACH, limit=1, dry_run=False)

    assert (len(done.keys), done.more) == (1, True)
    assert await targets_on_their_way(dsn) == [HANDLER]


@pytest.mark.usefixtures("letters")
async def test_without_a_callable_target_nothing_is_changed(dsn: str, operator: Session) -> None:
    done = await change_letters(operator, redriving(operator), DeadLetterFilter(target=REMOVED), dry_run=False)

    assert (done.keys, done.more) == ([], False)
    assert done.sentence.startswith("nothing was changed; left: 2 dead letters, because")
    assert await targets_on_their_way(dsn) == []


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("target", [DISABLED, REMOVED])
async def test_a_single_dead_letter_without_a_callable_target_is_refused(
    dsn: str, operator: Session, target: str, *, dry_run: bool
) -> None:
    key = await value(dsn, "select min(timer_key) from shardclock.dead_letters where target = $1", target)

    with refusing(NOT_REDRIVEN, match=f"dead letter {key} is not redriven: target '{target}'"):
        await change_letters(operator, redriving(operator), DeadLetterFilter(timer_key=key), dry_run=dry_run)

    assert await targets_on_their_way(dsn) == []


@pytest.mark.usefixtures("letters")
async def test_with_enable_the_endpoint_is_enabled_first_but_not_in_a_dry_run(dsn: str, operator: Session) -> None:
    wanted = DeadLetterFilter(target=DISABLED)
    disabled = "select count(*) from shardclock.endpoints where disabled_at is not null"

    would = await change_letters(operator, redriving(operator, enable=True), wanted, dry_run=True)
    assert (len(would.keys), await value(dsn, disabled)) == (2, 1)
    done = await change_letters(operator, redriving(operator, enable=True), wanted, dry_run=False)

    assert (done.sentence, await value(dsn, disabled)) == ("put back: 2 dead letters are due again", 0)
    assert await targets_on_their_way(dsn) == [DISABLED] * 2
    still = await change_letters(
        operator, redriving(operator, enable=True), DeadLetterFilter(target=REMOVED), dry_run=False
    )
    assert "has no endpoint" in still.sentence


@pytest.mark.usefixtures("letters")
async def test_in_sql_dead_letters_without_a_callable_target_are_kept_and_if_all_are_kept_the_error_has_the_reason(
    dsn: str, operator: Session
) -> None:
    keys = {
        row["target"]: row["keys"]
        for row in await query(
            dsn, "select target, array_agg(timer_key) as keys from shardclock.dead_letters group by 1"
        )
    }

    assert sorted(await redrive_dead_letters(operator, keys[HANDLER] + keys[DISABLED])) == keys[HANDLER]
    with refusing(NOT_REDRIVEN, match=f"target '{DISABLED}' was disabled"):
        await redrive_dead_letters(operator, keys[DISABLED])
    assert await redrive_dead_letters(operator, [99]) == []


@pytest.fixture
async def between(dsn: str) -> None:
    """Insert three pages of dead letters: only the letters in the middle have an endpoint."""
    await declare(dsn, HANDLER)
    await query(
        dsn,
        "insert into shardclock.endpoints (tenant_id, name, url, headers, secrets, policy)"
        " values ('acme', 'billing', 'https://example.com/', '{}', '{whsec_AAAA}', '{}')",
    )
    for target in (HANDLER, DISABLED, HANDLER):
        await bury(dsn, 2, target)


async def waits_for_a_lock(dsn: str) -> bool:
    """Return whether a session of this database waits for another transaction."""
    return bool(
        await value(
            dsn,
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
        )
    )


async def disable(dsn: str) -> None:
    await query(dsn, "update shardclock.endpoints set disabled_at = now(), disabled_why = 'it answered 410'")


@pytest.mark.usefixtures("between")
async def test_an_endpoint_that_is_disabled_during_a_run_keeps_its_letters_and_stops_no_later_page(
    dsn: str, operator: Session
) -> None:
    run = DeadLetterRun(an_operator(), redriving(operator), EACH, batch=2)
    await run.find(operator, NO_PROGRESS)
    await run.start(operator)
    await disable(dsn)

    await run.change_all(operator, NO_PROGRESS)

    assert await targets_on_their_way(dsn) == [HANDLER] * 4
    assert (run.changed, run.matched, len(run.changed_keys)) == (4, 6, 4)
    said = run.outcome(dry_run=False).sentence
    assert said.startswith("put back: 4 dead letters are due again; unchanged: 2 had a target that was disabled")


@pytest.mark.usefixtures("between")
async def test_a_redrive_counts_the_letters_that_another_command_has_changed_meanwhile(
    dsn: str, operator: Session
) -> None:
    run = DeadLetterRun(an_operator(), redriving(operator), EACH, batch=3)
    await run.find(operator, NO_PROGRESS)
    await run.start(operator)
    await redrive_dead_letters(operator, [run.keys[0]])
    await discard_dead_letters(operator, [run.keys[5]])
    await disable(dsn)

    await run.change_all(operator, NO_PROGRESS)

    said = run.outcome(dry_run=False).sentence
    changed, closed, others = said.split("; ")
    assert changed == "put back: 2 dead letters are due again"
    assert closed.startswith("unchanged: 2 had a target that was disabled or removed")
    assert others == "2 had been redriven or discarded by another command"


@pytest.mark.usefixtures("letters")
async def test_a_redrive_without_changes_reports_the_unchanged_letters_and_the_letters_that_it_left_out(
    operator: Session,
) -> None:
    run = DeadLetterRun(an_operator(), redriving(operator), EACH)
    await run.find(operator, NO_PROGRESS)
    await run.start(operator)
    await discard_dead_letters(operator, list(run.keys))

    await run.change_all(operator, NO_PROGRESS)

    said = run.outcome(dry_run=False).sentence
    assert said.startswith(
        "nothing was changed; unchanged: 4 had been redriven or discarded by another command; left: "
    )


@pytest.mark.parametrize("verb", [redriving, discarding])
async def test_letters_that_another_request_has_changed_during_this_request_are_reported(
    dsn: str, operator: Session, verb: Callable[[Session], DeadLetterChange]
) -> None:
    await declare(dsn, HANDLER)
    await bury(dsn, 3)
    other = await asyncpg.connect(dsn)
    try:
        async with other.transaction():
            await other.execute("delete from shardclock.dead_letters where timer_key < 3")
            changing = asyncio.create_task(
                change_letters(operator, verb(operator), EACH, limit=2, dry_run=False, by=an_operator())
            )
            await eventually(lambda: waits_for_a_lock(dsn))
        done = await changing
    finally:
        await other.close()

    assert (done.keys, done.more) == ([], True)
    assert done.sentence == "nothing was changed; unchanged: 2 had been redriven or discarded by another command"


@pytest.mark.usefixtures("between")
async def test_a_gateway_continues_a_redrive_beyond_a_page_of_a_disabled_endpoint(dsn: str, operator: Session) -> None:
    run = DeadLetterRun(an_operator(), redriving(operator), EACH, batch=2)
    await run.find(operator, NO_PROGRESS)
    await run.start(operator, due_in_s=NOW)
    await disable(dsn)

    due = await find_due_operation(operator)
    assert due is not None
    for _ in range(3):
        await continue_operation(operator, due)

    assert await targets_on_their_way(dsn) == [HANDLER] * 4
    assert await counts(operator, due) == ("DONE", 6, 4, 2)


@pytest.mark.usefixtures("letters")
async def test_a_few_of_many_targets_are_named_and_the_others_are_counted(dsn: str, operator: Session) -> None:
    for number in range(5):
        await bury(dsn, 1, f"webhook:none{number}")

    done = await change_letters(operator, redriving(operator), EACH, dry_run=False)

    assert "; left: those of 4 other targets" in done.sentence
