"""A test that moves the clock sees the same results as on a real cluster at that moment."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import asyncpg
import pytest

import shardclock
from shardclock_server.cluster.testing import SteppedCluster, cluster
from shardclock_server.cluster.testing.moments import EndlessMoment, StuckTimer
from tests.support import ROOT, stepped_app
from tests.support.factories import BOUND_S, query, value
from tests.support.job_runs import runs_of
from tests.support.stepped_app import book
from tests.support.waiting import eventually

MODULE = "tests.support.stepped_app"
APP, JOB = f"{MODULE}:note,{MODULE}:note_plainly", f"{MODULE}:refresh"
BEGIN = datetime(2026, 3, 27, 12, tzinfo=UTC)  # two days before summer time begins
DAY = timedelta(days=1)
REFUSE = """
do $do$
begin
    create function public.refuse() returns trigger language plpgsql as $$
    begin
        raise exception 'it is poison' using errcode = 'data_exception';
    end
    $$;
    create trigger poison before insert on shardclock.command_log for each row
    when (new.name = 'poison' and new.intent = 'TRIGGERED') execute function public.refuse();
end
$do$
"""


@pytest.fixture(autouse=True)
def page() -> None:
    stepped_app.clear()


@pytest.fixture
async def sc() -> AsyncIterator[SteppedCluster]:
    """Run a cluster from a moment on, with the app's handlers."""
    async with cluster(app=APP, now=BEGIN) as made:
        yield made


@pytest.fixture
async def sc_of_job() -> AsyncIterator[SteppedCluster]:
    async with cluster(app=JOB, now=BEGIN) as made:
        yield made


async def fired(sc: SteppedCluster) -> list[tuple[str | None, datetime]]:
    return [(it.name, it.recorded_at) for it in await sc.log() if it.intent == "TRIGGERED"]


async def ended(sc: SteppedCluster) -> list[tuple[str, datetime]]:
    """Read the outcome of each delivery of a handler, with its moment."""
    ends = ("DELIVERED", "DISCARDED", "DEAD")
    return [
        (it.intent, it.recorded_at) for it in await sc.log() if it.intent in ends and it.target.startswith("stepped.")
    ]


async def test_a_timer_fires_exactly_at_its_due_date_and_its_handler_is_called(sc: SteppedCluster) -> None:
    await sc.client.schedule(delay="P3D", target="stepped.noted", payload={"order": 42})

    await sc.advance(to=BEGIN + 3 * DAY - timedelta(microseconds=1))
    assert (book.called, await sc.deliveries()) == ([], [])

    now = await sc.advance(timedelta(microseconds=1))
    assert now == sc.now() == BEGIN + 3 * DAY
    assert book.called == [({"order": 42}, 1, BEGIN + 3 * DAY)]
    assert await ended(sc) == [("DELIVERED", BEGIN + 3 * DAY)]


async def test_all_timers_of_a_moment_fire_before_the_first_delivery(sc: SteppedCluster) -> None:
    for name in ("a", "b", "c"):  # the timers are in three slots
        await sc.client.schedule(name=name, delay="PT1H", target="stepped.noted")

    await sc.advance("PT1H")

    done = [it.intent for it in await sc.log() if it.intent in ("TRIGGERED", "DELIVERED")]
    assert done == ["TRIGGERED"] * 3 + ["DELIVERED"] * 3


async def test_a_timer_that_a_handler_schedules_fires_in_the_same_advance_if_it_is_due_by_its_end(
    sc: SteppedCluster,
) -> None:
    async def again(timer: shardclock.Timer[Any]) -> None:
        if timer.payload < 3:
            await sc.client.schedule(delay="PT0S", target="stepped.noted", payload=timer.payload + 1)
        await sc.client.schedule(delay="P1D", name=f"later-{timer.payload}")

    book.does = again
    await sc.client.schedule(delay="PT1H", target="stepped.noted", payload=1)

    await sc.advance("P1D")
    assert [(payload, moment) for payload, _, moment in book.called] == [
        (n, BEGIN + timedelta(hours=1)) for n in (1, 2, 3)
    ]
    assert [name for name, _ in await fired(sc) if name] == []

    await sc.advance("PT1H")
    assert sorted(name for name, _ in await fired(sc) if name) == ["later-1", "later-2", "later-3"]


async def test_a_failing_handler_is_retried_according_to_its_policy_and_then_its_delivery_is_a_dead_letter() -> None:
    async def moments() -> list[datetime]:
        called_at: list[datetime] = []
        stepped_app.clear()
        async with cluster(app=APP, now=BEGIN, seed=7) as sc:

            async def fail(_: shardclock.Timer[Any]) -> None:
                called_at.append(sc.now())
                raise ValueError("no")

            book.does = fail
            await sc.client.schedule(delay="PT1H", target="stepped.noted")
            await sc.advance("PT2H")
            assert [attempt for _, attempt, _ in book.called] == [1, 2, 3]
            assert await ended(sc) == [("DEAD", called_at[-1])]
        return called_at

    first, second, third = await moments()

    assert first == BEGIN + timedelta(hours=1)
    assert second - first == timedelta(seconds=10)
    assert timedelta(seconds=10) < third - second < timedelta(seconds=20)
    assert await moments() == [first, second, third], "the pauses are drawn from the seed"


async def test_timers_and_schedules_fire_in_the_order_of_due_dates_and_each_on_its_grid(sc: SteppedCluster) -> None:
    for name, delay in (("b", "PT3H"), ("a", "PT1H"), ("never", "P40D")):
        await sc.client.schedule(name=name, delay=delay)
    await sc.client.schedule(name="twice", schedule="R2/PT6H")
    await sc.client.schedule(name="standup", schedule="0 8 * * *", zone="Europe/Berlin")

    await sc.advance("P3D")

    firings = [("a", BEGIN + timedelta(hours=1)), ("b", BEGIN + timedelta(hours=3))]
    firings += [("twice", BEGIN + timedelta(hours=6)), ("twice", BEGIN + timedelta(hours=12))]
    days = [datetime(2026, 3, day, hour, tzinfo=UTC) for day, hour in ((28, 7), (29, 6), (30, 6))]
    assert await fired(sc) == firings + [("standup", day) for day in days], "also over a change of the zone's clock"


async def test_a_job_runs_immediately_and_then_one_interval_after_the_end_of_each_run(
    sc_of_job: SteppedCluster,
) -> None:
    await sc_of_job.advance("PT1H")

    assert book.starts == [BEGIN + timedelta(minutes=15 * n) for n in range(5)]


async def test_a_job_runs_at_each_of_its_dates_from_any_start_of_the_clock() -> None:
    said = {"name": "each-minute", "function": JOB, "schedule": "* * * * *"}
    async with cluster(app=JOB, now=BEGIN + timedelta(microseconds=1)) as sc:
        await query(sc.dsn, "select shardclock.apply_job($1)", json.dumps(said))
        await sc.advance("PT5M")
        runs = await runs_of(sc.dsn, "each-minute")

    assert [it.scheduled_at for it in runs] == [BEGIN + timedelta(minutes=n) for n in range(1, 6)]


async def test_a_run_that_fails_is_made_again_before_the_next_start(sc_of_job: SteppedCluster) -> None:
    ends = iter([ValueError("no"), None])

    def run() -> None:
        if (error := next(ends, None)) is not None:
            raise error

    book.run_does = run

    await sc_of_job.advance("PT14M")

    assert book.starts == [BEGIN, BEGIN]
    assert [(it.outcome, it.attempt) for it in await runs_of(sc_of_job.dsn, "stepped.refreshed")] == [
        ("FAILED", 1),
        ("SUCCEEDED", 2),
    ]


async def test_a_plain_handler_runs_in_a_thread_and_its_rate_is_ignored(sc: SteppedCluster) -> None:
    for n in range(3):
        await sc.client.schedule(delay="PT1M", target="stepped.plain", payload=n)

    await sc.advance("PT1M")

    assert sorted(payload for payload, _, _ in book.called) == [0, 1, 2]
    assert book.plain_was_in_main_thread is False


async def test_an_endless_chain_without_a_delay_is_reported(
    sc: SteppedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardclock_server.cluster.testing.moments.ROUNDS_MAX", 5)

    async def again(_: shardclock.Timer[Any]) -> None:
        await sc.client.schedule(delay="PT0S", target="stepped.noted")

    book.does = again
    await sc.client.schedule(delay="PT1H", target="stepped.noted")

    with pytest.raises(EndlessMoment, match=r"after 5 rounds of firings timer \d+ \(target stepped\.noted\) is due"):
        await sc.advance("P1D")
    assert sc.now() == BEGIN + timedelta(hours=1)


async def test_a_timer_that_the_test_has_locked_is_reported(sc: SteppedCluster) -> None:
    made = await sc.client.schedule(delay="PT1H", name="locked")
    connection = await asyncpg.connect(sc.dsn, timeout=BOUND_S)
    try:
        async with connection.transaction():
            await connection.execute("select from shardclock.timers where timer_key = $1 for update", made.timer_key)
            with pytest.raises(StuckTimer, match=rf'timer {made.timer_key} "locked" .* is due .* has locked it'):
                await sc.advance("PT1H")
    finally:
        await connection.close()

    await sc.advance("PT0S")
    assert [name for name, _ in await fired(sc)] == ["locked"]


async def test_timers_that_fall_due_during_a_hold_fire_after_its_release(sc: SteppedCluster) -> None:
    await sc.client.schedule(delay="PT1H", name="held", target="stepped.noted")
    await query(sc.dsn, "update shardclock.identity set held_why = 'we look at it'")

    await sc.advance("PT2H")
    assert await fired(sc) == []
    assert sc.now() == BEGIN + timedelta(hours=2)

    await query(sc.dsn, "update shardclock.identity set held_why = null")
    await sc.advance("PT0S")
    assert await fired(sc) == [("held", BEGIN + timedelta(hours=2))]


async def test_only_the_faulty_timer_fails_like_on_a_cluster(sc: SteppedCluster) -> None:
    await query(sc.dsn, REFUSE)
    for name in ("a", "poison", "b"):
        await sc.client.schedule(name=name, delay="PT1H")
    await query(sc.dsn, "select shardclock.schedule_timer(name => 'never', schedule => '0 0 28 2 *')")
    await query(sc.dsn, "update shardclock.timers set schedule = '0 0 30 2 *' where name = 'never'")  # SQL refuses it

    await sc.advance("PT2H")

    assert sorted(name or "" for name, _ in await fired(sc)) == ["a", "b"]
    assert sorted(it.name or "" for it in await sc.log() if it.intent == "PAUSED") == ["never", "poison"]


async def test_a_handler_can_t_move_the_clock(sc: SteppedCluster) -> None:
    refusals = []

    async def advance(_: shardclock.Timer[Any]) -> None:
        with pytest.raises(RuntimeError) as refusal:
            await sc.advance("PT1H")
        refusals.append(str(refusal.value))

    book.does = advance
    await sc.client.schedule(delay="PT1H", target="stepped.noted")

    await sc.advance("PT2H")

    assert ["handler can't move the clock" in refusal for refusal in refusals] == [True]


async def test_a_call_that_an_advance_has_not_waited_for_is_finished_by_the_next(sc: SteppedCluster) -> None:
    goes_on = asyncio.Event()

    async def wait(_: shardclock.Timer[Any]) -> None:
        await goes_on.wait()

    book.does = wait
    await sc.client.schedule(delay="PT1H", target="stepped.noted")
    broken_off = asyncio.create_task(sc.advance("PT2H"))
    await eventually(lambda: bool(book.called))
    broken_off.cancel()
    await asyncio.gather(broken_off, return_exceptions=True)

    goes_on.set()
    await sc.advance("PT1M")

    assert await ended(sc) == [("DELIVERED", BEGIN + timedelta(hours=1))]
    assert len(book.called) == 1


async def test_webhooks_are_kept_and_not_sent(sc: SteppedCluster) -> None:
    await _post(sc, "/v1/endpoints", {"name": "billing", "url": "http://127.0.0.1:9999/hook"})
    await sc.client.schedule(delay="PT1H", target="webhook:billing", payload={"order": 42})

    await sc.advance("PT1H")

    (webhook,) = sc.webhooks
    assert (webhook.url, webhook.tenant_id) == ("http://127.0.0.1:9999/hook", "default")
    assert webhook.body["data"]["payload"] == {"order": 42}
    assert [it.intent for it in await sc.log()][-1] == "DELIVERED"


async def _post(sc: SteppedCluster, path: str, body: dict[str, Any]) -> None:
    async with aiohttp.ClientSession() as session, session.post(sc.url + path, json=body) as answer:
        assert answer.status == 201, await answer.text()


async def test_sql_functions_also_read_the_moved_clock(sc: SteppedCluster) -> None:
    await sc.advance("P1D")

    await query(sc.dsn, "select shardclock.schedule_timer(name => 'sql', due_date => now() + interval '1 hour')")
    assert await value(sc.dsn, "select clock_timestamp()") == BEGIN + DAY

    await sc.advance("PT1H")
    assert await fired(sc) == [("sql", BEGIN + DAY + timedelta(hours=1))]


async def test_each_day_of_the_log_has_its_partition(sc: SteppedCluster) -> None:
    await sc.client.schedule(name="daily", schedule="R/P1D")

    # The first record is in the partition after the partitions that are created in advance.
    for length in ("P8D", "P12D"):
        await sc.advance(length)
        assert await value(sc.dsn, "select count(*) from shardclock.command_log_default") == 0

    assert len(await fired(sc)) == 20


async def test_a_caller_that_waits_for_an_end_gets_the_end(sc: SteppedCluster) -> None:
    waiting = asyncio.create_task(sc.client.schedule(delay="PT1H", wait="PT30S"))

    async def is_scheduled() -> bool:
        return bool(await value(sc.dsn, "select count(*) from shardclock.timers"))

    await eventually(is_scheduled)

    await sc.advance("PT1H")

    made = await waiting
    assert made.end is not None
    assert made.end.intent == "TRIGGERED"


def test_no_module_of_ray_is_imported() -> None:
    asked = "import sys, shardclock_server.cluster.testing; print('ray' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


async def test_each_cluster_has_a_database_of_its_own() -> None:
    async with cluster(now=BEGIN) as one, cluster(now=BEGIN + DAY) as other:
        await one.client.schedule(delay="PT1H")
        await other.advance("PT2H")
        await one.advance("PT1H")

        assert (len(await fired(one)), await fired(other)) == (1, [])


async def test_a_pause_ends_at_its_moment(sc: SteppedCluster) -> None:
    await sc.client.schedule(delay="P1D", name="once", target="stepped.noted")
    await sc.client.schedule(schedule="0 12 * * *", name="daily")
    await sc.advance("PT1H")
    pause = "select shardclock.pause_timer(name => $1, until => $2, missed => 'skip')"
    for name in ("once", "daily"):
        assert await value(sc.dsn, pause, name, BEGIN + 3 * DAY) == "PAUSED"

    await sc.advance("P3D")

    assert sorted(await fired(sc)) == [("daily", BEGIN + 3 * DAY), ("once", BEGIN + 3 * DAY)]
