"""Declare handlers for one test."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shardclock import AsyncClient, job, jobs, on_timer
from shardclock import handler as handlers
from tests.support.gateways import Api, serving


@pytest.fixture(autouse=True)
def only_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the handlers and jobs that a test declares."""
    monkeypatch.setattr(handlers, "_handlers", dict(handlers._handlers))
    monkeypatch.setattr(jobs, "_jobs", dict(jobs._jobs))


@pytest.fixture
def declare() -> Callable[..., handlers.Handler]:
    """Declare a test's function as a handler, as if the function were at the top level of its module."""

    def declare(function: Callable[..., Any], **limits: Any) -> handlers.Handler:
        function.__qualname__ = function.__name__
        target = limits.pop("target", function.__name__)
        on_timer(target, **limits)(function)
        return handlers._handlers[target]

    return declare


@pytest.fixture
def declare_job() -> Callable[..., jobs.Job]:
    """Declare a test's function as a job, as if the function were at the top level of its module."""

    def declare(function: Callable[..., Any], **said: Any) -> jobs.Job:
        function.__qualname__ = function.__name__
        name = said.pop("name", function.__name__)
        job(name, **said)(function)
        return jobs._jobs[name]

    return declare


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Write modules into a folder of the Python path; forget the imported modules after the test."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write(name: str, text: str) -> None:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    yield write
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.fixture
async def gateway(dsn: str) -> AsyncIterator[Api]:
    """Serve the test's own gateway on its database."""
    async with serving(dsn) as api:
        yield api


@pytest.fixture
async def client(gateway: Api) -> AsyncIterator[AsyncClient]:
    """Open a client of this gateway."""
    async with AsyncClient(gateway.url) as client:
        yield client
