"""Find objects that a migration created and that were dropped later, such as by a manual `drop table`."""

from collections.abc import Iterable

from shardclock_server.sql.scripts import SqlScript
from shardclock_server.sql.session import Connection

# Only the catalog is read: the names of tables, views, sequences and types are in pg_class.
_DROPPED = """\
select d.kind, d.name
from unnest($1::text[], $2::text[]) with ordinality as d (kind, name, place)
where not exists (
        select from pg_class c where c.relnamespace = to_regnamespace('shardclock') and c.relname = d.name
    )
    and not exists (
        select from pg_trigger t join pg_class c on c.oid = t.tgrelid
        where c.relnamespace = to_regnamespace('shardclock') and t.tgname = d.name
    )
order by d.kind <> 'table', d.place
"""


async def find_dropped(connection: Connection, applied: Iterable[SqlScript]) -> str:
    """Name the first object that an applied step created and that no longer exists, and count the others.

    shape:   such as "the table timers", with " and 2 more objects" if more objects are missing; "" if none is missing
    """
    objects = [each for step in applied for each in step.objects]
    rows = await connection.fetch(_DROPPED, [kind for kind, _ in objects], [name for _, name in objects])
    if not rows:
        return ""
    more = f" and {len(rows) - 1} more object{'s' if len(rows) > 2 else ''}" if len(rows) > 1 else ""
    return f"the {rows[0]['kind']} {rows[0]['name']}{more}"
