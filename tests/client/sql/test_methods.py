"""Test that each method over SQL does its work, and raises the right error."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from shardclock.sql import Changed, Conflict, NameTaken, NotAllowed, NotFound, Refused, Scheduled, TooLate, timers
from tests.support.factories import add_timers, pending_keys, pending_rows
from tests.support.roles import as_role
from tests.support.user_connections import UserConnection, psycopg_plain

MORNING = datetime(2030, 1, 31, 8, tzinfo=UTC)
NOON = datetime(2040, 1, 1, 12, tzinfo=UTC)


async def test_a_timer_is_scheduled_found_moved_paused_resumed_run_and_cancelled(user: UserConnection) -> None:
    made = await user.ask("schedule", due_date=MORNING, name="n", payload={"order": 42}, timer_type="BOUNDARY")
    key = made.timer_key
    assert made == Scheduled(timer_key=key, due_date=MORNING, outcome="created")

    found = await user.ask("get", timer_key=key)
    assert found == await user.ask("get", name="n")
    assert (found.state, found.tenant_id, found.name, found.due_date) == ("PENDING", "default", "n", MORNING)
    assert (found.payload, found.timer_type, found.target, found.etag) == ({"order": 42}, "BOUNDARY", "log", None)

    moved = await user.ask("move", timer_key=key, shift=timedelta(hours=-1))
    assert moved == Changed(timer_key=key, name=None, state="RESCHEDULED")
    assert (await user.ask("get", name="n")).due_date == MORNING - timedelta(hours=1)
    assert (await user.ask("pause", name="n", reason="strike", until=NOON, missed="skip")).state == "PAUSED"
    paused = await user.ask("get", name="n")
    assert (paused.state, paused.due_date, paused.resume_at) == ("PAUSED", MORNING - timedelta(hours=1), NOON)
    for length in ("PT2H", timedelta(hours=2)):
        assert (await user.ask("pause", name="n", until=length)).state == "PAUSED"
        ends_at = (await user.ask("get", name="n")).resume_at
        assert timedelta(hours=1) < ends_at - datetime.now(UTC) <= timedelta(hours=2)
    assert (await user.ask("resume", timer_key=key, missed="skip")).state == "PENDING"
    assert (await user.ask("run", name="n")) == Changed(timer_key=None, name="n", state="RESCHEDULED")
    assert (await user.ask("cancel", timer_key=key, reason="paid")).state == "CANCELED"
    ended = await user.ask("get", timer_key=key)
    assert (ended.state, ended.detail["reason"]) == ("CANCELED", "paid")
    assert ended.ended_at.tzinfo is not None


async def test_each_refusal_has_a_class_with_the_drivers_error_as_its_cause(user: UserConnection) -> None:
    with pytest.raises(NotFound) as missing:
        await user.ask("get", name="n")
    assert (missing.value.code, missing.value.members) == ("unknown_timer", {"state": "UNKNOWN"})
    assert missing.value.__cause__ is None
    await user.ask("schedule", delay="PT1H", name="n")
    await user.commit()

    with pytest.raises(NameTaken) as taken:
        await user.ask("schedule", delay="PT1H", name="n")
    assert (taken.value.code, taken.value.members) == ("name_taken", {"sqlstate": "23505"})
    assert taken.value.__cause__ is not None
    await user.rollback()

    with pytest.raises(Refused) as invalid:
        await user.ask("schedule", delay="15m")
    assert invalid.value.code == "invalid_delay"
    await user.rollback()

    await user.ask("cancel", name="n")
    with pytest.raises(TooLate) as late:
        await user.ask("pause", name="n")
    assert (late.value.state, late.value.type, late.value.status) == (
        "CANCELED",
        "urn:shardclock:problem:timer_ended",
        0,
    )
    await user.commit()


async def test_the_pending_timer_of_a_name_is_found_or_the_last_ended_timer(one: UserConnection) -> None:
    keys = []
    for _ in range(3):
        keys.append((await one.ask("schedule", delay="PT1H", name="n")).timer_key)
        found = await one.ask("get", name="n")
        assert (found.timer_key, found.state) == (keys[-1], "PENDING")
        await one.ask("cancel", name="n")
        await one.commit()
        found = await one.ask("get", name="n")
        assert (found.timer_key, found.state) == (keys[-1], "CANCELED")


async def test_a_schedule_is_created_and_gets_another_rule(one: UserConnection) -> None:
    made = await one.ask("put", name="standup", schedule="0 8 * * MON", zone="Europe/Berlin", missed="skip")
    found = await one.ask("get", timer_key=made.timer_key)
    assert (found.schedule, found.zone, found.missed) == ("0 8 * * MON", "Europe/Berlin", "skip")

    with pytest.raises(Conflict) as unplanned:
        await one.ask("move", name="standup", shift="PT1H")
    assert unplanned.value.code == "timer_unplanned"
    await one.rollback()

    await one.ask("schedule", name="hourly", schedule="R/PT1H")
    assert (await one.ask("move", name="hourly", schedule="R/PT2H", zone="Asia/Tokyo")).state == "RESCHEDULED"
    found = await one.ask("get", name="hourly")
    assert (found.schedule, found.zone, found.missed) == ("R/PT2H", "Asia/Tokyo", "fire_once")


async def test_a_timer_of_another_tenant_is_not_found(one: UserConnection, dsn: str) -> None:
    (key,) = await add_timers(dsn, 1, "now() + interval '1 hour'", tenant_id="'acme'", name="'n'")
    before = await pending_rows(dsn)
    for method in ("get", "move", "pause", "resume", "run", "cancel"):
        to = {"shift": "PT1H"} if method == "move" else {}
        for which in ({"timer_key": key}, {"name": "n"}, {"timer_key": key + 1}):
            with pytest.raises(NotFound):
                await one.ask(method, **which, **to)
    await one.commit()
    assert await pending_rows(dsn) == before
    one.tenant = "acme"
    await one.ask("cancel", timer_key=key)
    await one.commit()
    one.tenant = "default"
    with pytest.raises(NotFound):
        await one.ask("cancel", timer_key=key)
    one.tenant = "acme"
    assert (await one.ask("cancel", timer_key=key)).state == "CANCELED"
    with pytest.raises(TooLate):
        await one.ask("resume", timer_key=key)


async def test_a_role_without_rights_gets_the_name_of_the_missing_grant(dsn: str) -> None:
    async with psycopg_plain(as_role(dsn, "consumer")) as user:
        with pytest.raises(
            NotAllowed, match=r"^permission denied .*; grant the role that is connected shardclock_sched"
        ):
            await user.ask("schedule", delay="PT1H")


async def test_a_timer_is_named_by_its_key_or_by_its_name(one: UserConnection) -> None:
    for which in ({}, {"timer_key": 1, "name": "n"}):
        with pytest.raises(TypeError, match="named by timer_key= or by name=: give exactly one"):
            await one.ask("cancel", **which)
    with pytest.raises(TypeError):
        await one.ask("cancel", timer_key="1")
    for tenant in ("tenant", "tenant_id"):
        with pytest.raises(
            TypeError, match=rf"^{tenant} is not a field here; name the tenant once: timers\(connection, "
        ):
            await one.ask("schedule", delay="PT1H", **{tenant: "acme"})
    with pytest.raises(TypeError, match=r"'nmae' is not a field here; the fields are delay, due_date, .*, name,"):
        await one.ask("schedule", delay="PT1H", nmae="n")
    assert repr(timers(one.connection, tenant="acme")) == "<Timers of tenant 'acme'>"


async def test_a_refusal_by_the_client_leaves_the_transaction_usable(one: UserConnection, dsn: str) -> None:
    made = await one.ask("schedule", delay="PT1H")
    for due_date in ("tomorrow", "", "2031-13-01T00:00:00Z", "2031-01-31T08:00", 20310131, datetime(2031, 1, 31)):  # noqa: DTZ001 - it is refused
        with pytest.raises(Refused, match=r"^due_date .*(not an ISO 8601 date-time|has no offset from UTC)"):
            await one.ask("schedule", due_date=due_date)
    for text in ("a\0b", "\ud83d", "\ude00", "\ude00\ud83d", "\\\0"):
        with pytest.raises(Refused, match=r"^payload contains a NUL character or half of a surrogate pair"):
            await one.ask("schedule", delay="PT1H", payload=[text])
    for text in ("\\u0000", "😀", "\\\\ud83d"):
        await one.ask("schedule", delay="PT1H", name=text, on_conflict="replace")
        await one.ask("cancel", name=text)
    with pytest.raises(ValueError, match=r"^payload contains NaN, which is no JSON number"):
        await one.ask("schedule", delay="PT1H", payload=float("nan"))
    await one.commit()

    assert await pending_keys(dsn) == [made.timer_key]
