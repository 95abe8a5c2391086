"""The check of recorded rows finds each kind of fault: a test writes a fault into the log, and the check names it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from tests.support.shard_pool import connect
from tests.support.verdict import CHECKS, breaches

LOGGED = (
    "insert into shardclock.command_log"
    " (intent, timer_key, due_date, recorded_at, created_at, occurrence, tenant_id, timer_type, target, name, schedule,"
    " detail) values ($1, $2, now() - interval '1 h', now() + $3 * interval '1 s', now(), $4, 'default', 'USER', 'log',"
    " $5, $6, $7)"
)


@pytest.fixture
async def db(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await connect(dsn)
    yield connection
    connection.terminate()


async def log(
    db: asyncpg.Connection, intent: str, key: int = 1, *, late_s: float = 0, occurrence: int = 0, skipped: int = 0
) -> None:
    rule = ("rule", "R/PT1S") if occurrence else (None, None)
    detail = {"SKIPPED": f'{{"count": {skipped}}}', "RESCHEDULED": '{"due_date": "2026-01-01T00:00:00+00:00"}'}
    await db.execute(LOGGED, intent, key, late_s, occurrence or 1, *rule, detail.get(intent))


async def _early(db: asyncpg.Connection) -> None:
    await log(db, "TRIGGERED", late_s=-3601)


async def _lost(db: asyncpg.Connection) -> None:
    await log(db, "RESCHEDULED", 7)


async def _double(db: asyncpg.Connection) -> None:
    await log(db, "TRIGGERED")
    await log(db, "TRIGGERED")


async def _occurrence_twice(db: asyncpg.Connection) -> None:
    await log(db, "TRIGGERED", 1, occurrence=3)
    await log(db, "TRIGGERED", 2, occurrence=3)


async def _fired_and_cancelled(db: asyncpg.Connection) -> None:
    await log(db, "CANCELED")
    await log(db, "TRIGGERED")


async def _still_pending(db: asyncpg.Connection) -> None:
    await db.execute("insert into shardclock.timers (timer_key, due_date) values (1, now())")
    await log(db, "TRIGGERED")


async def _old_due_date(db: asyncpg.Connection) -> None:
    await log(db, "RESCHEDULED")
    await log(db, "TRIGGERED")


async def _out_of_order(db: asyncpg.Connection) -> None:
    await log(db, "TRIGGERED", 1, occurrence=2)
    await log(db, "TRIGGERED", 2, occurrence=1)


async def _gap(db: asyncpg.Connection) -> None:
    await log(db, "TRIGGERED", 1, occurrence=1)
    await log(db, "SKIPPED", 1, occurrence=2, skipped=2)
    await log(db, "TRIGGERED", 2, occurrence=5)


async def _good(db: asyncpg.Connection) -> None:
    await log(db, "TRIGGERED", 1, occurrence=1)
    await log(db, "SKIPPED", 1, occurrence=2, skipped=2)
    await log(db, "TRIGGERED", 2, occurrence=4)
    await log(db, "TRIGGERED", 3, occurrence=5)
    await log(db, "CANCELED", 4)
    await log(db, "TRIGGERED", 7)


SEEDED: dict[Callable[[asyncpg.Connection], Awaitable[None]], set[str]] = {
    _early: {"S1 early"},
    _lost: {"S2 lost"},
    _double: {"S3 double"},
    _occurrence_twice: {
        "S3 occurrence fired twice",
        "S5 occurrences out of order",
        "S5 occurrences missing without a record",
    },
    _fired_and_cancelled: {"S4 fired and cancelled"},
    _still_pending: {"S4 ended and still pending"},
    _old_due_date: {"fired at a due date that it was moved from"},
    _out_of_order: {"S5 occurrences out of order", "S5 occurrences missing without a record"},
    _gap: {"S5 occurrences missing without a record"},
    _good: set(),
}


async def test_a_seeded_bug_is_found_and_nothing_else(db: asyncpg.Connection) -> None:
    for seed, found in SEEDED.items():
        transaction = db.transaction()
        await transaction.start()
        await seed(db)
        acknowledged = [7] if seed in (_lost, _good) else []
        assert set(await breaches(db, acknowledged)) == found, seed.__name__
        await transaction.rollback()


def test_every_check_has_a_seeded_bug() -> None:
    assert set().union(*SEEDED.values()) == set(CHECKS)
