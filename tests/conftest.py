"""Lend tests a real Postgres: one server per version and session, one database per test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache

import hypothesis
import pytest
import structlog

from tests.support.postgres import Server

# A machine that is busy is no fault of what is tested.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

# `make check` asks for the newest alone; `make test` runs on each.
VERSIONS = [int(version) for version in os.environ.get("TEST_POSTGRES", "16,18").split(",")]

# Clusters of several sessions on one machine would fight over the port that is the default.
os.environ["SHARDCLOCK_METRICS_PORT"] = "0"
# Readline puts a width into the environment of pytest's workers, and a console keeps the one it finds when imported.
os.environ.pop("COLUMNS", None)


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """Take back what a command run in this process has set: its stderr was the test's."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[int], Server]]:
    """Give the server of a version, started when it is first asked for."""
    with ExitStack() as servers:
        yield cache(lambda version: servers.enter_context(closing(Server(version))))


@pytest.fixture
def dsn(postgres: Callable[[int], Server]) -> Iterator[str]:
    """Name a migrated, empty database on Postgres 18; it is dropped after the test."""
    with _clone(postgres(18)) as clone:
        yield clone


@pytest.fixture(params=VERSIONS, ids=lambda version: f"postgres{version}")
def each_dsn(request: pytest.FixtureRequest, postgres: Callable[[int], Server]) -> Iterator[str]:
    """As `dsn`, on each embedded version in turn."""
    with _clone(postgres(request.param)) as clone:
        yield clone


@contextmanager
def _clone(server: Server) -> Iterator[str]:
    clone = server.clone()
    try:
        yield clone
    finally:
        server.drop(clone)
