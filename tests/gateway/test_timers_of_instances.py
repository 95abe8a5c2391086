"""Prove that nobody cancels over HTTP what an instance of a process waits for, and that it is said."""

from __future__ import annotations

from tests.support.factories import add_timers, value
from tests.support.gateways import Api

IN_AN_HOUR = "now() + interval '1 hour'"
OF_INSTANCE = {"target": "'process:instance'", "process_instance_key": "1200", "name": "'t-' || i"}


async def test_one_is_not_cancelled(dsn: str, api: Api) -> None:
    (key,) = await add_timers(dsn, 1, IN_AN_HOUR, **OF_INSTANCE)

    for path in (f"/v1/timers/{key}", "/v1/timers/by-name/t-1"):
        refused = await api.post(f"{path}/cancel")
        refused.assert_problem("conflict", 409, f"timer {key} belongs to instance 1200: cancel that")
    assert (await api.post(f"/v1/timers/{key}/pause")).status == 200


async def test_one_without_a_date_yet_is_not_moved_and_that_is_no_fault_of_ours(dsn: str, api: Api) -> None:
    await value(dsn, "select shardclock.schedule_timer(schedule => '0 8 * * MON', name => 'beat')")
    (await api.ask("PATCH", "/v1/timers/by-name/beat", {"shift": "PT1H"})).assert_problem(
        "conflict", 409, "no date yet"
    )


async def test_many_are_cancelled_without_those_and_they_are_counted(dsn: str, api: Api) -> None:
    await add_timers(dsn, 2, IN_AN_HOUR, **OF_INSTANCE)
    await add_timers(dsn, 3, IN_AN_HOUR)

    counted = (await api.post("/v1/timers/bulk/cancel?dry_run=true")).json
    done = await api.post(f"/v1/timers/bulk/cancel?token={counted['token']}")

    assert (counted["matched"], counted["left_out"]) == (3, 2)
    assert done.json == {"matched": 3, "changed": 3, "unsure": 0, "left_out": 2}
    assert await value(dsn, "select count(*) from shardclock.timers") == 2
