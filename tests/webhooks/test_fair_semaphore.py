"""Test that one tenant or host never takes the permits of other tenants or hosts, and that tenants take turns."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardclock_server.webhooks.fair_semaphore import FairSemaphore, Origin

HOST = ("example.com", 443)


class Players:
    """Start tasks that wait for a permit and hold it until the test cancels them."""

    def __init__(self, permits: int) -> None:
        self.semaphore = FairSemaphore(permits)
        self.began: list[str] = []
        self.holding: Counter[str] = Counter()
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}

    async def come(self, tenant: str, origin: Origin = HOST, *, count: int = 1) -> None:
        """Start tasks that ask for a permit."""
        for _ in range(count):
            self._tasks.setdefault(tenant, []).append(asyncio.create_task(self._hold(tenant, origin)))
        await settle()

    async def leave(self, tenant: str, *, count: int = 1) -> None:
        """Cancel a tenant's oldest tasks, which hold a permit or wait for one."""
        for _ in range(count):
            self._tasks[tenant].pop(0).cancel()
        await settle()

    async def end(self) -> None:
        for tenant, tasks in self._tasks.items():
            await self.leave(tenant, count=len(tasks))

    async def _hold(self, tenant: str, origin: Origin) -> None:
        async with self.semaphore.acquire(tenant, origin):
            self.began.append(tenant)
            self.holding[tenant] += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.holding[tenant] -= 1


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def host(number: int) -> Origin:
    return f"{number}.example.com", 443


@pytest.fixture
async def play() -> AsyncIterator[Callable[[int], Players]]:
    """Create `Players` for a number of permits; after the test, check that all permits are free."""
    made: list[Players] = []

    def make(permits: int) -> Players:
        made.append(Players(permits))
        return made[-1]

    yield make
    for one in made:
        await one.end()
        assert (one.semaphore.free, one.holding.total()) == (one.semaphore.permits, 0)


async def test_one_endpoint_holds_a_third_and_one_tenant_half(play: Callable[[int], Players]) -> None:
    it = play(500)
    await it.come("a", count=1_000)
    assert it.holding["a"] == 167
    for number in range(10):
        await it.come("a", host(number), count=50)
    assert it.holding["a"] == 250


async def test_ten_tenants_that_hang_leave_free_permits(play: Callable[[int], Players]) -> None:
    it = play(500)
    for number in range(10):
        await it.come(f"tenant {number}", host(number), count=50)
    await it.come("quick", ("quick", 443))

    assert it.holding["quick"] == 1


async def test_the_next_free_permit_goes_to_a_tenant_without_a_permit(play: Callable[[int], Players]) -> None:
    it = play(500)
    hanging = 0
    while it.semaphore.free:
        await it.come(f"tenant {hanging}", host(hanging), count=50)
        hanging += 1
    await it.come("quick", ("quick", 443))
    assert (it.holding["quick"], hanging > 10) == (0, True)

    await it.leave("tenant 0")

    assert it.holding["quick"] == 1


async def test_a_host_that_hangs_for_all_tenants_leaves_permits_for_other_hosts(play: Callable[[int], Players]) -> None:
    it = play(300)
    for number in range(100):
        await it.come(f"tenant {number}", count=5)
    assert it.holding.total() == 100
    await it.come("tenant 1", ("quick", 443))
    assert it.holding.total() == 101


async def test_waiting_tenants_take_turns_regardless_of_their_number_of_deliveries(
    play: Callable[[int], Players],
) -> None:
    it = play(3)
    await it.come("holder", host(1))
    await it.come("holder 2", host(2))
    await it.come("many", host(3), count=1)
    assert it.semaphore.free == 0
    await it.come("many", host(3), count=20)
    await it.come("few", host(4))

    await it.leave("holder")
    await it.leave("holder 2")

    assert it.holding["few"] == 1


async def test_a_cancelled_wait_leaves_no_entry_in_the_queue(play: Callable[[int], Players]) -> None:
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
def test_no_permit_is_lost_and_no_delivery_waits_while_its_share_has_a_free_permit(
    permits: int, steps: list[tuple[bool, int, int, int]]
) -> None:
    async def run() -> None:
        it = Players(permits)
        for comes, tenant, origin, count in steps:
            if comes:
                await it.come(str(tenant), host(origin), count=count)
            elif there := len(it._tasks.get(str(tenant), [])):
                await it.leave(str(tenant), count=min(count, there))
            assert it.semaphore.free + it.holding.total() == permits
            assert it.semaphore.free == 0 or it.semaphore._next() is None
        await it.end()
        assert it.semaphore.free == permits
        assert not it.semaphore._waiting
        assert not it.semaphore._of_tenant
        assert not it.semaphore._of_origin

    asyncio.run(run())
