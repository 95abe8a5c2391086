"""The list of schedules shows when each fired last, how late, and how many occurrences were skipped."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.cli_asserts import DONE, assert_refused
from tests.support.factories import HolderClient, add_holder, add_schedule
from tests.support.program import Shell


@pytest.fixture
def fired(shell: Shell) -> None:
    """Fire an hourly schedule eight hours late, so that it misses seven occurrences."""

    async def fire() -> None:
        past = {"anchor": "now() - interval '9 hours'"}
        await add_schedule(shell.dsn, "R/PT1H", "now() - interval '8 hours'", name="'hourly'", **past)
        await add_holder(shell.dsn, 1)
        async with HolderClient(shell.dsn, holder=1) as shard:
            await shard.fire((await shard.take(scope="sweep")).claimed)

    asyncio.run(fire())


@pytest.mark.usefixtures("fired")
def test_schedules_are_listed_and_shown_with_their_firings(shell: Shell) -> None:
    shell("schedule", "--every", "P1D", "--name", "daily")
    shell("schedule", "--in", "PT1H", "--name", "plain")

    listed, shown = shell("schedules", "--json"), shell("schedules", "show", "hourly", "--json")

    assert [it["name"] for it in listed.json["schedules"]] == ["hourly", "daily"]
    assert listed.json["schedules"][0] == shown.json
    assert shown.json["last"]["late_s"] > 8 * 3_600
    assert shown.json["skipped"] >= 7
    assert "8 h" in shell("schedules", "list").out
    assert "SKIPPED" in shell("schedules", "show", "hourly").out
    assert "repeat the command with --page" in shell("schedules", "-n", 1).err


def test_a_plain_timer_is_not_a_schedule(shell: Shell) -> None:
    shell("schedule", "--in", "PT1H", "--name", "plain")

    assert_refused(shell("schedules", "show", "plain"), "there is no timer 'plain'", code=1)
    assert_refused(shell("schedules", "--state", "ended"), "--state 'ended' is unknown: use pending or paused")
    assert shell("schedules").err.strip() == "there are no schedules"
    assert shell("schedules").code == DONE
