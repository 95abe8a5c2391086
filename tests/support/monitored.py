"""A live cluster under load with a real Prometheus, for the tests of monitoring."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import asyncpg
import psutil

from shardclock_server.embedded.server import EmbeddedPostgres
from shardclock_server.sql.cluster.holders import Holder
from tests.support.bpmn import model
from tests.support.cluster_process import ClusterProcess
from tests.support.factories import BOUND_S, sql
from tests.support.memory import IN_MEMORY
from tests.support.program import run, until
from tests.support.prometheus import Prometheus, program
from tests.support.roles import as_role, migrate_with_roles

# These timers are scheduled at least a second ahead, so they are late only if something is wrong.
PACED = """
insert into shardclock.timers (due_date, timer_type, tenant_id)
select now() + interval '1 s' + n * interval '1 s' / $1::integer, (array['USER', 'BOUNDARY'])[1 + n % 2], 'acme'
from generate_series(0, $1::integer - 1) as n
"""
# These timers were created an hour ago and due half a second ago, so they are late when they fire.
LATE = """
insert into shardclock.timers (due_date, created_at)
select now() - interval '0.5 s', now() - interval '1 hour' from generate_series(1, $1::integer)
"""
# Other acts of clients: each verb once, and a schedule that a shard must plan.
VERBS = """
select
    shardclock.schedule_timer(delay => 'PT1H', name => 'moved'),
    shardclock.reschedule_timer(name => 'moved', delay => 'PT2H'),
    shardclock.pause_timer(name => 'moved'),
    shardclock.resume_timer(name => 'moved'),
    shardclock.cancel_timer(name => 'moved'),
    shardclock.schedule_timer(schedule => 'R2/PT1S', zone => 'Europe/Berlin'),
    shardclock.schedule_timer(delay => 'PT1S', target => 'nothing')
"""
# Each of these files breaks the app: with one, a starting handler process can't import it; with the other, a job fails.
APP = """
import os
from pathlib import Path

import shardclock

HERE = Path(__file__).parent
if (HERE / "no-more-starts").exists():
    raise RuntimeError("no process starts any more")

@shardclock.on_timer("nothing")
async def nothing(timer: shardclock.Timer) -> None: ...

@shardclock.on_timer("fails", max_attempts=1)
async def fails(timer: shardclock.Timer) -> None:
    raise ValueError("no")

@shardclock.on_timer("never.starts")
async def never_starts(timer: shardclock.Timer) -> None: ...

@shardclock.job(every="PT1S", max_runtime="PT1S", max_retries=0)
def refresh(run: shardclock.Run) -> None:
    if (HERE / "refresh-fails").exists():
        raise ValueError("no")

@shardclock.job(max_retries=9, retry_period="PT0.1S")
def crashes(run: shardclock.Run) -> None:
    os._exit(1)

@shardclock.job(num_cpus=1_000)
def finds_no_room(run: shardclock.Run) -> None: ...
"""

RAN = "select from shardclock.jobs where name = 'refresh' and successes >= 3"


CALLED = '<extensionElements><zeebe:calledElement processId="nowhere"/></extensionElements>'
STUCK = model(
    f'<startEvent id="s"/><userTask id="u"/><callActivity id="c">{CALLED}</callActivity>',
    connected="s>u u>c",
    process_id="stuck",
)


class Load:
    """Clients that schedule `per_s` punctual timers and `late_per_s` late timers a second, until stopped."""

    def __init__(self, dsn: str, *, per_s: int) -> None:
        self._dsn = dsn
        self.per_s = per_s
        self.late_per_s = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(BOUND_S)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            # Some tests stop Postgres; the clients then connect again.
            with suppress(
                OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, TimeoutError
            ):
                connection = await asyncpg.connect(self._dsn, timeout=5)
                try:
                    await self._schedule(connection)
                finally:
                    connection.terminate()
            await asyncio.sleep(0.2)

    async def _schedule(self, connection: asyncpg.Connection) -> None:
        while not self._stopping.is_set():
            second_at = time.monotonic() + 1
            await connection.execute(PACED, self.per_s, timeout=5)
            await connection.execute(LATE, self.late_per_s, timeout=5)
            await connection.execute(VERBS, timeout=5)
            await asyncio.sleep(max(0.0, second_at - time.monotonic()))


class Callers:
    """Callers of the HTTP API: create a timer and read the list, twice a second, until stopped."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(BOUND_S)

    def _run(self) -> None:
        create = Request(f"{self._url}/v1/timers", b'{"delay":"PT0S"}', {"Content-Type": "application/json"})
        while not self._stopping.wait(0.5):
            for ask in (create, Request(f"{self._url}/v1/timers?limit=1")):
                with suppress(OSError), urlopen(ask, timeout=5) as answer:  # Postgres is sometimes away
                    answer.read()


class WatchedCluster:
    """One Postgres, one `shardclock up`, one load, one Prometheus."""

    def __init__(self, rules: str, *, per_s: int = 200, scrape_s: float = 0.5) -> None:
        program("prometheus")  # skips the test if it is missing, before anything slow starts
        self.place = Path(tempfile.mkdtemp(prefix="shardclock-test-", dir=IN_MEMORY))
        self.socket_path = str(self.place / "exporter.sock")
        self.postgres = EmbeddedPostgres.start(self.place / "named")
        self.dsn = self.postgres.dsn
        asyncio.run(migrate_with_roles(self.dsn))
        self.sql("grant shardclock_gateway to test_shard")  # `up` starts a gateway, too, with the same login
        (self.place / "watched_app.py").write_text(APP)
        self.up = ClusterProcess(
            self.place,
            cwd=self.place,
            SHARDCLOCK_APP="watched_app",
            SHARDCLOCK_DSN=as_role(self.dsn, "shard"),
            SHARDCLOCK_METRICS_PORT="0",
            SHARDCLOCK_METRICS_SOCKET=self.socket_path,
            SHARDCLOCK_GATEWAY_ENABLED="true",
            SHARDCLOCK_GATEWAY_PORT="0",
        )
        self.load: Load | None = None
        self.callers: Callers | None = None
        self.prometheus: Prometheus | None = None
        try:
            self.up.until_running()
            until(self.up.serving, "two shards")
            until(lambda: self.sql(RAN), "its job to run, after its process has come up")
            self.load = Load(as_role(self.dsn, "scheduler"), per_s=per_s)
            self.callers = Callers(_said(self.up, r"HTTP API at (http://[^\s,]+)", "the gateway's address"))
            self.address = _said(self.up, r"metrics at (http://\S+)/metrics", "the exporter's address")
            self.prometheus = Prometheus([self.address.removeprefix("http://")], rules=rules, scrape_s=scrape_s)
        except BaseException:
            self.close()
            raise

    def sql(self, text: str, *arguments: Any) -> list[asyncpg.Record]:
        """Run one statement as a client would."""
        return sql(self.dsn, text, *arguments)

    def command(self, *words: object) -> None:
        """Run `shardclock` with these arguments, which must succeed."""
        done = run(*words, environment=self.up.environment)
        assert done.code == 0, done

    def raise_incident(self) -> None:
        """Let an instance call a process that is not deployed, so that its token raises an incident."""
        file = self.place / "stuck.bpmn"
        file.write_bytes(STUCK)
        self.command("deploy", file)
        self.command("processes", "start", "stuck")
        # First the engine must report zero incidents: Prometheus sees a rise only from an earlier value.
        (task,) = until(
            lambda: self.sql("select task_key from shardclock.tasks where process_id = 'stuck'"), "the task"
        )
        self.command("tasks", "complete", task["task_key"])

    def give_up_a_signal(self) -> None:
        """Send a task's completion to an instance with a state that no engine can read."""
        self.command("processes", "start", "stuck")
        (task,) = until(
            lambda: self.sql(
                "select t.task_key, t.instance_key from shardclock.tasks t"
                " where t.process_id = 'stuck' and t.completed_at is null"
            ),
            "the task",
        )
        self.sql("update shardclock.instances set state = 'x' where instance_key = $1", task["instance_key"])
        self.command("tasks", "complete", task["task_key"])

    def kill_a_shard(self) -> None:
        """Kill the oldest shard's process with -9; a young shard would count as a failed start."""
        _kill_oldest(until(self.up.serving, "two shards"))

    def kill_a_worker(self) -> None:
        _kill_oldest(until(self.up.working, "two workers"))

    def kill_an_engine(self) -> None:
        _kill_oldest(until(self.up.advancing, "two engines"))

    def close(self) -> None:
        """Stop all processes of the cluster, and remove all its files."""
        for part in (self.load, self.callers):
            if part is not None:
                part.stop()
        if self.prometheus is not None:
            self.prometheus.close()
        self.up.end()
        self.postgres.close()
        shutil.rmtree(self.place, ignore_errors=True)


def _kill_oldest(keepers: list[Holder]) -> None:
    min((psutil.Process(keeper.pid) for keeper in keepers), key=psutil.Process.create_time).kill()


def _said(up: ClusterProcess, pattern: str, subject: str) -> str:
    return str(until(lambda: re.search(pattern, up.said), subject)[1])
