"""Prove that `shardclock up` fires, stops in order, and outlives the death of each of its processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from cluster.embedded import EmbeddedPostgres
from cluster.importing import Report, import_lines
from cluster.verdict import judge
from sql.log import Cursor, read_log
from sql.migrate import migrate
from sql.session import Session
from tests.program import PROGRAM, processes_with, run, until
from tests.store import query

STOP_S = 15.0  # generous: it takes about 3 s on two idle cores
FIRE_S = 45.0
TIMERS = 1_500

pytestmark = pytest.mark.ray


class Up:
    """One `shardclock up` as a process, with all it has started."""

    def __init__(self, place: Path, **environment: str) -> None:
        self.place = place
        self.mark = str(place)
        self._said = (place / "said").open("w+b")
        # What a killed one leaves is found here; a short path, because Ray puts sockets below it.
        self._temp = tempfile.mkdtemp(prefix="sc-")
        self.environment = {
            "SHARDCLOCK_DATA_DIR": str(place / "data"),
            "SHARDCLOCK_TEST": self.mark,
            "TMPDIR": self._temp,
            **environment,
        }
        self.process = subprocess.Popen(
            [*PROGRAM, "up"], stdout=subprocess.DEVNULL, stderr=self._said, env=os.environ | self.environment
        )

    @property
    def said(self) -> str:
        """Read what it has said on stderr."""
        return (self.place / "said").read_text()

    def until_running(self) -> None:
        """Wait until it says so."""
        until(lambda: "running on" in self.said or self.process.poll() is not None, "the cluster to come up")
        assert self.process.poll() is None, self.said

    def processes(self, word: str = "") -> list[psutil.Process]:
        """Find its living processes, those with a word in their command lines."""
        return [process for process in processes_with("SHARDCLOCK_TEST", self.mark) if word in _title(process)]

    def ray_dir(self) -> Path:
        """Name the directory that Ray works in."""
        return Path(self.processes("cluster.host")[0].environ()["SHARDCLOCK_HOST_TEMP_DIR"])

    def status(self) -> Any:
        """Ask the program how it is, or nothing if it can't tell."""
        done = run("status", "--json", environment=self.environment)
        return done.json if done.code == 0 else None

    def serving(self) -> list[Any]:
        """List the shards, once both serve."""
        status = self.status()
        shards = [shard for shard in status["shards"] if shard["shard"] is not None] if status else []
        return shards if len(shards) == 2 else []

    def is_whole(self) -> bool:
        """Say whether each of its processes is there, and both shards that Postgres knows of live."""
        parts = ("cluster.host", "gcs_server ", "raylet ", "CoordinatorActor")
        shards = self.serving() if all(map(self.processes, parts)) else []
        return bool(shards) and all(psutil.pid_exists(shard["pid"]) for shard in shards)

    def end(self) -> None:
        """Leave nothing behind, however the test went."""
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        try:
            until(lambda: not self.processes(), "its processes to end", within_s=STOP_S)
        finally:
            for process in self.processes():
                process.kill()
            self._said.close()
            shutil.rmtree(self._temp, ignore_errors=True)


def _title(process: psutil.Process) -> str:
    try:
        return " ".join([process.name(), *process.cmdline()])
    except psutil.Error:
        return ""


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a directory that a server may use."""
    path = Path(tempfile.mkdtemp(prefix="shardclock-test-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def up(place: Path) -> Iterator[Up]:
    """Run `shardclock up` on an embedded Postgres."""
    up = Up(place)
    try:
        up.until_running()
        yield up
    finally:
        up.end()


def test_fires_and_hands_everything_back_when_told_to_stop(up: Up) -> None:
    until(up.serving, "two shards")
    run("schedule", "--in", "PT0.2S", "--name", "soon", environment=up.environment)
    run("schedule", "--at", "2040-01-01T00:00:00Z", "--name", "waits", environment=up.environment)
    ended = lambda: run("list", "--state", "triggered", "--json", environment=up.environment).json["timers"]  # noqa: E731
    assert [timer["name"] for timer in until(ended, "the timer to fire")] == ["soon"]
    run("schedule", "--in", "PT1.9S", "--name", "claimed", environment=up.environment)

    ray_dir = up.ray_dir()

    begin = time.monotonic()
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(STOP_S) == 0, up.said
    print(f"stopped in {time.monotonic() - begin:.1f} s")  # noqa: T201 - the figure, under -s

    assert up.processes() == []
    assert not ray_dir.exists()
    assert "stopping: handing claims back" in up.said.splitlines()
    assert "Traceback" not in up.said
    assert up.status()["shards"] == []
    claims = run("show", "--name", "waits", "--json", environment=up.environment).json["timer"]
    assert (claims["state"], claims["holder"]) == ("PENDING", None)


def test_a_killed_up_takes_everything_down_with_it(up: Up) -> None:
    until(up.serving, "two shards")

    ray_dir = up.ray_dir()

    begin = time.monotonic()
    up.process.kill()
    up.process.wait()
    until(lambda: not up.processes(), "the host, Ray and Postgres to end", within_s=30)
    print(f"all ended in {time.monotonic() - begin:.1f} s")  # noqa: T201 - the figure, under -s

    assert not ray_dir.exists()
    assert up.status()["shards"] == [], "its host handed back"


def test_a_database_that_is_down_at_the_start_is_waited_for_and_said(place: Path) -> None:
    postgres = EmbeddedPostgres.start(place / "named")
    asyncio.run(migrate(postgres.dsn))
    postgres.close()
    up = Up(place, SHARDCLOCK_DSN=postgres.dsn)
    try:
        until(lambda: up.said.count("trying again in") > 1, "it to say that it tries again")
        assert "does not answer" in up.said
        assert up.process.poll() is None, up.said

        postgres = EmbeddedPostgres.start(place / "named")
        up.until_running()
        until(up.serving, "two shards")
    finally:
        up.end()
        postgres.close()


def _one(up: Up, word: str) -> psutil.Process:
    return until(lambda: up.processes(word), word)[0]  # type: ignore[no-any-return]


VICTIMS: dict[str, Callable[[Up], psutil.Process]] = {
    "a shard": lambda up: psutil.Process(until(up.serving, "shards")[0]["pid"]),
    "the coordinator": lambda up: _one(up, "CoordinatorActor"),
    "the raylet": lambda up: _one(up, "raylet "),
    "the GCS": lambda up: _one(up, "gcs_server "),
    "the host": lambda up: _one(up, "cluster.host"),
    "the postmaster": lambda up: psutil.Process(int((up.place / "data/pgdata/postmaster.pid").read_text().split()[0])),
}
ENDS_THE_HOST = ("the raylet", "the GCS", "the host")


@pytest.mark.slow
def test_whatever_is_killed_every_timer_fires_once(up: Up) -> None:
    until(up.serving, "two shards")
    keeper = EmbeddedPostgres.start(up.place / "data")
    try:
        report = asyncio.run(_schedule(keeper.dsn, seconds=60))
        for name, find in VICTIMS.items():
            victim, host = find(up), _one(up, "cluster.host")
            begin = time.monotonic()
            victim.kill()
            until(partial(_is_gone, victim), f"{name} to die")
            if name in ENDS_THE_HOST:
                until(partial(_is_gone, host), f"the host to end after {name}")
            fired = asyncio.run(_fired(keeper.dsn))
            until(
                partial(_has_fired_more, keeper.dsn, fired),
                f"firing to go on after {name}",
                within_s=FIRE_S,
            )
            until(up.is_whole, f"the cluster to be whole after {name}", within_s=2 * FIRE_S)
            print(f"killed {name}: whole again within {time.monotonic() - begin:.1f} s")  # noqa: T201 - the figure, under -s
        until(lambda: asyncio.run(_fired(keeper.dsn)) >= TIMERS, "the rest to fire", within_s=2 * FIRE_S)
        records = asyncio.run(_records(keeper.dsn))
        verdict = judge(report.timers, records, None)
        assert verdict.holds, verdict
        assert "Traceback" not in re.sub(r'\{"event".*', "", up.said)
    finally:
        keeper.close()


def _is_gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _has_fired_more(dsn: str, than: int) -> bool:
    return asyncio.run(_fired(dsn)) > than


async def _schedule(dsn: str, *, seconds: float) -> Report:
    report = Report()
    lines = [(i + 1, json.dumps({"delay": f"PT{1 + i * seconds / TIMERS:.3f}S"}).encode()) for i in range(TIMERS)]
    async with Session(dsn, application="test") as session:
        await import_lines(session, lines, report, keep=True)
    return report


async def _fired(dsn: str) -> int:
    try:
        rows = await query(dsn, "select count(*) from shardclock.command_log where intent = 'TRIGGERED'")
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):  # the postmaster is among the victims
        return 0
    return int(rows[0][0])


async def _records(dsn: str) -> list[Any]:
    async with Session(dsn, application="test") as session:
        return list(await read_log(session, Cursor(), limit=1_000_000))
