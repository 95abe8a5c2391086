"""`up` withdraws no handlers while another cluster leads, and reports which cluster's handlers are called."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shardclock_server.cli.preparation import Preparation
from shardclock_server.cluster.settings import load_settings
from shardclock_server.sql.cluster.leadership import hand_over, lead, resign
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.session import Session
from shardclock_server.workers.app import App
from tests.support.deliveries import declare
from tests.support.factories import HolderClient, sql
from tests.support.handlers import spec_of
from tests.support.jobs import job_spec
from tests.support.roles import as_role

SHOP, TIMERS = "shop", "timers"
STANDS_BY = "another cluster leads; this cluster stands by, and its handlers are called when it leads\n"


def preparation(cluster_id: str = TIMERS, app: App | None = App("orders", ".", (spec_of(),))) -> Preparation:  # noqa: B008
    return Preparation(load_settings().model_copy(update={"cluster_id": cluster_id}), app)


def turn(it: Preparation, dsn: str) -> None:
    asyncio.run(it.turn(Dsn.of(as_role(dsn, "shard"))))


def let_lead(dsn: str, cluster_id: str, leader: int) -> None:
    """Let a cluster lead, as its coordinator would."""

    async def do() -> None:
        async with Session(as_role(dsn, "shard"), application="test") as session:
            assert (await lead(session, leader, cluster_id=cluster_id, lease_s=60.0, fresh=True)).leads

    asyncio.run(do())


def end_lead(dsn: str, leader: int) -> None:
    async def do() -> None:
        async with Session(as_role(dsn, "shard"), application="test") as session:
            await resign(session, leader)

    asyncio.run(do())


def handlers(dsn: str) -> list[str]:
    """Return the handlers that timers may have as target."""
    rows = sql(dsn, "select target from shardclock.handlers where withdrawn_at is null order by target")
    return [row["target"] for row in rows]


def test_while_another_cluster_leads_up_adds_its_handlers_and_withdraws_no_handler(
    dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(declare(dsn, "cart.left"))
    let_lead(dsn, SHOP, 1)

    turn(preparation(), dsn)

    assert handlers(dsn) == ["cart.left", "order.expired"]
    assert capsys.readouterr().err == "app orders: 1 handler; order.expired (added)\n" + STANDS_BY


def test_up_names_once_the_imported_modules_whose_handlers_the_app_does_not_contain(
    dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    let_lead(dsn, TIMERS, 1)
    it = preparation(app=App("orders", ".", (spec_of(),), left_out=("crew.mail", "crew.sms")))

    turn(it, dsn)
    let_lead(dsn, TIMERS, 2)
    turn(it, dsn)

    assert capsys.readouterr().err == (
        "app orders: 1 handler; order.expired (added)\n"
        "app orders imports crew.mail, crew.sms, and does not contain their handlers and jobs;"
        " `--app orders,crew.mail,crew.sms` adds them\n"
    )


def test_a_cluster_withdraws_other_handlers_when_it_takes_the_lead(
    dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(declare(dsn, "cart.left"))
    let_lead(dsn, SHOP, 1)
    it = preparation()
    turn(it, dsn)
    turn(it, dsn)
    assert capsys.readouterr().err.count(STANDS_BY) == 1, "said once"

    end_lead(dsn, 1)
    let_lead(dsn, TIMERS, 2)
    turn(it, dsn)

    assert handlers(dsn) == ["order.expired"]
    assert capsys.readouterr().err == "app orders: 1 handler; cart.left (withdrawn)\n"


@pytest.mark.parametrize("polls_meanwhile", [True, False], ids=["polls meanwhile", "between two polls"])
def test_a_cluster_that_leads_again_declares_its_handlers_again(dsn: str, *, polls_meanwhile: bool) -> None:
    # Given a cluster that lost the lead to another cluster. The new leader withdrew the old cluster's handlers
    let_lead(dsn, TIMERS, 1)
    it = preparation()
    turn(it, dsn)
    end_lead(dsn, 1)
    let_lead(dsn, SHOP, 2)
    if polls_meanwhile:
        turn(it, dsn)
    asyncio.run(declare(dsn, "cart.left"))

    end_lead(dsn, 2)
    let_lead(dsn, TIMERS, 3)
    assert handlers(dsn) == ["cart.left"]
    turn(it, dsn)

    assert handlers(dsn) == ["order.expired"]


def test_a_cluster_that_was_handed_the_lead_counts_as_leading(dsn: str) -> None:
    asyncio.run(declare(dsn, "cart.left"))
    let_lead(dsn, "old", 1)

    async def give() -> None:
        async with Session(as_role(dsn, "shard"), application="test") as session:
            assert await hand_over(session, SHOP, lease_s=60.0)

    asyncio.run(give())
    turn(preparation(), dsn)

    assert handlers(dsn) == ["cart.left", "order.expired"]


@pytest.mark.parametrize("leads", [None, "itself", "a cluster whose lease has ended"])
def test_up_withdraws_other_handlers_if_no_other_cluster_leads(dsn: str, leads: str | None) -> None:
    asyncio.run(declare(dsn, "cart.left"))
    if leads is not None:
        let_lead(dsn, TIMERS if leads == "itself" else SHOP, 1)
    if leads == "a cluster whose lease has ended":
        sql(dsn, "update shardclock.leadership set lease_until = now() - interval '1 second'")

    turn(preparation(), dsn)

    assert handlers(dsn) == ["order.expired"]


def test_a_clients_open_transaction_does_not_stop_up_and_the_app_is_declared_after_the_transaction(
    dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    app = App("orders", ".", (spec_of(),), jobs=(job_spec(),))
    it = Preparation(load_settings(shards=5).model_copy(update={"cluster_id": TIMERS}), app)
    shard_dsn = Dsn.of(as_role(dsn, "shard"))

    async def begin_meanwhile() -> None:
        async with HolderClient(dsn, holder=1) as client:
            await client.begin()
            await client.value("select shardclock.lock_job_names(shared => true)")
            await asyncio.to_thread(it.begin, shard_dsn)

    asyncio.run(begin_meanwhile())
    said = capsys.readouterr().err
    assert said.startswith("app orders: 1 handler")
    assert "the app's jobs are not declared yet: " in said
    assert said.endswith("; trying again\n")

    sql(dsn, "update shardclock.scale set wanted = 7 where role = 'shard'")
    it.maintain(shard_dsn)
    assert capsys.readouterr().err == "app orders: 1 job; refresh (added)\n", "changed handlers are printed once"
    assert sql(dsn, "select wanted from shardclock.scale where role = 'shard'")[0]["wanted"] == 7

    assert [row["name"] for row in sql(dsn, "select name from shardclock.jobs")] == ["refresh"]


def test_a_database_that_restarts_does_not_stop_up_and_the_app_is_declared_after_the_restart(
    dsn: str, capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    it = preparation()

    it.begin(Dsn.of(f"postgresql://shard@/postgres?host={place}"))

    assert capsys.readouterr().err.startswith("the wanted shards and the handlers are not written yet: ")
    it.maintain(Dsn.of(as_role(dsn, "shard")))
    assert handlers(dsn) == ["order.expired"]


def test_up_without_an_app_reports_declared_handlers(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    turn(preparation(app=None), dsn)
    assert capsys.readouterr().err == ""

    asyncio.run(declare(dsn, "cart.left", "order.expired"))
    turn(preparation(app=None), dsn)

    assert handlers(dsn) == ["cart.left", "order.expired"]
    assert capsys.readouterr().err == (
        "2 handlers are declared, and this cluster has no app: deliveries to handlers wait until a cluster with an"
        " app leads (`shardclock up --app`)\n"
    )


def lapse(dsn: str, *, is_over: bool) -> None:
    """End the leader's lease, as during a restart of Postgres, or renew it."""
    when = "interval '-1 minute'" if is_over else "interval '1 minute'"
    sql(dsn, f"update shardclock.leadership set lease_until = clock_timestamp() + {when}")


def test_up_on_standby_withdraws_nothing_while_no_cluster_leads_for_a_moment(dsn: str) -> None:
    asyncio.run(declare(dsn, "cart.left"))
    let_lead(dsn, SHOP, 1)
    it = preparation()
    turn(it, dsn)

    lapse(dsn, is_over=True)
    turn(it, dsn)
    lapse(dsn, is_over=False)
    turn(it, dsn)

    assert handlers(dsn) == ["cart.left", "order.expired"]
