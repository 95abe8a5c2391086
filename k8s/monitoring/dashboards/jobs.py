"""The dashboard of jobs: their starts, the ends of their runs, and overdue successes."""

from k8s.monitoring.dashboards.spec import Dashboard, Query, Row, Stat, TimeSeries

HEADLINE = Row(
    height=4,
    panels=[
        Stat(
            "Jobs",
            "All jobs of the app, also the disabled.",
            unit="none",
            sparkline=False,
            queries=[Query('sum(max by (state) (shardclock_jobs{job="$job", state!="withdrawn"}))')],
        ),
        Stat(
            "Running now",
            "Jobs with a running run.",
            unit="none",
            queries=[
                Query('sum(max by (state) (shardclock_jobs{job="$job", state=~"starting|running|terminating"}))'),
            ],
        ),
        Stat(
            "Last tick",
            (
                "The time since both a shard and a worker last sent heartbeats: a job's start needs both. It grows"
                " while all shards or all workers are dead, also without a due start."
            ),
            unit="s",
            color="green",
            color_from={5: "orange", 60: "red"},
            queries=[Query('max(shardclock_jobs_last_tick_seconds{job="$job"})')],
            runbooks=["ShardclockNoWorkerAlive", "ShardclockNoShardAlive"],
        ),
        Stat(
            "Until the next start",
            "The next start of any job. No value: no start is scheduled; below zero: the start is due.",
            unit="s",
            color="red",
            color_from={-1: "text"},
            queries=[Query('max(shardclock_jobs_next_start_seconds{job="$job"})')],
            runbooks=["ShardclockJobStartsLate"],
        ),
        Stat(
            "Longest wait of a start",
            "The age of the oldest due start of all jobs whose function is not called yet.",
            unit="s",
            color="green",
            color_from={10: "orange", 300: "red"},
            queries=[Query('max(shardclock_job_waiting_seconds{job="$job"})')],
            runbooks=["ShardclockJobStartsLate"],
        ),
        Stat(
            "Crashes in a row",
            "Crashes in a row of the job with the most.",
            unit="none",
            color="green",
            color_from={1: "orange", 3: "red"},
            queries=[Query('max(shardclock_job_consecutive_crashes{job="$job"})')],
            runbooks=["ShardclockJobCrashes"],
        ),
    ],
)

STARTS = Row(
    title="Starts",
    panels=[
        TimeSeries(
            "Jobs by state",
            "How many jobs are in each state, including disabled and withdrawn jobs.",
            unit="short",
            style="stacked",
            queries=[Query('max by (state) (shardclock_jobs{job="$job"})', "{{state}}")],
        ),
        TimeSeries(
            "Starts that wait",
            (
                "The age of a job's oldest due start whose function is not called yet: no shard fires it, no worker"
                " begins it, places are missing, or its process does not start."
            ),
            unit="s",
            queries=[Query('max by (job_name) (shardclock_job_waiting_seconds{job="$job"})', "{{job_name}}")],
            runbooks=["ShardclockJobStartsLate"],
        ),
        TimeSeries(
            "Late starts",
            "How long after its due date the last start of each job began.",
            unit="s",
            queries=[Query('max by (job_name) (shardclock_job_start_lag_seconds{job="$job"})', "{{job_name}}")],
            runbooks=["ShardclockJobStartsLate"],
        ),
    ],
)

RUNS = Row(
    title="Runs",
    panels=[
        TimeSeries(
            "Runs by how they ended",
            "Runs that ended in a minute, of all jobs together.",
            unit="short",
            style="stacked",
            queries=[
                Query(
                    (
                        "sum by (run_outcome) (max by (job_name, run_outcome)"
                        ' (rate(shardclock_job_runs_total{job="$job"}[$__rate_interval]))) * 60'
                    ),
                    "{{run_outcome}}",
                )
            ],
        ),
        TimeSeries(
            "A run takes",
            "The duration of each job's last run; dashed: the longest permitted duration of all jobs.",
            unit="s",
            log=True,
            from_zero=False,
            queries=[
                Query('max by (job_name) (shardclock_job_last_run_seconds{job="$job"})', "{{job_name}}"),
                Query('max(shardclock_job_max_runtime_seconds{job="$job"})', "max_runtime", color="red", dashed=True),
            ],
        ),
        TimeSeries(
            "Failures in a row",
            "Runs that failed or crashed one after another, by job; 0 if the last run succeeded.",
            unit="short",
            queries=[
                Query('max by (job_name) (shardclock_job_consecutive_failures{job="$job"})', "{{job_name}}"),
            ],
            runbooks=["ShardclockJobNotSucceeding", "ShardclockJobCrashes"],
        ),
    ],
)

SUCCESS = Row(
    title="Success",
    panels=[
        TimeSeries(
            "Success overdue",
            (
                "The time since the oldest start without a success was due, by job; 0 within the permitted time. A"
                " running run counts until it succeeds."
            ),
            unit="s",
            queries=[Query('max by (job_name) (shardclock_job_success_overdue_seconds{job="$job"})', "{{job_name}}")],
            runbooks=["ShardclockJobNotSucceeding"],
        ),
        TimeSeries(
            "Since the last success",
            "The time since each job's last success, or since its declaration if it never succeeded.",
            unit="s",
            queries=[Query('max by (job_name) (shardclock_job_since_success_seconds{job="$job"})', "{{job_name}}")],
            runbooks=["ShardclockJobNotSucceeding"],
        ),
    ],
)

JOBS = Dashboard(
    name="jobs",
    description="Jobs: whether they start in time, how their runs end, and which jobs have not succeeded for long.",
    rows=[HEADLINE, STARTS, RUNS, SUCCESS],
)
