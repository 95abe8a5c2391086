"""Commands list, show, set and remove the limits of tenants, and a refused command sets nothing."""

from __future__ import annotations

import asyncio

from shardclock.api.refusals.tenants import NO_OWN_LIMITS, UNKNOWN_TENANT
from shardclock_server.sql.tenant_limits.tenant_limits import NO_LIMIT
from tests.support.cli_asserts import DONE, assert_code, assert_refused
from tests.support.factories import add_timers
from tests.support.program import Shell


def test_limits_are_set_one_by_one_and_listed(shell: Shell) -> None:
    assert (
        shell("tenants").err == "no tenant has its own limits; the limits in the gateways' settings apply to all"
        " tenants\n"
    )

    done = shell("tenants", "set", "acme", "--timers", 1_000, "--rate", 2.5)
    assert done.code == DONE
    assert done.out.splitlines()[0].startswith("tenant  timers  payload bytes  waiters")
    shell("tenants", "set", "acme", "--timers", "off", "--payload-bytes", 5_000, "--waiters", 2, "--endpoints", 0)

    shell("tenants", "set", "acme", "--instances", 7, "--tasks", "off", "--schedules", 3)
    for listed in (shell("tenants", "--json"), shell("tenants", "list", "--json")):
        (acme,) = listed.json["tenants"]
        assert (acme["tenant_id"], acme["limits"]) == (
            "acme",
            {
                "timers_max": None, "payload_bytes_max": 5_000, "waiters_max": 2, "endpoints_max": 0, "rate_per_s": 2.5,
                "instances_max": 7, "tasks_max": NO_LIMIT, "messages_max": None, "definitions_max": None,
                "schedules_max": 3,
            },
        )  # fmt: skip
    assert shell("tenants").out.splitlines()[1].split()[-7:-2] == ["no", "limit", "100,000", "10,000", "3"]
    assert shell("tenants").out.splitlines()[1].startswith("acme    no limit  5,000")
    assert shell("tenants", "set", "acme", "--rate", 4, "--json").json["limits"]["rate_per_s"] == 4.0


def test_a_tenants_usage_is_shown_together_with_its_limits(shell: Shell) -> None:
    assert_code(shell("tenants", "show", "acme", "--json"), UNKNOWN_TENANT)
    asyncio.run(add_timers(shell.dsn, 3, tenant_id="'acme'", payload="'[1]'"))

    shown = shell("tenants", "show", "acme")
    assert shown.err == "tenant 'acme' has no own limits: the limits in the gateways' settings apply\n"
    assert shown.out.splitlines()[2].split()[:3] == ["has", "3", "9"]
    shell("tenants", "set", "acme", "--timers", 5)
    assert shell("tenants", "show", "acme").out.splitlines()[1].split()[:3] == ["may", "have", "5"]
    found = shell("tenants", "show", "acme", "--json").json
    assert found["limits"]["timers_max"] == 5
    assert (found["used"], found["endpoints"]) == (
        {
            "timers": 3, "payload_bytes": 9, "estimated": False, "instances": 0, "tasks": 0, "messages": 0,
            "definitions": 0, "schedules": 0,
        },
        0,
    )  # fmt: skip


def test_the_removal_of_limits_removes_only_the_limits(shell: Shell) -> None:
    asyncio.run(add_timers(shell.dsn, 3, tenant_id="'acme'"))
    shell("tenants", "set", "acme", "--timers", 1)

    assert shell("tenants", "remove", "acme").err == "tenant 'acme' has the limits of the gateways' settings\n"
    assert_code(shell("tenants", "remove", "acme", "--json"), NO_OWN_LIMITS)
    assert shell("tenants", "--json").json["tenants"] == []
    assert shell("tenants", "show", "acme", "--json").json["used"]["timers"] == 3


def test_a_wrong_limit_is_refused_in_a_sentence_and_sets_nothing(shell: Shell) -> None:
    for wrong, sentence in (
        ([], "no limit is given: give at least one of --timers, --payload-bytes, --waiters, --endpoints, --rate"),
        (["--timers", "many"], "--timers 'many' is refused: give a number, or off for no limit"),
        (
            ["--timers", "-1"],
            "--timers -1 is refused: it must be a whole number from 0 to 9223372036854775807, or off for no limit",
        ),
        (["--rate", "0"], "--rate 0.0 is refused: it must be a number from 0.001 to 1,000,000"),
    ):
        assert_refused(shell("tenants", "set", "acme", *wrong), sentence)
    assert shell("tenants", "--json").json["tenants"] == []
