"""Deliveries are listed, shown, retried and cancelled, and each answer is true."""

from __future__ import annotations

import asyncio
import json
import shlex
from typing import Any

import pytest

from shardclock.api.refusals.deliveries import DELIVERY_CLAIMED, UNKNOWN_DELIVERY
from tests.support.cli_asserts import DONE, NOT_DONE, assert_code, assert_refused
from tests.support.deliveries import HANDLER, add_deliveries, deliver, deliveries, failed, serving_worker
from tests.support.factories import HolderClient, add_holder
from tests.support.program import Shell

OTHER = "cart.left"
LONG = "it raised " + 100 * "x"


@pytest.fixture
def keys(shell: Shell) -> list[int]:
    """Make three deliveries: a delayed delivery, a claimed delivery, and a due delivery of another tenant."""

    async def make() -> list[int]:
        dsn = shell.dsn
        await add_holder(dsn, 1)
        async with HolderClient(dsn, holder=1) as shard, serving_worker(dsn, targets=(HANDLER, OTHER)) as worker:
            failing = await deliver(shard)
            await worker.settle(*[failed(it, reason=LONG) for it in await worker.take()])
            in_hand = await deliver(shard)
            await worker.take()
            return [*failing, *in_hand, *await deliver(shard, target=OTHER, tenant_id="'acme'", name="'cart'")]

    return asyncio.run(make())


def waiting(shell: Shell) -> dict[int, dict[str, Any]]:
    """Read the deliveries that have not ended, by timer."""
    return {row["timer_key"]: row for row in asyncio.run(deliveries(shell.dsn))}


def listed(shell: Shell, *options: object) -> list[int]:
    """Return the keys of listed deliveries."""
    return [it["timer_key"] for it in shell("deliveries", *options, "--json").json["deliveries"]]


def test_deliveries_are_listed_by_target_with_state_attempts_and_last_error(shell: Shell, keys: list[int]) -> None:
    failing, in_hand, due = keys

    found = {it["timer_key"]: it for it in shell("deliveries", "--json").json["deliveries"]}
    table = shell("deliveries").out.splitlines()

    assert list(found) == [due, in_hand, failing]
    assert [(it["state"], it["failed_attempts"], it["last_error"]) for it in found.values()] == [
        ("WAITING", 0, None), ("IN_HAND", 0, None), ("WAITING", 1, LONG),
    ]  # fmt: skip
    assert (found[in_hand]["holder"], found[due]["name"], found[due]["tenant_id"]) == (f"{11:016x}", "cart", "acme")
    assert table[0].split() == [
        "timer_key", "target", "tenant", "name", "state", "attempts", "next", "attempt", "last", "error",
    ]  # fmt: skip
    assert [("claimed" in line, "it raised" in line) for line in table[1:]] == [
        (False, False), (True, False), (False, True),
    ]  # fmt: skip
    assert LONG not in table[3], "a list shows how an error begins"


def test_deliveries_are_filtered_by_target_tenant_and_failing(shell: Shell, keys: list[int]) -> None:
    failing, in_hand, due = keys

    assert listed(shell, "--target", HANDLER) == [in_hand, failing]
    assert listed(shell, "--tenant", "acme") == [due]
    assert listed(shell, "--failing") == [failing]
    assert shell("deliveries", "--target", OTHER, "--failing").err == "there are no such deliveries\n"


def test_a_group_of_failing_deliveries_is_selected_by_the_line_of_its_reason(shell: Shell, keys: list[int]) -> None:
    assert listed(shell, "--reason-line", LONG) == [keys[0]]
    assert shell("deliveries", "--reason-line", "it raised").err == "there are no such deliveries\n"

    would = shell("deliveries", "retry", "--all", "--reason-line", "it raised")
    assert (would.code, would.err) == (NOT_DONE, "no such delivery waits for its next attempt\n")
    done = shell("deliveries", "retry", "--all", "--reason-line", LONG, "--yes", "--json")
    assert done.json["timer_keys"] == [keys[0]]


def test_a_page_names_the_option_for_the_next_page(shell: Shell) -> None:
    asyncio.run(add_deliveries(shell.dsn, 3, "it's one", tenant_id="'a \"b\"'"))

    first = shell("deliveries", "-n", 2)
    option, token = shlex.split(first.err.partition("the command with ")[2])

    assert [line.split()[0] for line in first.out.splitlines()[1:]] == ["1", "2"]
    assert listed(shell, "-n", 2, option, token) == [3]
    assert shell("deliveries", "-n", 2, option, token, "--json").json["next_page"] is None
    assert_refused(shell("deliveries", "--page", "nonsense"), "--page 'nonsense' is not from a list")


def test_a_delivery_is_shown_with_its_failures_and_records(shell: Shell, keys: list[int]) -> None:
    shown, as_json = shell("deliveries", "show", keys[0]), shell("deliveries", "show", keys[0], "--json").json

    assert shown.code == DONE
    assert LONG in shown.out
    assert "failed attempts" in shown.out
    assert (as_json["delivery"]["state"], as_json["delivery"]["failures"][0]["reason"]) == ("WAITING", LONG)
    assert [it["intent"] for it in as_json["records"]] == ["TRIGGERED"]
    assert_code(shell("deliveries", "show", max(keys) + 1, "--json"), UNKNOWN_DELIVERY)


def test_a_service_task_is_shown_with_the_program_that_holds_it(shell: Shell) -> None:
    until = {"claimed_by": "0", "claimed_until": "'2100-01-01T00:00:00Z'", "claims": "1", "worker": "'packer-3'"}
    asyncio.run(add_deliveries(shell.dsn, 1, timer_type="'SERVICE_TASK'", **until))
    shown, as_json = shell("deliveries", "show", 1), shell("deliveries", "show", 1, "--json").json["delivery"]
    assert "program packer-3 has it until 2100-01-01 00:00:00.000Z" in shown.out
    assert "0000000000000000" not in shown.out
    assert (as_json["holder"], as_json["worker"]) == (None, "packer-3")


def test_one_delivery_is_retried_and_cancelled(shell: Shell, keys: list[int]) -> None:
    failing, in_hand, _ = keys

    assert shell("deliveries", "retry", failing).err == f"the next attempt of timer {failing}'s delivery is due now\n"
    assert shell("deliveries", "retry", failing, "--json").json == {"state": "DUE"}
    for verb in ("retry", "cancel"):
        assert_code(shell("deliveries", verb, in_hand, "--json"), DELIVERY_CLAIMED, state="IN_HAND")
    done = shell("deliveries", "cancel", failing, "--reason", "refunded by hand")
    assert (done.code, done.err) == (DONE, f"the delivery of timer {failing} is DISCARDED\n")
    ((detail,),) = shell.sql("select detail from shardclock.command_log where intent = 'DISCARDED'")
    assert json.loads(detail) == {"by": "test_shard", "reason": "refunded by hand"}


def test_the_delayed_deliveries_of_a_target_are_retried_with_yes(shell: Shell, keys: list[int]) -> None:
    failing, _, _ = keys
    before = waiting(shell)

    would = shell("deliveries", "retry", "--target", HANDLER)
    assert (would.code, waiting(shell)) == (NOT_DONE, before)
    assert would.err == "1 delivery would be due now; nothing was changed; add --yes to do it\n"

    done = shell("deliveries", "retry", "--target", HANDLER, "--yes", "--json")
    assert (done.code, done.json) == (
        DONE,
        {
            "timer_keys": [failing],
            "message": "1 delivery is due now",
            "done": True,
            "more": False,
            "again_in_s": 0,
        },
    )


def test_an_invalid_command_is_refused_in_one_line(shell: Shell) -> None:
    for words, said in (
        ("retry", "choose either one delivery"),
        ("retry 7 --target x", "choose either one delivery"),
        ("retry --failing", "choose either one delivery"),
        ("retry 7 --tenant acme", "--tenant, --failing and --reason-line go with --target or --all"),
        ("retry 7 --reason-line x", "--tenant, --failing and --reason-line go with --target or --all"),
        ("cancel nothing", "'nothing'"),
        ("--limit 0", "--limit"),
    ):
        assert_refused(shell("deliveries", *words.split()), said)
