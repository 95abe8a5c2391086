"""`status` and other commands report a hold; `release` ends it only with --yes, and only if that is safe."""

from __future__ import annotations

import asyncio
import threading
from contextlib import nullcontext
from typing import Any

import pytest

from shardclock_server.cli.preparation import Preparation
from shardclock_server.cluster.settings import load_settings
from shardclock_server.sql.cluster.holders import SHARD, Incarnation, register_holder
from shardclock_server.sql.cluster.identity import release
from shardclock_server.sql.dsn import Dsn
from shardclock_server.sql.session import Session
from shardclock_server.workers.app import App
from tests.support.cli_asserts import DONE, DOWN, NOT_DONE, assert_refused
from tests.support.deliveries import declare
from tests.support.factories import add_timers
from tests.support.handlers import spec_of
from tests.support.program import Done, Shell
from tests.support.roles import as_role

PROD, STAGING = "prod", "staging"
WORDS = "ON HOLD: "
COPY = "the database is a copy, or was moved: it ran as 1/1 and is "
ANOTHERS = "the database belongs to prod, and the cluster is staging"
OPERATORS = "an operator said: billing is down"


@pytest.fixture
def shell(dsn: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run commands in this process, configured for staging."""
    monkeypatch.setenv("SHARDCLOCK_IDENTITY", STAGING)
    return Shell(dsn, capsys)


def belongs(shell: Shell, name: str = PROD, *, copied: bool = False) -> None:
    """Store the name of the installation that owns the database; if `copied`, also store the origin of a copy."""
    origin = "'1/1'" if copied else "shardclock.origin()"
    shell.sql(f"update shardclock.identity set name = $1, origin = {origin}", name)


def start(shell: Shell, identity: str, *, holder: int = 1, cluster_id: str = "green") -> None:
    """Register a shard of a cluster with this identity."""

    async def register() -> None:
        async with Session(shell.dsn, application="test") as session:
            await register_holder(session, Incarnation(holder, SHARD, cluster_id, f"s{holder}", "n", "h", 1, identity))

    asyncio.run(register())


def whose(shell: Shell) -> tuple[str | None, bool]:
    ((name, here),) = shell.sql("select name, origin = shardclock.origin() from shardclock.identity")
    return name, here


# commands that report a hold


def hold_of(shell: Shell, identity: str | None = None) -> Any:
    """Read the hold from both outputs of `status`, which must agree."""
    if identity is not None:
        hold = shell("status", "--json", SHARDCLOCK_IDENTITY=identity).json["hold"]
        people = shell("status", SHARDCLOCK_IDENTITY=identity)
    else:
        hold, people = shell("status", "--json").json["hold"], shell("status")
    assert (WORDS in people.out) is (hold is not None)
    return hold


def test_status_shows_the_reason_of_a_hold_and_the_way_to_end_it(shell: Shell) -> None:
    belongs(shell, copied=True)
    start(shell, STAGING)

    assert hold_of(shell).startswith(COPY)
    line = shell("status").out.splitlines()[0]
    assert (line.startswith(WORDS), line.endswith("; `shardclock release --yes` ends the hold")) == (True, True)


def test_status_shows_the_hold_before_a_cluster_is_started(shell: Shell) -> None:
    belongs(shell)
    assert hold_of(shell) == ANOTHERS
    assert hold_of(shell, PROD) is None


def test_status_shows_the_hold_of_one_cluster_while_another_fires(shell: Shell) -> None:
    start(shell, PROD, cluster_id="blue")
    start(shell, STAGING, holder=2)

    assert shell("status", "--json").json["hold"] == ANOTHERS
    assert f"{WORDS}green: {ANOTHERS}; others fire; is its SHARDCLOCK_DSN right?" in shell("status").out.splitlines()


def test_a_command_without_an_identity_reports_no_hold_of_another_installation(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHARDCLOCK_IDENTITY")
    belongs(shell)
    assert hold_of(shell) is None
    belongs(shell, copied=True)
    assert hold_of(shell).startswith(COPY)


def test_switch_refuses_a_cluster_on_hold(shell: Shell) -> None:
    start(shell, PROD, cluster_id="blue")
    for holder in (2, 3):  # the wanted number of shards
        start(shell, STAGING, holder=holder)

    assert_refused(shell("switch", "green", "--wait", 0), "green", ANOTHERS, "shardclock release")


# release


def test_release_without_yes_is_a_dry_run(shell: Shell) -> None:
    asyncio.run(add_timers(shell.dsn, 3, "now() - interval '1 hour'"))
    asyncio.run(add_timers(shell.dsn, 2, "now() + interval '1 hour'"))
    belongs(shell, copied=True)
    start(shell, STAGING)

    done = shell("release", "--json")

    assert done.code == NOT_DONE
    assert done.json.pop("hold").startswith(COPY)
    here = shell.sql("select shardclock.origin()")[0][0]
    assert {name: found for name, found in done.json.items() if name != "hold"} == {
        "released": False, "identity": STAGING, "belongs_to": PROD, "origin": "1/1", "here": here,
        "pending": 5, "overdue": 3, "overdue_estimated": False, "left_by_outage": 3,
    }  # fmt: skip
    people = shell("release")
    assert people.code == NOT_DONE
    for words in ("prod, as database 1/1", f"staging, as database {here}", "3 timers, firing at 150,000 a second"):
        assert words in people.out
    assert people.err == "nothing was changed; add --yes to release the database\n"
    assert whose(shell) == (PROD, False)


def test_release_with_yes_gives_the_database_to_the_configured_installation(shell: Shell) -> None:
    for running in (False, True):
        for copied in (False, True):
            belongs(shell, copied=copied)
            done = shell("release", "--yes", "--json")
            assert (done.code, done.json["released"]) == (DONE, True)
            assert whose(shell) == (STAGING, True)
            assert hold_of(shell) is None
        if not running:
            start(shell, STAGING)
    for yes in (["--yes"], []):
        done = shell("release", *yes, "--json")
        assert (done.code, done.json["released"], done.json["hold"]) == (DONE, False, None)
        assert done.err == "nothing to release: the database is not on hold\n"


def refused(done: Done, *words: str) -> None:
    assert_refused(done, *words, code=NOT_DONE)


def test_release_is_refused_while_another_cluster_fires(shell: Shell) -> None:
    start(shell, PROD, cluster_id="blue")
    start(shell, STAGING, holder=2)
    for yes in (["--yes"], []):
        refused(shell("release", *yes), "blue fires on this database", "is this the database that you mean?")
    assert whose(shell) == (PROD, True)


def test_release_is_refused_if_the_identity_is_not_that_of_the_waiting_cluster(shell: Shell) -> None:
    belongs(shell, copied=True)
    start(shell, "qa")

    refused(
        shell("release", "--yes"),
        "SHARDCLOCK_IDENTITY=qa",
        "SHARDCLOCK_IDENTITY=staging",
        "set the same SHARDCLOCK_IDENTITY",
    )
    assert whose(shell) == (PROD, False)


def test_release_is_refused_if_a_cluster_begins_to_fire_before_the_write(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    belongs(shell)
    monkeypatch.setattr("shardclock_server.service.hold.objection_to", lambda *_: None)
    start(shell, PROD, cluster_id="blue")

    refused(shell("release", "--yes"), "not released")
    assert whose(shell) == (PROD, True)


# an operator's hold


def test_an_operator_s_hold_is_shown_with_its_reason_until_the_release(shell: Shell) -> None:
    belongs(shell, STAGING)
    start(shell, STAGING)

    done = shell("hold", "billing is down", "--json")

    assert (done.code, done.json) == (DONE, {"hold": "billing is down", "before": None})
    assert hold_of(shell) == OPERATORS
    assert shell("hold", "still", "--json").json["before"] == "billing is down"
    again = shell("hold", "billing is down").err
    assert again.endswith("; `shardclock release --yes` ends the hold; instead of: still\n")
    assert f"staging, as database {shell.sql('select shardclock.origin()')[0][0]}" in shell("release").out
    assert hold_of(shell) == OPERATORS

    assert shell("release", "--yes", "--json").json["released"] is True
    assert hold_of(shell) is None
    assert whose(shell) == (STAGING, True)


def test_up_writes_its_shards_and_handlers_during_an_operator_s_hold(shell: Shell) -> None:
    belongs(shell, STAGING)
    shell("hold", "prices are wrong")
    preparation = Preparation(load_settings().model_copy(update={"shards": 5}), App("orders", ".", (spec_of(),)))

    asyncio.run(preparation.turn(Dsn.of(as_role(shell.dsn, "shard"))))

    assert written(shell) == (5, ["order.expired"])


# the writes of `up`


def written(shell: Shell) -> tuple[int, list[str]]:
    """Read the wanted number of shards, and the declared handlers."""
    ((shards,),) = shell.sql("select wanted from shardclock.scale where role = 'shard'")
    handlers = shell.sql("select target from shardclock.handlers where withdrawn_at is null order by target")
    return shards, [row["target"] for row in handlers]


def test_up_on_hold_writes_its_shards_and_handlers_only_after_the_release(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given the database of an installation with a handler, and the `up` of another installation
    asyncio.run(declare(shell.dsn, "cart.left"))
    belongs(shell)
    stop = threading.Event()
    seen: list[tuple[int, list[str]]] = []

    class Cluster:
        def tend(self) -> None:
            seen.append(written(shell))
            if len(seen) == 3:
                asyncio.run(give_to(STAGING, as_role(shell.dsn, "shard")))
            if len(seen) == 4:
                shell.sql("update shardclock.scale set wanted = 7 where role = 'shard'")
            if len(seen) == 5:
                stop.set()

        def wait(self, wait_s: float) -> None:
            """Do nothing instead of waiting: no keeper runs in this test."""

    monkeypatch.setattr("shardclock_server.cli.preparation.HOLD_POLL_S", 0.0)
    monkeypatch.setattr("shardclock_server.cli.run._stop_event", lambda: stop)
    monkeypatch.setattr("shardclock_server.cli.run.find_app", lambda *_, **__: App("orders", ".", (spec_of(),)))
    monkeypatch.setattr("shardclock_server.cluster.running.running_cluster", lambda *_, **__: nullcontext(Cluster()))

    # When the `up` of the other installation runs
    done = shell("up", "--app", "orders", "--shards", 5)

    # Then `up` writes nothing during the hold, everything at the release, and nothing after the release
    assert seen == [(2, ["cart.left"])] * 3 + [(5, ["order.expired"]), (7, ["order.expired"])]
    assert done.err.count(WORDS) == 1
    assert "app orders: 1 handler; cart.left (withdrawn), order.expired (added)" in done.err


async def give_to(identity: str, dsn: str) -> None:
    async with Session(dsn, application="test") as session:
        assert await release(session, identity)


def test_up_on_hold_continues_without_postgres(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shardclock_server.cli.preparation.HOLD_POLL_S", 0.0)
    preparation = Preparation(load_settings(), None)

    for _ in range(2):
        preparation.maintain(Dsn.of(DOWN))

    assert capsys.readouterr().err.count("are not written yet") == 1
