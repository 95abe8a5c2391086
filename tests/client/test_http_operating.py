"""Test the client's methods for operators: dead letters, jobs and bulk operations."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shardclock import AsyncClient
from shardclock.http import NotFound, Refused, TooLate
from shardclock_server.sql.deliveries import dead_letters
from tests.support.deliveries import HANDLER, let_die
from tests.support.factories import query, value
from tests.support.job_runs import declare as declare_jobs
from tests.support.jobs import job_spec
from tests.support.operator_events import subscribe


@pytest.fixture
async def letters(dsn: str) -> list[int]:
    """Make four dead letters, one after the other; return their keys."""
    return await let_die(dsn, 4)


async def test_dead_letters_are_found_redriven_and_discarded(dsn: str, client: AsyncClient, letters: list[int]) -> None:
    found = await client.dead_letters(target=HANDLER)
    assert [letter.timer_key for letter in found] == letters[::-1]
    assert await client.dead_letters(target="other") == ()
    grouped = await client.dead_letter_groups()
    assert [(it.target, it.dead_letters, it.reason_line) for it in grouped.groups] == [(HANDLER, 4, found[0].reason)]
    assert (grouped.counted, grouped.is_all) == (4, True)
    assert (await client.dead_letter_groups(target="other")).groups == ()
    (of_all,) = (await client.dead_letter_groups(all_tenants=True)).groups
    assert (of_all.dead_letters, of_all.tenants, of_all.tenant_id) == (4, 1, found[0].tenant_id)
    assert len(await client.dead_letters(reason_line=found[0].reason)) == 4
    assert (await client.redrive(reason_line="another", dry_run=True)).timer_keys == ()

    would = await client.redrive(every=True, limit=2, dry_run=True)
    assert (len(would.timer_keys), would.more) == (2, True)
    assert await value(dsn, "select count(*) from shardclock.dead_letters") == 4
    assert (await client.redrive(letters[0])).timer_keys == (letters[0],)
    assert (await client.discard(letters[1])).timer_keys == (letters[1],)
    some = await client.redrive(target=HANDLER, limit=1, per_s=10)
    rest = await client.discard(reason="obsolete", target=HANDLER)
    assert sorted(some.timer_keys + rest.timer_keys) == letters[2:]
    assert (len(some.timer_keys), some.more, rest.more) == (1, True, False)
    assert await value(dsn, "select count(*) from shardclock.dead_letters") == 0
    with pytest.raises(NotFound):
        await client.redrive(letters[0])


async def test_dead_letters_are_read_page_by_page_if_they_are_large(
    client: AsyncClient, letters: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "PAGE_BYTES", 1)

    assert [letter.timer_key for letter in await client.dead_letters()] == letters[::-1]
    assert [letter.timer_key for letter in await client.dead_letters(limit=3)] == letters[:0:-1]


async def test_a_key_together_with_a_filter_of_dead_letters_is_refused(client: AsyncClient) -> None:
    with pytest.raises(TypeError, match="redrive takes either a timer_key or filters of dead letters"):
        await client.redrive(7, target=HANDLER)
    with pytest.raises(TypeError, match="discard takes either a timer_key or filters"):
        await client.discard(7, dry_run=True)
    with pytest.raises(TypeError, match="discard takes either a timer_key or filters"):
        await client.discard(7, every=True)


async def test_a_job_is_found_and_started(dsn: str, client: AsyncClient) -> None:
    await declare_jobs(dsn, job_spec("refresh", every_s=3600.0))

    (job,) = await client.jobs()
    assert (job.name, job.every_s, job.state) == ("refresh", 3600.0, "SCHEDULED")
    assert (job.withdrawn_at, job.disabled_by, job.cancel_why, job.consecutive_crashes) == (None, None, None, 0)
    key = await client.run_job("refresh", config={"since": 7})
    assert (await client.get(timer_key=key)).payload == {"since": 7}
    with pytest.raises(NotFound, match="meant"):
        await client.run_job("refersh")


async def test_operations_are_listed_found_and_cancelled(dsn: str, client: AsyncClient) -> None:
    await client.schedule(delay="PT1H", name="order-1")
    done = await (
        await client.bulk("pause", reason="strike", until=datetime(2040, 1, 1, tzinfo=UTC), name_prefix="order-")
    ).commit()
    running = (
        "insert into shardclock.operations (request_id, due_at, matched, by_operator, tenant_id, verb, filter, change,"
        " interface) values (gen_random_uuid(), now() + interval '30 min', 9, false, 'default', 'cancel', '{}', '{}',"
        " 'api')"
    )
    await query(dsn, running)

    (cancel,) = await client.operations(verb="cancel", state="running")
    assert (await client.cancel_operation(cancel.operation_id)).state == "CANCELED"
    assert done.operation_id is not None
    found = await client.operation(done.operation_id)
    assert (found.verb, found.changed, found.reason, found.filter) == ("pause", 1, "strike", {"name_prefix": "order-"})
    assert found.parameters["until"].startswith("2040-01-01T00:00:00")
    with pytest.raises(TooLate):
        await client.cancel_operation(done.operation_id)
    with pytest.raises(NotFound):
        await client.operation(99)


async def test_an_endpoint_is_subscribed_to_events_and_unsubscribed(dsn: str, client: AsyncClient) -> None:
    key = await subscribe(dsn, "delivery.dead", name="chat")

    changed = await client.subscribe(key.name, ["quota.reached", "delivery.dead"], text_only=True)

    assert (changed.changed, changed.message) == (True, "endpoint webhook:chat gets delivery.dead, quota.reached")
    (found,) = await client.event_subscriptions()
    assert (found.endpoint, found.kinds, found.text_only) == ("chat", ("delivery.dead", "quota.reached"), True)
    assert (await client.unsubscribe("chat")).changed
    assert await client.event_subscriptions() == ()
    with pytest.raises(NotFound):
        await client.unsubscribe("chat")
    with pytest.raises(Refused, match=r"job\.lost"):
        await client.subscribe("chat", ["job.lost"])
