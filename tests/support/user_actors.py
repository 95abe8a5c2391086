"""An actor of the user's code in the test's process, in place of Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from shardclock.executor.actors import UserActor

HERE = "a" * 56


class Remote:
    """An actor's method, called in this process."""

    def __init__(self, method: Callable[..., Awaitable[object]]) -> None:
        self._method = method
        self.calls = 0

    async def remote(self, *arguments: object) -> object:
        self.calls += 1
        return await self._method(*arguments)


class Started:
    """An actor that the test ends; without `is_here` the actor's address belongs to another host."""

    def __init__(self, actor: UserActor, *, is_here: bool = True) -> None:
        self.ended = asyncio.Event()
        self.listen = Remote(actor.listen if is_here else self._nowhere)
        self.ready, self.answer, self.gone = Remote(actor.ready), Remote(actor.answer), Remote(self._end)

    def instead_of_ray(self, monkeypatch: pytest.MonkeyPatch) -> Started:
        monkeypatch.setattr(ray, "remote", lambda _: self)
        monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: HERE))
        monkeypatch.setattr(ray, "kill", lambda _: None)
        return self

    def options(self, **_: Any) -> Started:
        return self

    def remote(self, *_: object) -> Started:
        return self

    async def _nowhere(self) -> str:
        return "shardclock-on-another-host"

    async def _end(self) -> None:
        await self.ended.wait()
        raise ray.exceptions.RayActorError
