"""Prove that an endpoint is a target of only its own tenant, and has its own claims."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from shardclock_server.sql.cluster.leadership import lead
from shardclock_server.sql.deliveries.notifications import notify_of_deliveries
from shardclock_server.sql.endpoints.endpoints import (
    EndpointName,
    StoredEndpoint,
    add_endpoint,
    disable_endpoint,
    disable_gone_endpoint,
    enable_endpoint,
    find_endpoints,
    list_endpoints,
    remove_endpoint,
    set_secrets,
)
from shardclock_server.sql.session import Session, StatementRefused
from tests.support.deliveries import HANDLER, WorkerClient, add_deliveries, add_worker, declare, deliver
from tests.support.factories import BOUND_S, HolderClient, query, value
from tests.support.roles import as_role

BILLING = StoredEndpoint(
    "default", "billing", "https://example.com/hooks", {"x-team": "7"}, ("whsec_" + 32 * "A",), {"timeout_s": 3.0}
)
OUT_OF_BOUNDS: dict[str, tuple[object, ...]] = {
    "concurrency": (0, None, 1_001, "5", 2.5, [5], True),
    "max_attempts": (0, None, 1.5),
    "rate_per_s": (0, "5", 100_001),
    "timeout_s": (0.5, 31, "15", None),
    "retry_min_s": (0, None),
    "retry_max_s": (2_592_001,),
    "give_up_after_s": (0, "P3D"),
    "expires_after_s": (-1, {}),
}
SCHEDULE = "select shardclock.schedule_timer(delay => 'PT1H', target => $1, tenant_id => $2)"


@pytest.fixture
async def operator(dsn: str) -> AsyncIterator[Session]:
    """Yield an operator's session, with an endpoint `billing` of the tenant `default`."""
    async with Session(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as session:
        assert await add_endpoint(session, BILLING)
        yield session


async def refusal(dsn: str, target: str, tenant_id: str = "default") -> str:
    """Schedule a timer as an application does; return the sentence of the refusal."""
    with pytest.raises(asyncpg.PostgresError) as refused:
        await query(as_role(dsn, "scheduler"), SCHEDULE, target, tenant_id)
    return str(refused.value)


async def test_an_endpoint_is_found_with_all_its_properties_and_each_tenant_has_names_of_its_own(
    operator: Session,
) -> None:
    assert await find_endpoints(operator, [BILLING.key, EndpointName("acme", "billing")]) == {BILLING.key: BILLING}
    assert not await add_endpoint(operator, replace(BILLING, url="https://example.com/other"))
    assert await add_endpoint(operator, replace(BILLING, tenant_id="acme"))

    listed = await list_endpoints(operator, tenant_id=None, whole_urls=True, limit=10)
    assert [(it.tenant_id, it.name, it.url, it.policy, it.waiting) for it in listed] == [
        ("acme", "billing", BILLING.url, {"timeout_s": 3.0}, 0),
        ("default", "billing", BILLING.url, {"timeout_s": 3.0}, 0),
    ]
    assert "whsec_" not in repr(await find_endpoints(operator, [BILLING.key]))


async def test_only_timers_of_its_tenant_may_name_an_endpoint(dsn: str, operator: Session) -> None:
    await query(as_role(dsn, "scheduler"), SCHEDULE, "webhook:billing", "default")

    assert await refusal(dsn, "webhook:biling") == (
        "target 'webhook:biling' is unknown: the targets are log, webhook:billing"
    )
    assert "webhook:billing" not in (await refusal(dsn, "webhook:billing", "acme")).partition(" is unknown: ")[2]


async def test_handlers_and_endpoints_are_listed_together(dsn: str, operator: Session) -> None:
    await declare(dsn, HANDLER)

    assert (await refusal(dsn, "nowhere")).endswith("the targets are log, order.expired, webhook:billing")


async def test_no_timer_may_name_a_disabled_endpoint(dsn: str, operator: Session) -> None:
    assert await disable_endpoint(operator, BILLING.key, why="answered 410 Gone")
    assert not await disable_endpoint(operator, BILLING.key, why="again")

    said = await refusal(dsn, "webhook:billing")
    assert said.startswith("target 'webhook:billing' was disabled at ")
    assert said.endswith("(answered 410 Gone): enable it (shardclock endpoints enable)")
    assert await enable_endpoint(operator, BILLING.key)
    assert not await enable_endpoint(operator, BILLING.key)
    await query(as_role(dsn, "scheduler"), SCHEDULE, "webhook:billing", "default")


async def test_a_late_answer_does_not_disable_an_endpoint_with_a_new_url(operator: Session) -> None:
    for url, disabled in (("https://example.com/old", False), (BILLING.url, True)):
        assert await disable_gone_endpoint(operator, BILLING.key, url=url, why="answered 410 Gone")

        found = await find_endpoints(operator, [BILLING.key])
        assert (found[BILLING.key].disabled_at is not None) == disabled


async def test_disabling_a_gone_endpoint_never_waits_for_a_lock(dsn: str, operator: Session) -> None:
    async with Session(dsn, application="test", timeout_s=BOUND_S) as client, client.transaction() as connection:
        await connection.execute("select from shardclock.endpoints for update")
        assert not await disable_gone_endpoint(operator, BILLING.key, url=BILLING.url, why="answered 410 Gone")

    assert await disable_gone_endpoint(operator, BILLING.key, url=BILLING.url, why="answered 410 Gone")
    (listed,) = await list_endpoints(operator, tenant_id=None, limit=10)
    assert listed.disabled_why == "answered 410 Gone"
    assert await disable_gone_endpoint(operator, BILLING.key._replace(name="none"), url="", why=""), "there is none"


async def test_failing_deliveries_of_an_endpoint_are_counted_with_the_moment_of_the_oldest(
    dsn: str, operator: Session
) -> None:
    columns = {"tenant_id": "'default'", "failed_attempts": "i - 1", "fired_at": "now() - i * interval '1 min'"}
    await add_deliveries(dsn, 3, BILLING.key.target, **columns)
    await add_deliveries(dsn, 1, BILLING.key.target, tenant_id="'acme'", failed_attempts="1")
    await query(dsn, "update shardclock.deliveries set redriven_at = now() - interval '1 s' where failed_attempts = 2")

    (listed,) = await list_endpoints(operator, tenant_id=None, limit=10)

    oldest = await value(dsn, "select min(fired_at) from shardclock.deliveries where failed_attempts = 1")
    assert (listed.waiting, listed.failing, listed.failing_since) == (3, 2, oldest)


async def test_secrets_are_replaced_only_if_they_have_not_changed(operator: Session) -> None:
    new = ("whsec_" + 32 * "B", *BILLING.secrets)

    assert await set_secrets(operator, BILLING.key, before=BILLING.secrets, secrets=new)
    assert not await set_secrets(operator, BILLING.key, before=BILLING.secrets, secrets=("whsec_" + 32 * "C",))
    assert (await find_endpoints(operator, [BILLING.key]))[BILLING.key].secrets == new


async def test_schedulers_and_readers_see_no_secrets_and_no_headers(dsn: str, operator: Session) -> None:
    for role in ("scheduler", "reader"):
        assert await query(as_role(dsn, role), "select tenant_id, name, url from shardclock.endpoints")
        for column in ("secrets", "headers"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await query(as_role(dsn, role), f"select {column} from shardclock.endpoints")


async def test_a_broken_name_or_no_secret_is_refused(operator: Session) -> None:
    for wrong in (replace(BILLING, name="Bil ling"), replace(BILLING, name="b", secrets=())):
        with pytest.raises(StatementRefused):
            await add_endpoint(operator, wrong)


@pytest.mark.shared_database
@pytest.mark.parametrize(
    "wrong",
    [
        {"headers": {"x-a": 1}}, {"headers": {"x-a": ["1"]}}, {"headers": {"x-a": 20_000 * "1"}},
        {"secrets": (None,)}, {"url": "https://example.com/" + 2_048 * "a"},
        {"policy": {"of_a_later_release": 2_000 * "1"}},
        *(
            {"policy": {name: value}}
            for name, values in OUT_OF_BOUNDS.items()
            for value in values
        ),
    ],
)  # fmt: skip
async def test_values_that_no_worker_could_use_are_not_stored(dsn: str, wrong: dict[str, Any]) -> None:
    async with Session(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as operator:
        with pytest.raises(StatementRefused):
            await add_endpoint(operator, replace(BILLING, name="b", **wrong))


@pytest.mark.parametrize("column", ["headers", "policy"])
async def test_headers_and_policy_are_objects(dsn: str, operator: Session, column: str) -> None:
    for wrong in ("[]", "null", '"text"', "7"):
        with pytest.raises(asyncpg.CheckViolationError):
            await query(dsn, f"update shardclock.endpoints set {column} = $1::text::jsonb", wrong)


async def test_numbers_within_their_bounds_are_stored(operator: Session) -> None:
    policy = {
        "concurrency": 1_000, "max_attempts": 1, "rate_per_s": None, "timeout_s": 1, "retry_min_s": 0.001,
        "retry_max_s": 2_592_000, "give_up_after_s": None, "expires_after_s": 0.1, "of_a_later_release": "any",
    }  # fmt: skip
    one = replace(BILLING, name="b", policy=policy, headers={})
    assert await add_endpoint(operator, one)
    assert (await find_endpoints(operator, [one.key]))[one.key].policy == policy


async def test_a_claim_takes_as_many_deliveries_of_each_endpoint_as_it_has_places(
    dsn: str, shard: HolderClient, operator: Session
) -> None:
    await declare(dsn, HANDLER)
    await add_endpoint(operator, replace(BILLING, tenant_id="acme corp"))
    await add_worker(dsn, 11)
    for tenant in ("default", "acme corp"):
        await deliver(shard, 20, target="webhook:billing", tenant_id=f"'{tenant}'")
    await deliver(shard, 20)

    async with WorkerClient(dsn, 11) as worker:
        assert {it.target for it in await worker.take()} == {HANDLER}, "a worker that sends no webhooks takes none"
        scan = await worker.scan(places={"webhook:billing default": 0}, webhooks=7)
        assert [it.tenant_id for it in scan.claimed] == 7 * ["acme corp"]
        scan = await worker.scan(places={"webhook:billing default": 3, "webhook:billing acme corp": 0}, webhooks=7)
        assert [it.tenant_id for it in scan.claimed] == 3 * ["default"]


async def test_workers_are_wanted_when_there_is_a_target(dsn: str) -> None:
    async with Session(as_role(dsn, "shard"), application="test", timeout_s=BOUND_S) as session:

        async def wanted() -> int:
            return (await lead(session, 1, cluster_id="blue", lease_s=5.0, fresh=True)).wanted["worker"]

        assert await wanted() == 0
        assert not await notify_of_deliveries(session)
        await add_endpoint(session, BILLING)
        number = await wanted()
        assert number > 0
        assert await notify_of_deliveries(session)
        await remove_endpoint(session, BILLING.key)
        assert await wanted() == 0
        await declare(dsn, HANDLER)
        assert await wanted() == number
        await declare(dsn)
        assert await wanted() == 0
