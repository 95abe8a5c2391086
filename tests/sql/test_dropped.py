"""A migration refuses a schema from which an object was dropped."""

from __future__ import annotations

import pytest

from shardclock_server.sql.migrate import WrongSchema, migrate, require_objects
from shardclock_server.sql.scripts import steps
from tests.support.factories import query
from tests.support.sql_client import session

# The objects that migration steps create, without the log's partitions and the sequences of identity columns.
OBJECTS = """
    select c.relname::text from pg_class c
    where c.relnamespace = 'shardclock'::regnamespace and c.relkind in ('r', 'p', 'v', 'S', 'c') and c.relname !~ $1
        and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'i' and c.relkind = 'S')
    union all
    select t.tgname::text from pg_trigger t join pg_class c on c.oid = t.tgrelid
    where c.relnamespace = 'shardclock'::regnamespace and not t.tgisinternal"""


@pytest.mark.parametrize(
    ("statement", "dropped"),
    [
        ("drop table shardclock.migrations", "the table migrations"),
        ("drop view shardclock.log_times", "the view log_times"),
        ("drop function shardclock.keep_hold cascade", "the trigger keep_hold"),
    ],
)
async def test_a_dropped_object_of_a_step_is_refused(statement: str, dropped: str, dsn: str) -> None:
    await query(dsn, statement)

    with pytest.raises(WrongSchema, match=f"^the schema shardclock has lost {dropped}, and no"):
        await migrate(dsn)
    async with session(dsn) as client:
        with pytest.raises(WrongSchema, match=dropped):
            await require_objects(client)


async def test_the_objects_of_the_steps_are_those_of_the_catalog(dsn: str) -> None:
    days = "^command_log_[0-9]"
    made = await query(dsn, OBJECTS, days)

    assert {row[0] for row in made} - {"migrations", "functions"} == {
        name for step in steps() for _, name in step.objects
    }
