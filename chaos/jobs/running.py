"""Run jobs under faults: the cluster, the faults, and the queries at the end."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path

from chaos.jobs.record import Counted, JobsRecord, Line, RunRecord
from chaos.nemesis import Nemesis
from chaos.plan import FaultOption, Plan, draw_faults
from chaos.running import Tell
from chaos.sandbox import Sandbox
from chaos.waiting import until
from tests.support.roles import as_role

WARM_S = 60.0  # The time limit for the first run of each job, which includes the start of a process.
QUIET_S = 90.0  # The time without faults at the end, in which each job must run at its interval again.
ENDED_S = 60.0  # The time limit for the end of the last runs after all jobs are disabled.
FILE = "runs.ndjson"  # Written by `app`.
# For each job: the duration of a run plus the pause after the run. The value of a job with a period includes the
# period; the value of a replaced job includes the grace period.
TAKES_S = {
    "quick": 0.6, "second": 2.0, "plain": 2.2, "long": 13.0, "fails": 1.2, "grid": 2.5, "queues": 3.5, "replaces": 6.0,
}  # fmt: skip
COUNTED_FROM_END = ("quick", "second", "plain", "long", "fails")
CHANGES = """
    select
        position, extract(epoch from recorded_at)::double precision, substr(target, 5), detail ->> 'run',
        detail ->> 'outcome', detail ->> 'reason',
        extract(epoch from (detail ->> 'next_start')::timestamptz)::double precision
    from shardclock.command_log
    where target like 'job:%' and detail ? 'run' and (intent = 'STARTING' or detail ? 'outcome')
    order by position
"""
COUNTED = """
    select name, runs, successes, failures, crashes, run_timer_key is not null from shardclock.jobs order by name
"""
DISABLE = "select shardclock.disable_job(name, 'the run is over') from shardclock.jobs where is_enabled"
ALL_RAN = "select bool_and(last_finish is not null) from shardclock.jobs"
MARKED = "select count(*) from shardclock.jobs where run_timer_key is not null"


async def run(
    sandbox: Sandbox, fault_options: Sequence[FaultOption], *, seed: int, length_s: float, tell: Tell
) -> JobsRecord:
    """Inject faults while the jobs run, then let the jobs run without faults for a while, and read the recording."""
    faults = draw_faults(random.Random(f"{seed} breaks"), length_s=length_s, fault_options=fault_options)
    nemesis = Nemesis(sandbox, Plan(seed, length_s, (), faults))
    tell(f"starting the cluster ({sandbox.cluster.name})")
    await sandbox.cluster.start(as_role(sandbox.dsn, "shard"), sandbox.direct_dsn)
    await until(lambda: _all_ran(sandbox), within_s=WARM_S)
    warm_at = time.time()
    tell(f"{length_s:.0f} s, {len(faults)} faults, seed {seed}")
    await nemesis.run()
    tell(f"all faults are over; the jobs run without faults for {QUIET_S:.0f} s")
    await asyncio.sleep(QUIET_S)
    watched_until = time.time()
    await _end_all(sandbox)
    for missed in nemesis.missed:
        tell(f"not injected: {missed}")
    async with sandbox.admin() as admin:
        changes = [RunRecord(*row) for row in await admin.fetch(CHANGES)]
        counted = [Counted(*row) for row in await admin.fetch(COUNTED)]
    return JobsRecord(
        lines=read_lines(sandbox.directory / FILE),
        changes=changes,
        counted=counted,
        faults=sorted(nemesis.faults, key=lambda fault: fault.began_at),
        takes_s=TAKES_S,
        counted_from_end=COUNTED_FROM_END,
        warm_at=warm_at,
        watched_until=watched_until,
    )


def read_lines(file: Path) -> list[Line]:
    """Read the lines of runs; the result is empty if no job has run.

    errors:  ValueError, TypeError  a line is incomplete; this means that the file was damaged, because each line is one
             write
    """
    if not file.exists():
        return []
    return [Line(*json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


async def _all_ran(sandbox: Sandbox) -> bool:
    async with sandbox.admin() as admin:
        return bool(await admin.fetchval(ALL_RAN))


async def _end_all(sandbox: Sandbox) -> None:
    """Disable all jobs, and wait until no run is active or the time limit has passed.

    The checker reports remaining runs.
    """

    async def disabled() -> bool:
        async with sandbox.admin() as admin:
            await admin.execute(DISABLE)
        return True

    async def ended() -> bool:
        async with sandbox.admin() as admin:
            return not await admin.fetchval(MARKED)

    await until(disabled, within_s=ENDED_S)
    await until(ended, within_s=ENDED_S)
