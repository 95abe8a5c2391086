"""The dashboard of jobs: their starts, the ends of their runs, and overdue successes."""

from k8s.monitoring.dashboards.spec import Dashboard, Query, Row, Stat, TimeSeries

HEADLINE = Row(
    height=4,
    panels=[
        Stat(
            "Jobs",
            "The jobs of the app, including disabled jobs.",
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
                "The time since both a shard and a worker last sent heartbeats: a job's start needs both. This time"
                " grows while all shards or all workers are dead, even if no start is due."
            ),
            unit="s",
            color="green",
            color_from={5: "orange", 60: "red"},
            queries=[Query('max(shardclock_jobs_last_tick_seconds{job="$job"})')],
            runbooks=["ShardclockNoWorkerAlive", "ShardclockNoShardAlive"],
        ),
        Stat(
            "Until the next start",
            "The time until the next start of any job. No value: no start is scheduled; below zero: the start is due.",
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
            "The largest number of crashes in a row of any job.",
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
                "For each job, the age of the oldest due start whose function is not called yet. The causes: no shard"
                " fires the start, no worker begins its run, or the process of the run does not start."
            ),
            unit="s",
            queries=[Query('max by (job_name) (shardclock_job_waiting_seconds{job="$job"})', "{{job_name}}")],
            runbooks=["ShardclockJobStartsLate"],
        ),
        TimeSeries(
            "Late starts",
            "The delay of each job's last start after its due date.",
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
            "Runs by outcome",
            "How many runs of all jobs end in a minute, by outcome.",
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
            "For each job, the consecutive runs up to the last run that failed or crashed; 0 after a success.",
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
                "The time since the due date of the oldest start without a success, by job; 0 if no success is"
                " overdue. A start whose run has not ended yet also counts."
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
    description="Whether jobs start in time, how their runs end, and which jobs have not succeeded for a long time.",
    rows=[HEADLINE, STARTS, RUNS, SUCCESS],
)
