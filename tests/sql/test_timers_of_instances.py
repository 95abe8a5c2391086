"""Prove that nobody cancels a timer that an instance of a process waits for, and that the timers of others go."""

from __future__ import annotations

import pytest

from sql.clients.history import find_timers_of_instances
from sql.clients.verbs import TimerRef, cancel_process_instance, cancel_timer, cancel_timers, pause_timer
from sql.session import StatementRefused
from tests.support.factories import HolderClient, add_timers, query
from tests.support.sql_client import schedule

IN_AN_HOUR = "now() + interval '1 hour'"
OURS = {"target": "'process:instance'", "process_instance_key": "1200", "name": "'t-' || i"}


async def left(client: HolderClient) -> list[int]:
    return [row["timer_key"] for row in await query(client.dsn, "select timer_key from shardclock.timers order by 1")]


@pytest.mark.parametrize("state", ["PENDING", "PAUSED"])
async def test_one_that_an_instance_waits_for_is_not_cancelled_and_the_way_out_is_named(
    client: HolderClient, state: str
) -> None:
    (key,) = await add_timers(client.dsn, 1, IN_AN_HOUR, **OURS)
    if state == "PAUSED":
        assert await pause_timer(client.session, TimerRef(key)) == "PAUSED"

    for which in (TimerRef(key), TimerRef(name="t-1")):
        with pytest.raises(StatementRefused) as refused:
            await cancel_timer(client.session, which)
        assert refused.value.sqlstate == "55000"
        assert str(refused.value) == (
            f"timer {key} belongs to instance 1200: cancel that (shardclock processes cancel 1200), or move its token"
        )
    assert await left(client) == [key]


async def test_many_are_cancelled_without_those(client: HolderClient) -> None:
    ours = await add_timers(client.dsn, 2, IN_AN_HOUR, **OURS)
    others = [await schedule(client, process_instance_key=1200), await schedule(client)]

    assert await find_timers_of_instances(client.session, [*ours, *others]) == set(ours)
    assert await cancel_timers(client.session, [*ours, *others]) == 2
    assert await left(client) == ours


async def test_another_engines_instance_loses_all_its_timers_and_ours_none(client: HolderClient) -> None:
    ours = await add_timers(client.dsn, 2, IN_AN_HOUR, **OURS)
    await schedule(client, process_instance_key=1200)
    other = await schedule(client, process_instance_key=1200)
    await pause_timer(client.session, TimerRef(other))

    assert await cancel_process_instance(client.session, 1200) == 2
    assert await cancel_process_instance(client.session, 1200) == 0, "and it ends"
    assert await left(client) == ours


async def test_what_begins_an_instance_belongs_to_none(client: HolderClient) -> None:
    (key,) = await add_timers(client.dsn, 1, IN_AN_HOUR, target="'process:instance'", timer_type="'START_EVENT'")
    assert await cancel_timer(client.session, TimerRef(key)) == "CANCELED"
