"""Fixtures of a real Postgres: one server per version and session, one database per test."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from pathlib import Path

import hypothesis
import pytest
import structlog

from tests.support.durations import TAKES_S, is_long
from tests.support.factories import HolderClient, add_holder
from tests.support.memory import IN_MEMORY
from tests.support.postgres import Server
from tests.support.sampling import Sampling

# `make check` and `make test` use only the newest version; `make test-all` runs on each version.
VERSIONS = [int(version) for version in os.environ.get("TEST_POSTGRES", "16,18").split(",")]

# Examples have no deadlines, because a busy machine may be slow although the tested code is correct. `make test-all`
# draws Hypothesis's default number of examples.
hypothesis.settings.register_profile("patient", deadline=None, max_examples=100 if len(VERSIONS) > 1 else 20)
hypothesis.settings.load_profile("patient")

FEW = ("ray", "timed", "chaos", "kube")  # marks that only a few files have
HERE = Path(__file__).parent
RAY_S, SLOW_S, OTHER_S = 12.0, 4.0, 0.1  # the estimated time of a test with this mark (None: without a mark)

# Clusters of several sessions on one machine would compete for the default port.
os.environ["SHARDCLOCK_METRICS_PORT"] = "0"
# A gateway would cost each cluster a process; tests that need a gateway enable it.
os.environ["SHARDCLOCK_GATEWAY_ENABLED"] = "false"
# Readline writes a width into the environment of pytest's workers, and a console reads the width when it is imported.
os.environ.pop("COLUMNS", None)


def pytest_configure(config: pytest.Config) -> None:
    """Let `make test` run a sample of the tests with very many cases."""
    gc.disable()
    config.pluginmanager.register(Sampling())


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection, because one scan of them takes half a second."""
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files that contain no selected mark, because loading all files takes longer than a test."""
    wanted = config.option.markexpr
    first = wanted.partition(" ")[0]
    if "not long" in wanted and is_long(collection_path, HERE):
        return True
    if first in FEW and collection_path.name.startswith("test_") and f"mark.{first}" not in collection_path.read_text():
        return True
    return None


def pytest_collectstart(collector: pytest.Collector) -> None:
    """If several processes run the tests, let each process first import a share of the test files.

    Pytest rewrites the asserts of a file at the file's first import. In a new clone this rewriting takes longer than
    the rest of the import; without shares each process would rewrite all files.
    """
    config = collector.config
    if collector.path != HERE or not hasattr(config, "workerinput") or config.args != ["tests"]:
        return
    number, count = int(config.workerinput["workerid"].removeprefix("gw")), config.workerinput["workercount"]
    for path in sorted(HERE.rglob("test_*.py"))[number::count]:
        if pytest_ignore_collect(path, config):
            continue
        with suppress(Exception):  # the collection reports the error
            importlib.import_module(".".join(path.relative_to(HERE.parent).with_suffix("").parts))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of long files, which `make check` leaves out."""
    if is_long(item.path, HERE):
        item.add_marker(pytest.mark.long)


@pytest.hookimpl(trylast=True)  # this hook runs after the deselection
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the longest files first, so that no process runs a long file alone at the end."""
    if not hasattr(config, "workerinput"):
        return  # one process runs the files in their order
    takes_s: defaultdict[Path, float] = defaultdict(float)
    for item in items:
        takes_s[item.path] += _takes_s(item)
    for name, seconds in TAKES_S.items():
        takes_s[HERE / name] = seconds
    items.sort(key=lambda item: -takes_s[item.path])  # the sort keeps the order of the tests within a file


def _takes_s(item: pytest.Item) -> float:
    if item.get_closest_marker("ray"):
        return RAY_S
    return SLOW_S if item.get_closest_marker("slow") else OTHER_S


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """Undo the log settings of a command that ran in this process, because they refer to the test's stderr."""
    yield
    structlog.reset_defaults()


@pytest.fixture
def collector() -> Iterator[None]:
    """Restore the garbage collector's threshold, because a server changes it for the whole process."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[int], Server]]:
    with ExitStack() as servers:
        yield cache(lambda version: servers.enter_context(closing(Server(version))))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test with the mark `each_version` a database on each embedded version in turn."""
    if "dsn" in metafunc.fixturenames and metafunc.definition.get_closest_marker("each_version"):
        metafunc.parametrize("dsn", VERSIONS, indirect=True, ids=[f"postgres{version}" for version in VERSIONS])


@pytest.fixture(scope="module")
def shared(postgres: Callable[[int], Server]) -> Iterator[Callable[[int], str]]:
    """Return for each version the DSN of the database that a file's tests with the mark `shared_database` share."""
    with ExitStack() as databases:
        yield cache(lambda version: databases.enter_context(postgres(version).database()))


@pytest.fixture
def dsn(request: pytest.FixtureRequest, postgres: Callable[[int], Server]) -> Iterator[str]:
    """Name a migrated, empty database on Postgres 18; it is dropped after the test."""
    with _database(request, postgres, getattr(request, "param", 18)) as dsn:
        yield dsn


@pytest.fixture(params=VERSIONS, ids=lambda version: f"postgres{version}")
def each_dsn(request: pytest.FixtureRequest, postgres: Callable[[int], Server]) -> Iterator[str]:
    """Return the DSN of a new database, as `dsn` does, on each embedded version in turn."""
    with _database(request, postgres, request.param) as dsn:
        yield dsn


@contextmanager
def _database(request: pytest.FixtureRequest, postgres: Callable[[int], Server], version: int) -> Iterator[str]:
    if request.node.get_closest_marker("shared_database"):
        yield request.getfixturevalue("shared")(version)
        return
    with postgres(version).database() as clone:
        yield clone


@pytest.fixture
async def shard(dsn: str) -> AsyncIterator[HolderClient]:
    await add_holder(dsn, 1)
    async with HolderClient(dsn, holder=1) as hand:
        yield hand


@pytest.fixture
def place() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="shardclock-test-", dir=IN_MEMORY))
    yield path
    shutil.rmtree(path)
