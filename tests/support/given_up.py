"""Write starts of instances that engines have given up."""

from __future__ import annotations

from tests.support.factories import query

# The processes of two tenants; one of the tenants has two processes.
DEFINITIONS = """
    insert into shardclock.definitions (
        definition_key, tenant_id, process_id, version, name, resource, digest, model, starts
    )
    values
        (1, 'default', 'p', 1, 'p', 'p.bpmn', sha256('1'), '', '[]'),
        (2, 'default', 'q', 4, 'q', 'q.bpmn', sha256('2'), '', '[]'),
        (3, 'other', 'p', 1, 'p', 'p.bpmn', sha256('3'), '', '[]')
"""
# One dead letter in three is a start, one is a signal to an instance, and one has another target. The dead letter with
# the largest key is the newest. One start in ten belongs to the other tenant, four are of p, and five are of q.
GIVEN_UP = """
    insert into shardclock.dead_letters (
        timer_key, process_instance_key, due_date, created_at, fired_at, died_at, occurrence, claims, failed_attempts,
        slot, tenant_id, timer_type, target, reason, payload
    )
    select
        n, case when n % 3 = 1 then n end, now(), now(), now(), '2031-01-01Z'::timestamptz + n * interval '1 s', 1, 0,
        5, n % 840, case d.key when 3 then 'other' else 'default' end, 'USER',
        case when n % 3 = 2 then 'webhook:n' else 'process:instance' end, 'no reason ' || n,
        jsonb_build_object('kind', 'begin', 'definition', d.key)
    from generate_series(1, $1::integer) n
    cross join lateral (select case when n % 30 = 0 then 3 when n % 2 = 0 then 1 else 2 end as key) d
"""


async def give_up_starts(dsn: str, count: int) -> None:
    """Write `count` dead letters; every third is a start."""
    await query(dsn, DEFINITIONS)
    await query(dsn, GIVEN_UP, count)
