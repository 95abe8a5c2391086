"""The peers, with the configurations that their documentation recommends for many short jobs.

The SQL statement `put` fills the table of a peer, and `left` counts the uncompleted jobs. Most peers delete a completed
job; others mark it as completed.
"""

from dataclasses import dataclass

DUE = "$1::timestamptz + n * $3::double precision * interval '1 second'"
GRAPHILE = """
    select graphile_worker.add_jobs(array(
        select ('fire', json_build_object('due', extract(epoch from due)), null, due, null, null, null, null)
            ::graphile_worker.job_spec
        from (select {due} from generate_series(0, $2::integer - 1) n) t (due)
    ))
"""
GRAPHILE_LEFT = "select count(*) from graphile_worker._private_jobs"
PGBOSS = """
    insert into pgboss.job (name, data, start_after)
    select 'fire', jsonb_build_object('due', extract(epoch from due)), due
    from (select {due} from generate_series(0, $2::integer - 1) n) t (due)
"""
PGBOSS_LEFT = "select count(*) from pgboss.job where name = 'fire' and state <> 'completed'"
PGQUEUER = """
    insert into pgqueuer (priority, entrypoint, payload, execute_after, status)
    select 0, 'fire', float8send(extract(epoch from due)::double precision), due, 'queued'
    from (select {due} from generate_series(0, $2::integer - 1) n) t (due)
"""
PGQUEUER_LEFT = "select count(*) from pgqueuer"
PROCRASTINATE = """
    insert into procrastinate_jobs (queue_name, task_name, args, scheduled_at)
    select 'default', 'fire', jsonb_build_object('due', extract(epoch from due)), due
    from (select {due} from generate_series(0, $2::integer - 1) n) t (due)
"""
PROCRASTINATE_LEFT = "select count(*) from procrastinate_jobs"
APSCHEDULER_LEFT = """
    select (select count(*) from schedules where next_fire_time is not null) + (select count(*) from jobs)
"""
AWA = """
    select count(awa.insert_job_compat(
        p_kind => 'fire', p_queue => 'fire', p_args => jsonb_build_object('due', extract(epoch from due)),
        p_state => 'scheduled', p_run_at => due
    ))
    from (select {due} from generate_series(0, $2::integer - 1) n) t (due)
"""
# awa compresses completed jobs, and later stores only their number.
AWA_LEFT = """
    select (
        (select last_value from awa.job_id_seq)
        - (select coalesce(sum(completed_count), 0) from awa.receipt_completion_batches)
        - (select count(*) from awa.done_entries where state = 'completed')
        - (select coalesce(sum(pruned_completed_count), 0) from awa.queue_terminal_rollups)
    )::bigint
"""
RIVER = """
    insert into river_job (state, queue, kind, max_attempts, args, scheduled_at)
    select
        (case when due <= now() then 'available' else 'scheduled' end)::river_job_state, 'default', 'fire', 25,
        jsonb_build_object('due', extract(epoch from due)), due
    from (select {due} from generate_series(0, $2::integer - 1) n) t (due)
"""
RIVER_LEFT = "select count(*) from river_job where state <> 'completed'"
DB_SCHEDULER = """
    insert into scheduled_tasks (task_name, task_instance, task_data, execution_time, picked, version)
    select
        'fire', gen_random_uuid()::text, float8send(extract(epoch from due)::double precision), due, false, 1
    from (select {due} from generate_series(0, $2::integer - 1) n) t (due)
"""
DB_SCHEDULER_LEFT = "select count(*) from scheduled_tasks"


@dataclass(frozen=True)
class Kind:
    """A peer with one configuration: its package, its script, and SQL statements for its tables.

    If `put` is None, a function of the peer's library fills the table. `make` is the target of the Makefile that
    installs the peer.
    """

    name: str
    package: str
    script: str
    settings: str
    put: str | None
    left: str
    options: tuple[str, ...] = ()
    drained: int = 300_000
    added: int = 100_000
    make: str = "bench-peers"


KINDS = (
    Kind(
        "graphile-worker, local queue", "graphile-worker", "of_graphile.mjs",
        "two processes; concurrency 24, local queue 500, completions batched, polling 100 ms", GRAPHILE, GRAPHILE_LEFT,
        ("local",),
    ),
    Kind(
        "graphile-worker", "graphile-worker", "of_graphile.mjs", "two processes; concurrency 24, polling 100 ms",
        GRAPHILE, GRAPHILE_LEFT, ("plain",), drained=50_000,
    ),
    Kind(
        "pg-boss", "pg-boss", "of_pgboss.mjs",
        "two processes; batches of 1,000, two fetchers each, polling 500 ms (its shortest), bursts",
        PGBOSS, PGBOSS_LEFT,
    ),
    Kind(
        "pgqueuer", "pgqueuer", "of_pgqueuer.py", "two processes; batches of 1,000, polling 100 ms, uvloop",
        PGQUEUER, PGQUEUER_LEFT,
    ),
    Kind(
        "procrastinate", "procrastinate", "of_procrastinate.py",
        "two processes; concurrency 100, polling 100 ms, done jobs deleted", PROCRASTINATE, PROCRASTINATE_LEFT,
        drained=10_000, added=20_000,
    ),
    Kind(
        "APScheduler 4", "apscheduler", "of_apscheduler.py", "two processes; 1,000 concurrent jobs, asyncpg",
        None, APSCHEDULER_LEFT, drained=2_000, added=2_000,
    ),
)  # fmt: skip

# These peers take part only in cases that call handlers.
MORE_KINDS = (
    Kind(
        "awa", "awa-pg", "of_awa.py",
        "two processes; 128 at a time, claims of 512, polling 50 ms, scheduled jobs promoted each 50 ms",
        AWA, AWA_LEFT, drained=100_000,
    ),
    Kind(
        "River", "github.com/riverqueue/river", "river/of_river.go",
        "two processes; 1,000 workers each, polling 20 ms, cooldown 2 ms (as its own benchmark), completions batched",
        RIVER, RIVER_LEFT, make="bench-peers-go",
    ),
    Kind(
        "db-scheduler", "db-scheduler", "db-scheduler/OfDbScheduler.java",
        "two processes; lock-and-fetch (4.0, 20.0), 20 threads each, polling 100 ms; it completes one by one",
        DB_SCHEDULER, DB_SCHEDULER_LEFT, drained=50_000, make="bench-peers-jvm",
    ),
)  # fmt: skip
