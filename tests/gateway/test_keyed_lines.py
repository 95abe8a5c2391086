"""Test that a line with an idempotency key is written once, even if it is sent again or through another route."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.factories import value
from tests.support.gateways import Api

HOUR = {"delay": "PT1H"}


async def sent(api: Api, *lines: dict[str, Any], **headers: str) -> list[dict[str, Any]]:
    """Send lines, and read their outcomes."""
    done = await api.post_lines(*lines, **headers)
    assert done.status == 200, done
    return done.lines


async def stored(dsn: str) -> int:
    """Count pending timers."""
    return int(await value(dsn, "select count(*) from shardclock.timers"))


def keyed(*numbers: int, **fields: object) -> list[dict[str, Any]]:
    """Make lines, each with its own idempotency key."""
    return [{**HOUR, "payload": n, "idempotency_key": f"k{n}", **fields} for n in numbers]


async def test_a_repeated_body_schedules_no_line_twice(dsn: str, api: Api) -> None:
    lines = keyed(*range(1_500))
    first, again = await sent(api, *lines), await sent(api, *lines)

    assert await stored(dsn) == 1_500
    assert {line["outcome"] for line in first} == {"created"}
    assert not any("replayed" in line for line in first)
    assert again == [{**line, "replayed": True} for line in first]


async def test_a_line_that_is_repeated_in_one_body_is_one_timer(dsn: str, api: Api) -> None:
    near, far = keyed(1, 2, 1), keyed(*range(10, 1_010), 10)

    outcomes = await sent(api, *near)
    assert [line["timer_key"] for line in outcomes][2] == outcomes[0]["timer_key"]
    assert [line.get("replayed") for line in outcomes] == [None, None, True]
    outcomes = await sent(api, *far)  # The gateway writes the lines in two transactions.
    assert outcomes[-1] == {**outcomes[0], "line": 1_001, "replayed": True}
    assert await stored(dsn) == 2 + 1_000


async def test_a_single_create_with_a_lines_key_is_the_same_request(dsn: str, api: Api) -> None:
    (line,) = await sent(api, {**HOUR, "name": "n", "idempotency_key": "k"})

    alone = await api.post("/v1/timers", {**HOUR, "name": "n"}, Idempotency_Key="k")

    assert (alone.status, alone.json["timer_key"]) == (201, line["timer_key"])
    assert alone.headers["Idempotency-Replayed"] == "true"


async def test_a_key_of_another_line_is_refused_and_other_lines_are_not(dsn: str, api: Api) -> None:
    await sent(api, *keyed(1))

    outcomes = await sent(api, *keyed(1, delay="PT2H"), *keyed(2), *keyed(2, delay="PT2H"), *keyed(3))

    assert [line["outcome"] for line in outcomes] == ["refused", "created", "refused", "created"]
    assert ["another" in line["why"] for line in (outcomes[0], outcomes[2])] == [True, True]
    assert await stored(dsn) == 3


async def test_each_line_of_concurrent_equal_bodies_is_one_timer(dsn: str, api: Api) -> None:
    done = await asyncio.gather(*(sent(api, *keyed(*range(50))) for _ in range(6)))

    assert await stored(dsn) == 50
    outcomes = {line["outcome"] for lines in done for line in lines}
    assert outcomes <= {"created", "untried"}, "one that is being answered may be sent again"
    assert {line["outcome"] for line in await sent(api, *keyed(*range(50)))} == {"created"}


async def test_a_line_with_an_invalid_key_is_refused(dsn: str, api: Api) -> None:
    for key in ("", "x" * 256, "café", 7, ["k"]):
        (line,) = await sent(api, {**HOUR, "idempotency_key": key})
        assert (line["outcome"], "idempotency_key" in line["why"]) == ("refused", True)
    assert await stored(dsn) == 0
