"""`scale` and `forecast` show the present state, change the state on request, and refuse invalid values."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from tests.support.cli_asserts import DONE, NOT_DONE, assert_refused, recorded_outcomes
from tests.support.factories import add_holder, add_timers
from tests.support.program import Done, Shell

BAR = 40


def state(shell: Shell) -> tuple[Any, ...]:
    """Read the wanted number and the policy."""
    text = "select wanted, wanted_min, wanted_max, target_per_s from shardclock.scale where role = 'shard'"
    return tuple(shell.sql(text)[0])


def start(shell: Shell, shards: int) -> None:
    """Add serving shards."""
    for shard in range(shards):
        asyncio.run(add_holder(shell.dsn, 10 + shard, shard, shards))


def test_an_invalid_command_is_refused_in_one_line_and_changes_nothing(shell: Shell) -> None:
    for words, said in (
        ("841", ["841 shards", "1 to 840"]),
        ("many", ["'many'"]),
        ("jobs=4", ["jobs=4", "the role 'jobs', which does not exist", "shards=4"]),
        ("2 3", ["3"]),
        ("2 --min 1 --max 4 --target 100", ["give either a number of shards"]),
        ("--min 4 --max 2", ["at least 4 and at most 2", "swap"]),
        ("--min 0 --max 2", ["--min 0 shards", "1 to 840"]),
        ("--max 2", ["both bounds", "--min"]),
        ("--target 1000001", ["--target 1000001", "1 to 1000000"]),
        ("3 --wait -1", ["--wait", "-1"]),
    ):
        assert_refused(shell("scale", *words.split()), *said)
    assert state(shell) == (2, None, None, 5_000)


def test_a_number_is_set_and_shown(shell: Shell) -> None:
    assert shell("scale", 7, "--json").json == {
        "before": 2, "wanted": 7, "serving": 0, "min": None, "max": None, "target_per_s": 5_000,
    }  # fmt: skip
    assert state(shell) == (7, None, None, 5_000)

    people = shell("scale", 840)
    assert people.code == DONE
    assert people.out.split()[-8:-2] == ["7", "840", "0", "an", "operator", "5,000"]


def test_scale_without_arguments_shows_and_changes_nothing(shell: Shell) -> None:
    start(shell, 2)

    assert shell("scale", "--json").json == {
        "before": 2, "wanted": 2, "serving": 2, "min": None, "max": None, "target_per_s": 5_000,
    }  # fmt: skip
    assert ("the default" in shell("scale").out, "an operator" in shell("scale").out) == (True, False)
    assert state(shell) == (2, None, None, 5_000)


def test_a_policy_is_set_shown_changed_and_ended(shell: Shell) -> None:
    done = shell("scale", "--min", 3, "--max", 9, "--target", 700, "--json")
    assert done.json == {"before": 2, "wanted": 3, "serving": 0, "min": 3, "max": 9, "target_per_s": 700}
    assert "the forecast, 3 to 9" in shell("scale").out

    shell("scale", "--max", 20)
    assert state(shell) == (3, 3, 20, 700)
    shell("scale", "--target", 900)
    assert state(shell) == (3, 3, 20, 900)

    done = shell("scale", 5, "--json")
    assert done.json == {"before": 3, "wanted": 5, "serving": 0, "min": None, "max": None, "target_per_s": 900}


def test_scale_waits_for_the_wanted_number_and_fails_if_it_is_not_reached(shell: Shell) -> None:
    start(shell, 2)

    assert shell("scale", 2, "--wait", 5).code == DONE
    assert shell("scale", 3, "--wait", "0.05").code == NOT_DONE
    assert shell("scale", 3).code == DONE, "the command does not wait by default"
    assert recorded_outcomes(shell) == ["done"] * 3


# forecast


def test_a_forecast_is_printed_as_json_for_programs(shell: Shell) -> None:
    start(shell, 2)
    asyncio.run(add_timers(shell.dsn, 600, "now() + interval '90 s'"))
    asyncio.run(add_timers(shell.dsn, 7, "now() - interval '90 s'"))
    asyncio.run(add_timers(shell.dsn, 5, "now() + interval '20 minutes'"))

    assert shell("forecast", "--json").json == {
        "timers_per_minute": [0, 600, *[0] * 13],
        "peak_per_s": 60.0,
        "estimated": False,
        "capacity_per_s": 10_000,
        "shards_wanted": 2,
        "shards_min": None,
        "shards_max": None,
        "target_per_s": 5_000,
        "shards_alive": 2,
        "log_records": 0,
    }


def bars(done: Done) -> list[tuple[str, str]]:
    """Return each minute's bar with its mark, and the text beside it."""
    assert done.code == DONE, done
    rows = [re.fullmatch(rf" *\+(\d+) min (.{{{BAR + 1}}}) (.*)", line) for line in done.out.splitlines()]
    assert [int(row[1]) for row in rows if row] == list(range(1, 16)), done.out
    return [(row[2], row[3]) for row in rows if row]


def test_a_forecast_without_a_shard_shows_the_mark_at_zero(shell: Shell) -> None:
    assert bars(shell("forecast")) == [("│" + " " * BAR, "0")] * 15

    asyncio.run(add_timers(shell.dsn, 600, "now() + interval '90 s'"))
    drawn = bars(shell("forecast"))

    assert drawn[0] == ("│" + " " * BAR, "0")
    assert drawn[1] == ("┃" + "█" * (BAR - 1) + " ", "600")


def test_a_forecast_over_the_capacity_shows_the_mark_inside_the_bar(shell: Shell) -> None:
    start(shell, 1)
    shell("scale", "--min", 1, "--max", 8, "--target", 5)
    asyncio.run(add_timers(shell.dsn, 1_200, "now() + interval '90 s'"))
    asyncio.run(add_timers(shell.dsn, 300, "now() + interval '150 s'"))
    asyncio.run(add_timers(shell.dsn, 1, "now() + interval '210 s'"))

    done = shell("forecast")

    drawn = bars(done)
    assert drawn[1] == ("█" * 10 + "┃" + "█" * 29 + " ", "1,200")
    assert drawn[2] == ("█" * 10 + "│" + " " * 30, "300"), "as many as it can fire"
    assert drawn[3] == ("█" + " " * 9 + "│" + " " * 30, "1"), "the least is seen"
    assert drawn[4] == (" " * 10 + "│" + " " * 30, "0")
    assert "the forecast may ask for 1 to 8" in done.err
    assert "the busiest ten seconds: 120 a second" in done.err


def test_a_refused_number_is_shown_without_the_pattern_of_the_argument(shell: Shell) -> None:
    for given, said in (("abc", "'abc' is not a number of shards"), ("xs=4", "'xs=4' has the role 'xs'")):
        refused = shell("scale", given)
        assert_refused(refused)
        assert refused.err.startswith(f"shardclock: {said}"), refused.err
