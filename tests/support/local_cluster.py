"""Run one `shardclock up --local` as a process, on an existing database, in a Python without Ray."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from shardclock_server.sql.cluster.holders import SHARD, Holder
from tests.support.cluster_process import ClusterProcess
from tests.support.factories import sql
from tests.support.program import PROGRAM, until
from tests.support.roles import OPERATOR, as_role

HOST, FORK_SERVER = "shardclock_server.cluster.local_host", "multiprocessing.forkserver"
# Python runs this module at its start.
WITHOUT_RAY = "import sys\nsys.modules['ray'] = None\n"


def without_ray(place: Path) -> dict[str, str]:
    """Give the environment of a Python in which each import of Ray fails."""
    (place / "hidden").mkdir()
    (place / "hidden" / "sitecustomize.py").write_text(WITHOUT_RAY)
    return {"PYTHONPATH": str(place / "hidden")}


class Records:
    """The records of a database, and the timers that a test schedules there."""

    admin_dsn: str

    def why_ended(self, holder: int) -> str | None:
        rows = sql(self.admin_dsn, f"select ended_why from shardclock.holders where holder = {holder}")
        return None if rows[0][0] is None else str(rows[0][0])

    def schedule_many(self, count: int, *, every_s: float) -> None:
        """Schedule timers that become due one after the other, the first almost at once."""
        sql(
            self.admin_dsn,
            "select shardclock.schedule_timer(due_date => now() + i * interval '1 s' * "
            f"{every_s}) from generate_series(1, {count}) i",
        )

    def fired(self) -> int:
        return int(sql(self.admin_dsn, COUNT)[0][0])

    def until_fired(self, count: int) -> None:
        until(lambda: self.fired() == count, f"{count} timers to fire")

    @contextmanager
    def fires_all(self, count: int, *, lag_max_s: float) -> Iterator[None]:
        """Run a block from the first of `count` firings, and assert that each timer fires once and in time."""
        before = self.fired()
        self.schedule_many(count, every_s=0.05)
        until(lambda: self.fired() > before, "the first firing")
        yield
        self.until_fired(before + count)
        assert self.verdict()[:2] == (before + count, before + count)
        assert self.worst_lag_s() < lag_max_s

    def worst_lag_s(self) -> float:
        return float(sql(self.admin_dsn, LAG)[0][0])

    def term(self) -> int:
        """Return the term of leadership: a number that grows with each change of the leader."""
        return int(sql(self.admin_dsn, "select term from shardclock.leadership")[0][0])

    def verdict(self) -> tuple[int, int, float]:
        """Return the number of firings, the number of fired timers, and the smallest lag, which is negative for an
        early firing.
        """
        fired, timers, earliest_s = sql(self.admin_dsn, VERDICT)[0]
        return fired, timers, float(earliest_s)


class RecordedCluster(ClusterProcess, Records):
    """One `shardclock up` on an existing database, and the records of this database."""

    def __init__(self, place: Path, dsn: str, cwd: Path | None = None, **environment: str) -> None:
        self.admin_dsn = dsn
        named = {"SHARDCLOCK_DSN": as_role(dsn, "shard")}
        super().__init__(place, program=PROGRAM, cwd=cwd, **named | environment)

    def host(self) -> psutil.Process:
        return until(lambda: self.processes(HOST), "the host")[0]  # type: ignore[no-any-return]

    def shards(self, count: int) -> list[Holder]:
        """Wait until this number of shards has all slots, and return the shards."""

        def found() -> list[Holder]:
            shards = self.keepers(SHARD)
            return shards if [it.part_count for it in shards] == [count] * count else []

        return until(found, f"{count} shards")  # type: ignore[no-any-return]

    @property
    def operator_dsn(self) -> str:
        return as_role(self.admin_dsn, OPERATOR)


class LocalCluster(RecordedCluster):
    """One `shardclock up --local`."""

    def __init__(self, place: Path, dsn: str, cwd: Path | None = None, **environment: str) -> None:
        super().__init__(place, dsn, cwd, **{"SHARDCLOCK_LOCAL": "true", **without_ray(place)} | environment)

    @contextmanager
    def again(self) -> Iterator[LocalCluster]:
        """Start another `up` on the same database, as a supervisor does after the first `up` was killed."""
        place = self.place / "again"
        place.mkdir()
        with local_cluster(place, self.admin_dsn) as successor:
            yield successor


VERDICT = """
    select count(*), count(distinct timer_key), min(extract(epoch from recorded_at - due_date))
    from shardclock.command_log where intent = 'TRIGGERED'
"""
COUNT = "select count(*) from shardclock.command_log where intent = 'TRIGGERED'"
LAG = (
    "select coalesce(max(extract(epoch from recorded_at - due_date)), 0) from shardclock.command_log"
    " where intent = 'TRIGGERED'"
)


@contextmanager
def local_cluster(place: Path, dsn: str, cwd: Path | None = None, **environment: str) -> Iterator[LocalCluster]:
    """Run one `shardclock up --local` during a block."""
    up = LocalCluster(place, dsn, cwd, **environment)
    try:
        up.until_running()
        yield up
    finally:
        up.end()
        assert up.processes() == []


def kill(pid: int) -> None:
    psutil.Process(pid).kill()
    until(lambda: not lives(pid), f"process {pid} to end")


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
