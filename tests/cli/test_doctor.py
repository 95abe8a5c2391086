"""The command doctor names each fault of an installation with its way out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shardclock_server.cli import doctor
from tests.support.cli_asserts import DONE, DOWN, NOT_DONE
from tests.support.factories import add_holder, query
from tests.support.program import Done, Shell, run
from tests.support.tls import Authority, tls_before

# Tests turn fsync off, which doctor reports.
UNSAFE = {"durability"}


def findings(done: Done) -> dict[str, dict[str, Any]]:
    """Return the findings by their checks."""
    return {it["check"]: it for it in done.json["findings"]}


def bad(done: Done) -> set[str]:
    """Return the checks that found a fault or a reason for a warning."""
    return {name for name, it in findings(done).items() if it["level"] in ("warning", "fault")} - UNSAFE


def test_a_served_database_has_no_finding(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(add_holder(dsn, 1))

    done = Shell(dsn, capsys)("doctor", "--json", SHARDCLOCK_LOCAL="true")

    assert bad(done) == set(), done.out
    assert {"packages", "ray", "postgres", "connections", "vacuum", "clock", "schema", "rights", "hold", "cluster",
            "keys", "quotas"} <= findings(done).keys()  # fmt: skip


def test_without_a_shard_nothing_fires_and_the_command_fails(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = Shell(dsn, capsys)("doctor", "--json", SHARDCLOCK_LOCAL="true")

    assert (done.code, bad(done)) == (NOT_DONE, {"cluster"})
    assert "`shardclock up`" in findings(done)["cluster"]["text"]


def test_settings_that_may_lose_commits_are_a_fault(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = findings(Shell(dsn, capsys)("doctor", "--json"))["durability"]

    assert found["level"] == "fault"
    assert found["text"].startswith("fsync, full_page_writes are off")


def test_an_edited_schema_is_a_fault_and_ends_the_checks(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(query(dsn, "delete from shardclock.functions where name = 'origin'"))

    done = Shell(dsn, capsys)("doctor", "--json")

    assert "shardclock migrate" in findings(done)["schema"]["text"]
    assert "cluster" not in findings(done)


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
    asyncio.run(add_holder(dsn, 1))
    asyncio.run(query(dsn, statement))
    asyncio.run(query(dsn, "select shardclock.schedule_timer(delay => 'P1D', tenant_id => 'full')"))

    done = Shell(dsn, capsys)("doctor", "--json", SHARDCLOCK_LOCAL="true")

    assert bad(done) == {check}


def test_a_postgres_that_does_not_answer_is_one_fault(capsys: pytest.CaptureFixture[str]) -> None:
    done = Shell(DOWN, capsys)("doctor", "--json", SHARDCLOCK_LOCAL="true")

    assert (done.code, bad(done)) == (NOT_DONE, {"postgres"})


def test_a_directory_without_a_database_is_left_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "none"
    done = run("doctor", "--json", environment={"SHARDCLOCK_DATA_DIR": str(place), "SHARDCLOCK_LOCAL": "true"})

    assert (done.code, bad(done), place.exists()) == (DONE, {"postgres"}, False)


def test_a_full_disk_is_a_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "FREE_BYTES", 1 << 62)

    assert "Postgres stops without space" in doctor._disk(tmp_path).text


def test_a_ray_that_does_not_answer_is_a_fault(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = Shell(dsn, capsys)("doctor", "--json", SHARDCLOCK_RAY_ADDRESS="127.0.0.1:1")

    assert "SHARDCLOCK_RAY_ADDRESS" in findings(done)["ray"]["text"]


def test_the_end_of_a_certificate_is_told(
    dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path / "authority")
    with tls_before(dsn, authority.certify("localhost")) as port:
        secured = f"postgresql://postgres@localhost:{port}/none?sslmode=verify-full&sslrootcert={authority.ca}"
        soon = findings(Shell(secured, capsys)("doctor", "--json"))["certificate"]
        other = Authority(tmp_path / "other")
        wrong = findings(Shell(secured.replace(str(authority.ca), str(other.ca)), capsys)("doctor", "--json"))
        monkeypatch.setattr(doctor, "CERTIFICATE_DAYS", 0)
        late = findings(Shell(secured, capsys)("doctor", "--json"))["certificate"]

    assert (soon["level"], wrong["certificate"]["level"], late["level"]) == ("warning", "fault", "ok")
