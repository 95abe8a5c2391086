"""Prove that readers beside many writers lose no record, and see no record out of order or changed later."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import asyncpg
import pytest

from shardclock.log.async_reading import read_log
from tests.support.factories import BOUND_S, query, value
from tests.support.log_writers import INSERT, LOG_COLUMNS, foreign_write
from tests.support.sql_client import session

WRITERS = 16


@pytest.mark.exhaustive
async def test_records_of_16_writers_are_neither_lost_nor_reordered_during_a_foreign_transaction(each_dsn: str) -> None:
    seed = 20
    await query(each_dsn, "create table turns (k int primary key, n int not null)")
    await query(each_dsn, "insert into turns select k, 0 from generate_series(1, 200) k")
    writing, found = True, list[tuple[int, int, int]]()
    async with foreign_write(each_dsn):
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(_read(each_dsn, found, lambda: writing))
            writers = [tasks.create_task(_write(each_dsn, random.Random(seed * 100 + n))) for n in range(WRITERS)]
            await asyncio.gather(*writers)
            writing = False
        await reading

    rows = await query(each_dsn, "select position, timer_key, occurrence from shardclock.command_log order by position")
    assert len(rows) > 2_000
    assert found == [tuple(row) for row in rows]
    turns: dict[int, int] = {}
    for _, key, turn in found:
        assert turn > turns.get(key, 0), f"turn {turn} of {key} stands behind turn {turns[key]}"
        turns[key] = turn


async def _write(dsn: str, chance: random.Random) -> None:
    """Write many transactions: with several statements, rolled back, killed; each record has the next number of its
    row.
    """
    connection = await asyncpg.connect(dsn)
    for _ in range(80):
        try:
            async with asyncio.timeout(BOUND_S):
                await connection.execute("begin")
                if chance.random() < 0.3:
                    await connection.execute("select pg_current_xact_id()")
                for _ in range(chance.randint(1, 3)):
                    await connection.execute(TURN, chance.sample(range(1, 201), chance.randint(1, 3)))
                    if chance.random() < 0.2:
                        await asyncio.sleep(chance.random() * 0.005)
                if chance.random() < 0.03:
                    connection.terminate()
                    connection = await asyncpg.connect(dsn)
                    continue
                await connection.execute("rollback" if chance.random() < 0.1 else "commit")
        except asyncpg.DeadlockDetectedError:
            await connection.execute("rollback")
    await connection.close()


# The update comes first: it locks the row, then the record is written.
TURN = f"""
    with turned as (
        update turns set n = n + 1 where k = any ($1) returning k, n
    )
    insert into shardclock.command_log ({LOG_COLUMNS})
    select t.k, now(), now(), t.n, 'TRIGGERED', 'default', 'USER', 'log' from turned t
"""


async def _read(dsn: str, found: list[tuple[int, int, int]], writing: Callable[[], bool]) -> None:
    """Read from the last position until the writers have ended and no new record comes."""
    async with session(dsn) as reader:
        while True:
            last = not writing()
            records = await read_log(reader, found[-1][0] if found else 0)
            found += [(it.position, it.timer_key, it.occurrence) for it in records]
            if last and not records:
                return
            await asyncio.sleep(0.001)  # writers share this loop


@pytest.mark.exhaustive
async def test_at_the_servers_own_speed_settled_positions_do_not_change(dsn: str) -> None:
    # If a reader read the locks before the sequence, some of these reads would be wrong.
    await query(dsn, "create table looks (horizon bigint not null, seen bigint not null)")
    appends = f"""
        do $$ begin for turn in 1..4000 loop {INSERT} from generate_series(1, 2) i; commit; end loop; end $$
    """
    looks = """
        do $$ declare settled bigint;
        begin
            for turn in 1..12000 loop
                settled := shardclock.log_horizon();
                insert into looks
                select settled, count(*) from shardclock.command_log l
                where l.position <= settled and l.position > settled - 100;
                commit;
            end loop;
        end $$
    """

    await asyncio.gather(*(query(dsn, text) for text in (appends, appends, appends, looks)))

    wrong = """
        select l.horizon, l.seen, count(r.position) as there
        from looks l
        left join shardclock.command_log r on r.position <= l.horizon and r.position > l.horizon - 100
        group by l.ctid, l.horizon, l.seen
        having count(r.position) <> l.seen
    """
    assert await query(dsn, wrong) == []
    assert await value(dsn, "select count(distinct horizon) from looks") > 10
