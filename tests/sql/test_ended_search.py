"""Prove that a search for ended timers reads the log of all tenants backwards in steps, and finds each timer once."""

from __future__ import annotations

from itertools import pairwise

import pytest

from shardclock_server.sql.clients import search
from shardclock_server.sql.clients.search import PageLimits, TimerFilter, find_timers
from shardclock_server.sql.session import Session
from tests.support.factories import add_timers, query
from tests.support.sql_client import session

QUIET, BUSY = TimerFilter(tenant_id="quiet"), TimerFilter(tenant_id="busy")
ENDED = "ENDED"


async def end(dsn: str, tenant: str, count: int) -> list[int]:
    """End a tenant's timers, one record after the other; return their keys, newest first."""
    keys = await add_timers(dsn, count, "now() + interval '1 hour'", tenant_id=f"'{tenant}'")
    await query(dsn, "select shardclock.cancel_timers($1)", keys)
    return keys[::-1]


async def pages_of(client: Session, wanted: TimerFilter, *, size: int) -> list[list[int]]:
    pages: list[list[int]] = []
    after: list[str | None] = [None]
    while len(after) == 1 or after[-1] is not None:
        page = await find_timers(client, ENDED, wanted, size=size, page=after[-1], limits=PageLimits(within_s=0.0))
        pages.append([timer.timer_key for timer in page.timers])
        after.append(page.next)
    places = [int(it) for it in after if it is not None]
    assert all(next_ < one for one, next_ in pairwise(places)), "each page leads further back"
    return pages


@pytest.fixture
async def quiet(dsn: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the ended timers of a quiet tenant, newest first, among many other records; a step reads ten records."""
    monkeypatch.setattr(search, "STEP_LEAST", 10)
    monkeypatch.setattr(search, "STEP_MOST", 10)
    first = await end(dsn, "quiet", 3)
    await end(dsn, "busy", 95)
    middle = await end(dsn, "quiet", 1)
    await end(dsn, "busy", 50)
    return [*middle, *first]


@pytest.mark.parametrize("size", [1, 2, 100])
async def test_pages_that_end_early_together_have_all_timers(dsn: str, quiet: list[int], size: int) -> None:
    async with session(dsn) as client:
        pages = await pages_of(client, QUIET, size=size)

    assert [key for page in pages for key in page] == quiet
    assert [] in pages, "a page may be empty and yet not the last one"
    assert max(map(len, pages)) <= size


async def test_without_a_time_limit_one_page_has_all(dsn: str, quiet: list[int]) -> None:
    async with session(dsn) as client:
        page = await find_timers(client, ENDED, QUIET)
        of_unknown = await find_timers(client, ENDED, TimerFilter(tenant_id="nobody"))

    assert [timer.timer_key for timer in page.timers] == quiet
    assert (page.next, of_unknown.timers, of_unknown.next) == (None, [], None)


async def test_a_page_is_full_with_any_time_limit_if_one_step_finds_enough(dsn: str, quiet: list[int]) -> None:
    async with session(dsn) as client:
        page = await find_timers(client, ENDED, BUSY, size=7, limits=PageLimits(within_s=0.0))

    assert len(page.timers) == 7


async def test_timers_that_end_during_a_search_are_on_no_later_page(dsn: str, quiet: list[int]) -> None:
    async with session(dsn) as client:
        first = await find_timers(client, ENDED, QUIET, size=1)
        await end(dsn, "quiet", 2)
        rest = await find_timers(client, ENDED, QUIET, page=first.next)

    assert [timer.timer_key for timer in [*first.timers, *rest.timers]] == quiet


async def test_steps_grow_while_they_are_quick_and_shrink_when_they_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0

    async def take(step_s: float) -> None:
        nonlocal now_s
        now_s += step_s

    monkeypatch.setattr("shardclock_server.sql.clients.search.time.monotonic", lambda: now_s)
    steps = search.SectionSteps()
    lengths = [steps.length]
    for step_s in (0.05, 0.05, 0.2, 0.2, 0.2):
        await steps.timed(take(step_s))
        lengths.append(steps.length)

    least = search.STEP_LEAST
    assert lengths == [least, 2 * least, 4 * least, 2 * least, least, least]
