"""The command doctor names each fault of an installation with its remedy."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from shardclock_server.cli import doctor
from shardclock_server.cluster.settings import Settings
from shardclock_server.sql.cluster.leadership import lead
from shardclock_server.sql.session import Session
from tests.support.cli_asserts import DONE, DOWN, NOT_DONE, WRONG_SCHEMA
from tests.support.deliveries import HANDLER, declare
from tests.support.factories import BOUND_S, add_holder, add_timers, query, sql
from tests.support.program import Done, Shell, run
from tests.support.tls import Authority, tls_before

# Tests turn fsync off, which doctor reports.
UNSAFE = {"durability"}


def findings(done: Done) -> dict[str, dict[str, Any]]:
    """Return the findings by their checks."""
    return {it["check"]: it for it in done.json["findings"]}


async def serve(dsn: str, *, shards: int = 1, of: int = 1) -> None:
    """Make a leader, set the wanted number of shards to `of`, and register `shards` shards."""
    await query(dsn, "update shardclock.scale set wanted = $1 where role = 'shard'", of)
    for part in range(shards):
        await add_holder(dsn, part + 1, part, of)
    async with Session(dsn, application="test") as session:
        assert (await lead(session, 1, cluster_id="test", lease_s=BOUND_S, fresh=True)).leads


def bad(done: Done) -> set[str]:
    """Return the checks that found a fault or a reason for a warning."""
    return {name for name, it in findings(done).items() if it["level"] in ("warning", "fault")} - UNSAFE


def test_a_served_database_has_no_finding(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(serve(dsn))

    done = Shell(dsn, capsys)("doctor", "--json", SHARDCLOCK_LOCAL="true")

    assert bad(done) == set(), done.out
    assert {"packages", "ray", "postgres", "connections", "vacuum", "clock", "schema", "rights", "hold", "shards",
            "leader", "workers", "engines", "lag", "ramp", "keys", "quotas"} <= findings(done).keys()  # fmt: skip
    assert findings(done)["shards"]["text"] == "1 shard serves all slots"


def test_without_a_shard_doctor_reports_that_no_timer_fires_and_the_command_fails(
    dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = Shell(dsn, capsys)("doctor", "--json", SHARDCLOCK_LOCAL="true")

    assert (done.code, bad(done)) == (NOT_DONE, {"shards", "leader"})
    assert "`shardclock up`" in findings(done)["shards"]["text"]


def test_slots_without_a_shard_are_a_fault(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(serve(dsn, shards=2, of=3))

    done = Shell(dsn, capsys)("doctor", "--json", SHARDCLOCK_LOCAL="true")

    assert (done.code, bad(done)) == (NOT_DONE, {"shards"})
    assert findings(done)["shards"]["text"] == (
        "2 shards serve 560 of 840 slots, so timers of the other slots fire about 3 s late: see `shardclock status`,"
        " and the log of `shardclock up`"
    )


@pytest.mark.parametrize(
    ("state", "check", "text"),
    [
        (
            "update shardclock.scale set wanted = 3 where role = 'shard'",
            "shards",
            "1 shard serves all slots, and 3 are wanted: see the log of `shardclock up`, or `shardclock scale 1`",
        ),
        (
            "update shardclock.leadership set lease_until = now()",
            "leader",
            "no coordinator leads, so a lost shard is not replaced: start one with `shardclock up`",
        ),
        (
            "update shardclock.coordination set ramp_per_s = 0",
            "ramp",
            "a ramp of 0 holds back all timers that an outage left: `shardclock ramp default` fires them",
        ),
        (
            "update shardclock.scale set wanted = 2 where role = 'worker'",
            "workers",
            "no worker is running, and 2 are wanted: start a cluster with `shardclock up`, or see its log",
        ),
    ],
)
def test_a_state_of_the_cluster_is_reported_with_a_command(
    state: str, check: str, text: str, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def given() -> None:
        await serve(dsn)
        if check == "workers":
            await declare(dsn, HANDLER)
        await query(dsn, state)

    asyncio.run(given())

    done = Shell(dsn, capsys)("doctor", "--json", SHARDCLOCK_LOCAL="true")

    assert bad(done) == {check}
    assert findings(done)[check]["text"] == text


def test_a_silent_shard_is_reported(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def given() -> None:
        await serve(dsn)
        await add_holder(dsn, 2, None, None)
        await query(dsn, "update shardclock.beats set seen_at = now() - interval '1 hour' where holder = 2")

    asyncio.run(given())

    done = Shell(dsn, capsys)("doctor", "--json", SHARDCLOCK_LOCAL="true")

    assert bad(done) == {"shards"}
    assert findings(done)["shards"]["text"] == (
        "1 shard serves all slots, and 1 shard gave no sign of life: see `shardclock status`, and the log of its node"
    )


@pytest.mark.parametrize(("age", "level"), [("2 s", "warning"), ("1 min", "fault")])
def test_an_overdue_timer_is_reported(age: str, level: str, dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def given() -> None:
        await serve(dsn)
        await add_timers(dsn, 1, f"now() - interval '{age}'")

    asyncio.run(given())

    done = Shell(dsn, capsys)("doctor", "--json", SHARDCLOCK_LOCAL="true")

    assert (bad(done), findings(done)["lag"]["level"]) == ({"lag"}, level)
    assert "`shardclock explain KEY`" in findings(done)["lag"]["text"]


@pytest.mark.parametrize(
    ("state", "way_out"),
    [
        (
            "update shardclock.identity set held_why = 'a move'",
            "the database is on hold, and `shardclock release --yes` ends the hold",
        ),
        (
            "update shardclock.coordination set ramp_per_s = 0",
            "a ramp of 0 delays the timer, and `shardclock ramp default` lets it fire",
        ),
    ],
)
def test_an_overdue_timer_that_an_operator_holds_back_is_no_fault(
    state: str, way_out: str, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def given() -> None:
        await serve(dsn)
        await add_timers(dsn, 1, "now() - interval '1 hour'")
        await query(dsn, state)

    asyncio.run(given())

    found = findings(Shell(dsn, capsys)("doctor", "--json"))["lag"]

    assert (found["level"], found["text"].endswith(way_out)) == ("warning", True), found["text"]


def test_settings_that_may_lose_commits_are_a_fault(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(Shell(dsn, capsys)("doctor", "--json"))["durability"]

    assert found["level"] == "fault"
    assert found["text"].startswith("fsync, full_page_writes are off")


def test_an_edited_schema_is_a_fault_and_ends_the_checks(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    sql(dsn, "delete from shardclock.functions where name = 'origin'")

    done = Shell(dsn, capsys)("doctor", "--json")

    assert "shardclock migrate" in findings(done)["schema"]["text"]
    assert "shards" not in findings(done)


def test_a_dropped_table_is_a_fault_and_no_migration_accepts_the_rest(
    dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sql(dsn, "drop table shardclock.dead_letters, shardclock.endpoint_attempts")
    sentence = (
        "the schema shardclock has lost the table dead_letters and 2 more objects, and no migration brings back the"
        " rows: restore the database from a backup"
    )

    found = findings(Shell(dsn, capsys)("doctor", "--json"))
    migrated = Shell(dsn, capsys)("migrate")

    assert (found["schema"]["level"], found["schema"]["text"]) == ("fault", sentence)
    assert (migrated.code, migrated.err.strip()) == (WRONG_SCHEMA, f"shardclock: {sentence}")


@pytest.mark.parametrize(
    ("statement", "check"),
    [
        ("update shardclock.identity set held_why = 'a move'", "hold"),
        ("insert into shardclock.tenants (tenant_id, timers_max) values ('full', 1)", "quotas"),
    ],
)
def test_a_state_of_the_database_is_reported(
    statement: str, check: str, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(serve(dsn))
    sql(dsn, statement)
    sql(dsn, "select shardclock.schedule_timer(delay => 'P1D', tenant_id => 'full')")

    done = Shell(dsn, capsys)("doctor", "--json", SHARDCLOCK_LOCAL="true")

    assert bad(done) == {check}


def test_the_row_of_the_quotas_reports_the_omitted_tenants(
    dsn: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(dsn, "insert into shardclock.tenants (tenant_id, timers_max) values ('a', 10), ('b', 10)")
    monkeypatch.setattr("shardclock_server.service.doctor.TENANTS_MAX", 1)

    found = findings(Shell(dsn, capsys)("doctor", "--json"))["quotas"]

    assert found["text"].endswith(
        "only the first tenant by name was checked; `shardclock tenants show TENANT` checks one"
    )


def test_a_postgres_that_does_not_answer_is_one_fault(capsys: pytest.CaptureFixture[str]) -> None:
    done = Shell(DOWN, capsys)("doctor", "--json", SHARDCLOCK_LOCAL="true")

    assert (done.code, bad(done)) == (NOT_DONE, {"postgres"})


def test_a_directory_without_a_database_is_unchanged(tmp_path: Path) -> None:
    place = tmp_path / "none"
    done = run("doctor", "--json", environment={"SHARDCLOCK_DATA_DIR": str(place), "SHARDCLOCK_LOCAL": "true"})

    assert (done.code, bad(done), place.exists()) == (DONE, {"postgres"}, False)


def test_a_full_disk_is_a_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "FREE_BYTES", 1 << 62)

    assert "Postgres stops on a full disk" in doctor._disk(tmp_path).text


@pytest.mark.parametrize(
    ("address", "level", "text"),
    [
        (None, "ok", "Ray is not installed, so `shardclock up` runs local processes"),
        ("127.0.0.1:1", "fault", "SHARDCLOCK_RAY_ADDRESS names a Ray cluster, and Ray is not installed"),
    ],
)
def test_a_missing_ray_cluster_is_a_fault_only_if_the_settings_name_a_ray_cluster(
    monkeypatch: pytest.MonkeyPatch, address: str | None, level: str, text: str
) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda _: None)

    found = doctor._ray(Settings(ray_address=address))

    assert (found.level, found.text.startswith(text)) == (level, True)


def test_a_ray_cluster_that_does_not_answer_is_a_fault(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = Shell(dsn, capsys)("doctor", "--json", SHARDCLOCK_RAY_ADDRESS="127.0.0.1:1")

    assert "SHARDCLOCK_RAY_ADDRESS" in findings(done)["ray"]["text"]


def test_the_certificate_is_checked_with_the_authority_of_the_dsn_or_of_the_environment(
    dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    default = ssl.create_default_context

    def strict(**options: Any) -> ssl.SSLContext:
        """Make a default TLS context as Python 3.13 and later versions make it."""
        context = default(**options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    authority, other = Authority(tmp_path / "authority"), Authority(tmp_path / "other")
    with tls_before(dsn, authority.certify("localhost")) as port:
        plain = f"postgresql://postgres@localhost:{port}/none"

        def found(dsn: str, **environment: Any) -> dict[str, Any]:
            return findings(Shell(dsn, capsys)("doctor", "--json", **environment))["certificate"]

        secured = f"{plain}?sslmode=verify-full&sslrootcert={authority.ca}"
        soon, wrong = found(secured), found(secured.replace(str(authority.ca), str(other.ca)))
        # The Kubernetes manifests have the same settings.
        of_environment = found(plain, PGSSLMODE="verify-full", PGSSLROOTCERT=str(authority.ca))
        without = found(plain, PGSSLROOTCERT="")
        monkeypatch.setattr(ssl, "create_default_context", strict)
        accepted_by_the_driver = found(secured)
        monkeypatch.setattr(doctor, "CERTIFICATE_DAYS", 0)
        late = found(secured)
    levels = [it["level"] for it in (soon, wrong, of_environment, without, accepted_by_the_driver, late)]
    assert levels == ["warning", "fault", "warning", "unknown", "warning", "ok"]
    assert of_environment["text"].startswith("the certificate of localhost")
    assert "set sslmode=verify-full" in without["text"]


def test_the_disk_and_the_certificate_have_a_row_if_they_cannot_be_checked(
    dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = findings(Shell(dsn, capsys)("doctor", "--json"))

    assert (found["disk"]["level"], found["certificate"]["level"]) == ("unknown", "unknown")
    assert "run `df` on the machine of Postgres" in found["disk"]["text"]
