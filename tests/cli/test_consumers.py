"""The commands about consumer groups show their state, and change it only with --yes."""

from __future__ import annotations

import asyncio
from typing import Any

from shardclock.log.async_groups import open_group
from tests.support.cli_asserts import DONE, NOT_DONE, assert_refused
from tests.support.consumers import append, consume_once, member_session
from tests.support.program import Shell


def group(shell: Shell, name: str = "billing", *, done: int = 0, partitions: int = 1, keys: int = 5) -> None:
    """Open a group, append records to the log, and process some of these records in the group."""

    async def nothing(*_: object) -> None: ...

    async def make() -> None:
        await append(shell.dsn, *range(1, keys + 1))
        async with member_session(shell.dsn) as member:
            await open_group(member, name, partitions)
            if done:
                await consume_once(member, name, nothing, limit=done)

    asyncio.run(make())


def shown(shell: Shell) -> list[Any]:
    found = shell("consumers", "--json").json["groups"]
    assert isinstance(found, list)
    return found


def test_groups_are_listed_with_their_lag_and_their_idle_time(shell: Shell) -> None:
    group(shell, done=2)
    shell.sql("update shardclock.command_log set recorded_at = recorded_at - interval '2 h'")

    listed = shell("consumers")

    assert listed.code == DONE
    head, row = listed.out.splitlines()
    assert head.split("  ")[0] == "group"
    assert "billing" in row
    assert "3 records" in row
    assert "2 h" in row
    (found,) = shown(shell)
    assert (found["group_name"], found["lag_records"], found["partitions"]) == ("billing", 3, 1)
    assert 7_200 <= found["lag_s"] < 7_300
    assert 0 <= found["idle_s"] < 100


def test_the_list_shows_that_a_group_never_worked_or_fails(shell: Shell) -> None:
    assert "no consumer group" in shell("consumers").err
    group(shell)
    shell.sql("update shardclock.consumers set failures = 7, error = 'ValueError: no', failed_at = now()")

    out = shell("consumers").out

    assert "never at work" in out
    assert "ValueError: no" in out


def test_a_group_is_reset_only_with_yes(shell: Shell) -> None:
    group(shell, done=4)
    position = 4
    for to, place in (("start", 0), ("end", 5), ("3", 3), ("2001-01-01T00:00:00Z", 0)):
        asked = shell("consumers", "reset", "billing", "--to", to)
        assert (asked.code, shown(shell)[0]["position"]) == (NOT_DONE, position)
        assert f"behind position {place}, in 1 partition; nothing was changed; add --yes" in asked.err
        done = shell("consumers", "reset", "billing", "--to", to, "--yes", "--json")
        assert (done.code, done.json["done"]) == (DONE, True)
        assert (position := shown(shell)[0]["position"]) == place
    for wrong in ((), ("--to", "somewhere"), ("--to", "1" * 19)):
        assert_refused(shell("consumers", "reset", "billing", *wrong, "--yes"), "--to")
    for verb in (("reset", "nobody", "--to", "end", "--yes"), ("drop", "nobody", "--yes"), ("aside", "nobody")):
        assert_refused(shell("consumers", *verb), "nobody", "shardclock consumers", code=NOT_DONE)


def test_a_group_s_number_of_partitions_is_changed(shell: Shell) -> None:
    group(shell, done=5)
    group(shell, "behind", done=1, keys=3, partitions=2)

    assert shell("consumers", "reset", "billing", "--partitions", 3, "--yes").code == DONE
    assert_refused(
        shell("consumers", "reset", "behind", "--partitions", 3, "--yes"), "has not read record", code=NOT_DONE
    )
    assert {it["group_name"]: it["partitions"] for it in shown(shell)} == {"billing": 3, "behind": 2}


def test_a_group_is_dropped_only_with_yes(shell: Shell) -> None:
    group(shell)

    asked = shell("consumers", "drop", "billing")
    assert asked.code == NOT_DONE
    assert "billing, with 5 records to read and 0 set aside, would be deleted; nothing was changed" in asked.err
    assert shell("consumers", "drop", "billing", "--json").json == {"message": asked.err.strip(), "done": False}
    assert len(shown(shell)) == 1

    assert shell("consumers", "drop", "billing", "--yes").code == DONE
    assert shown(shell) == []


def test_records_set_aside_are_shown(shell: Shell) -> None:
    group(shell)
    assert "has no records set aside" in shell("consumers", "aside", "billing").err
    shell.sql(
        "insert into shardclock.records_aside (group_name, position, attempts, error, record)"
        " select 'billing', l.position, 3, 'no', to_jsonb(l) from shardclock.command_log l where l.timer_key = 2",
    )

    assert "TRIGGERED" in shell("consumers", "aside", "billing").out
    (found,) = shell("consumers", "aside", "billing", "--json").json["records"]
    assert (found["timer_key"], found["attempts"], found["error"]) == (2, 3, "no")
