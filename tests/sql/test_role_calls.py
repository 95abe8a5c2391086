"""A function runs with its caller's rights: a role that may call the function may also call the functions inside."""

from __future__ import annotations

from tests.support.factories import query

ROLES = ["shardclock_shard", "shardclock_scheduler", "shardclock_gateway", "shardclock_consumer", "shardclock_reader"]
# A trigger runs as the role that changes the table, without a right to call its function.
LACKING = r"""
    with functions as (
        select
            p.oid, p.proname::text as name, p.prosecdef,
            p.prosrc || coalesce(pg_get_function_sqlbody(p.oid), '') as body
        from pg_proc p
        where p.pronamespace = 'shardclock'::regnamespace
    )
    select r.role, f.name as caller, c.name as called
    from unnest($1::text[]) as r (role)
    cross join functions f
    cross join lateral (
        select distinct m[1] as name from regexp_matches(f.body, 'shardclock\.(\w+)\(', 'g') as m
    ) c
    join functions g on g.name = c.name
    where not f.prosecdef
        and has_function_privilege(r.role, f.oid, 'execute')
        and not has_function_privilege(r.role, g.oid, 'execute')
    order by 1, 2, 3
"""


async def test_a_role_that_may_call_a_function_may_call_the_functions_inside_it(each_dsn: str) -> None:
    lacking = [
        f"{row['role']} may {row['caller']}, not {row['called']}" for row in await query(each_dsn, LACKING, ROLES)
    ]

    assert lacking == []
