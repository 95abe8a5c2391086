"""Whatever one tenant or one host does with its places, the others have theirs, in turns."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardclock_server.webhooks.turns import Origin, Turns

HOST = ("example.com", 443)


class Players:
    """Hold places, or wait for them, until they are told to leave."""

    def __init__(self, places: int) -> None:
        self.turns = Turns(places)
        self.began: list[str] = []
        self.holding: Counter[str] = Counter()
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}

    async def come(self, tenant: str, origin: Origin = HOST, *, count: int = 1) -> None:
        """Let some ask for a place."""
        for _ in range(count):
            self._tasks.setdefault(tenant, []).append(asyncio.create_task(self._hold(tenant, origin)))
        await settle()

    async def leave(self, tenant: str, *, count: int = 1) -> None:
        """Let the first ones leave, or give up waiting."""
        for _ in range(count):
            self._tasks[tenant].pop(0).cancel()
        await settle()

    async def end(self) -> None:
        """Let all leave."""
        for tenant, tasks in self._tasks.items():
            await self.leave(tenant, count=len(tasks))

    async def _hold(self, tenant: str, origin: Origin) -> None:
        async with self.turns.place(tenant, origin):
            self.began.append(tenant)
            self.holding[tenant] += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.holding[tenant] -= 1


async def settle() -> None:
    """Let all tasks do what they can do now."""
    for _ in range(5):
        await asyncio.sleep(0)


def host(number: int) -> Origin:
    """Name one of many hosts."""
    return f"{number}.example.com", 443


@pytest.fixture
async def play() -> AsyncIterator[Callable[[int], Players]]:
    """Give players of so many places."""
    made: list[Players] = []

    def make(places: int) -> Players:
        made.append(Players(places))
        return made[-1]

    yield make
    for one in made:
        await one.end()
        assert (one.turns.free, one.holding.total()) == (one.turns.places, 0)


async def test_one_endpoint_holds_a_third_and_one_tenant_half(play: Callable[[int], Players]) -> None:
    it = play(500)
    await it.come("a", count=1_000)
    assert it.holding["a"] == 167
    for number in range(10):
        await it.come("a", host(number), count=50)
    assert it.holding["a"] == 250


async def test_ten_tenants_that_hang_leave_places(play: Callable[[int], Players]) -> None:
    it = play(500)
    for number in range(10):
        await it.come(f"tenant {number}", host(number), count=50)
    await it.come("quick", ("quick", 443))

    assert it.holding["quick"] == 1


async def test_the_next_place_goes_to_who_has_none(play: Callable[[int], Players]) -> None:
    it = play(500)
    hanging = 0
    while it.turns.free:
        await it.come(f"tenant {hanging}", host(hanging), count=50)
        hanging += 1
    await it.come("quick", ("quick", 443))
    assert (it.holding["quick"], hanging > 10) == (0, True)

    await it.leave("tenant 0")

    assert it.holding["quick"] == 1


async def test_a_host_that_hangs_for_all_tenants_leaves_places_for_other_hosts(play: Callable[[int], Players]) -> None:
    it = play(300)
    for number in range(100):
        await it.come(f"tenant {number}", count=5)
    assert it.holding.total() == 100
    await it.come("tenant 1", ("quick", 443))
    assert it.holding.total() == 101


async def test_those_who_wait_have_turns_by_tenant_and_not_by_number(play: Callable[[int], Players]) -> None:
    it = play(3)
    await it.come("holder", host(1))
    await it.come("holder 2", host(2))
    await it.come("many", host(3), count=1)
    assert it.turns.free == 0
    await it.come("many", host(3), count=20)
    await it.come("few", host(4))

    await it.leave("holder")
    await it.leave("holder 2")

    assert it.holding["few"] == 1


async def test_who_gives_up_waiting_leaves_nothing_behind(play: Callable[[int], Players]) -> None:
    it = play(3)
    await it.come("a", count=30)
    await it.leave("a", count=30)
    await it.come("b")
    assert (it.holding["a"], it.holding["b"]) == (0, 1)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 20),
    st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 3), st.integers(1, 6)), max_size=30),
)
def test_no_place_is_lost_and_nobody_waits_beside_a_free_share(
    places: int, steps: list[tuple[bool, int, int, int]]
) -> None:
    async def run() -> None:
        it = Players(places)
        for comes, tenant, origin, count in steps:
            if comes:
                await it.come(str(tenant), host(origin), count=count)
            elif there := len(it._tasks.get(str(tenant), [])):
                await it.leave(str(tenant), count=min(count, there))
            assert it.turns.free + it.holding.total() == places
            assert it.turns.free == 0 or it.turns._next() is None
        await it.end()
        assert it.turns.free == places
        assert not it.turns._waiting
        assert not it.turns._of_tenant
        assert not it.turns._of_origin

    asyncio.run(run())
