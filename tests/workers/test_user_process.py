"""A process of the user's code is called over a socket or through Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import ray

from shardclock.executor.actors import UserActor
from shardclock_server.workers.ray_process import RayProcess
from shardclock_server.workers.user_process import NotCalled, ProcessDied, UserProcess
from tests.support.user_actors import Started


class Repeating:
    """Echo each call, or hang."""

    async def answer(self, call: bytes) -> bytes:
        if call == b"hang":
            await asyncio.Event().wait()
        return call


def started(monkeypatch: pytest.MonkeyPatch, *, is_here: bool = True) -> tuple[Started, UserProcess]:
    actor = Started(UserActor(Repeating()), is_here=is_here).instead_of_ray(monkeypatch)
    return actor, UserProcess(RayProcess(actor, owner="run"))


@pytest.mark.parametrize(("is_here", "by_ray"), [(True, 0), (False, 2)])
async def test_a_process_on_the_same_host_is_called_without_ray(
    monkeypatch: pytest.MonkeyPatch, is_here: bool, by_ray: int
) -> None:
    actor, process = started(monkeypatch, is_here=is_here)
    await process.ready()
    await process.ready()
    assert (actor.listen.calls, actor.ready.calls) == (1, by_ray // 2), "the second asks whether it is alive"

    assert [await process.request(call) for call in (b"one", b"two")] == [b"one", b"two"]

    assert (process.is_reached, actor.answer.calls) == (is_here, by_ray)
    process.kill()


async def test_calls_fail_when_ray_reports_the_end_of_the_process_even_if_the_socket_is_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    actor, process = started(monkeypatch)
    await process.ready()
    hanging = asyncio.create_task(process.request(b"hang"))
    await asyncio.sleep(0)  # the call is written, and the process has not read it yet
    watch = asyncio.create_task(process.gone())
    actor.ended.set()

    with pytest.raises(ProcessDied) as died:
        await watch
    with pytest.raises(ProcessDied) as failed:
        await hanging

    assert str(failed.value) == str(died.value)


def _fails(_: object) -> None:
    raise RuntimeError("Ray is away")


@pytest.mark.parametrize("kill", [lambda _: None, _fails])
async def test_calls_fail_when_the_process_is_killed_without_an_answer_of_ray(
    monkeypatch: pytest.MonkeyPatch, kill: Callable[[object], None]
) -> None:
    actor, process = started(monkeypatch)
    monkeypatch.setattr(ray, "kill", kill)
    await process.ready()
    hanging = asyncio.create_task(process.request(b"hang"))
    await asyncio.sleep(0)

    process.kill()

    with pytest.raises(ProcessDied, match="the run's process was killed by its worker"):
        await hanging
    assert actor.gone.calls == 0
    with pytest.raises(NotCalled):
        await process.request(b"one")
