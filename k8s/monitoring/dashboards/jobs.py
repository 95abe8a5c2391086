"""The dashboard of jobs: their starts, the ends of their runs, and overdue successes."""

from k8s.monitoring.dashboards.spec import Dashboard, Query, Row, Stat, TimeSeries

HEADLINE = Row(
    height=4,
    panels=[
        Stat(
            "Jobs",
            "All jobs of the app, also disabled ones.",
            unit="none",
            sparkline=False,
            queries=[Query('sum(max by (state) (shardclock_jobs{job="$job", state!="withdrawn"}))')],
        ),
        Stat(
            "Running now",
            "Jobs with a run that has begun and not ended.",
            unit="none",
            queries=[
                Query('sum(max by (state) (shardclock_jobs{job="$job", state=~"starting|running|terminating"}))'),
            ],
        ),
        Stat(
            "Last tick",
            (
                "How long ago a shard and a worker, which start jobs, have both given a sign of life. It grows while"
                " all shards or all workers are dead, whether or not a start is due."
            ),
            unit="s",
            color="green",
            color_from={5: "orange", 60: "red"},
            queries=[Query('max(shardclock_jobs_last_tick_seconds{job="$job"})')],
            runbooks=["ShardclockNoWorkerAlive", "ShardclockNoShardAlive"],
        ),
        Stat(
            "Until the next start",
            "The soonest next start of a job. Without a value nothing is scheduled; below zero it is due.",
            unit="s",
            color="red",
            color_from={-1: "text"},
            queries=[Query('max(shardclock_jobs_next_start_seconds{job="$job"})')],
            runbooks=["ShardclockJobStartsLate"],
        ),
        Stat(
            "Longest wait of a start",
            "The age of the oldest due start, over all jobs, without a call of its function.",
            unit="s",
            color="green",
            color_from={10: "orange", 300: "red"},
            queries=[Query('max(shardclock_job_waiting_seconds{job="$job"})')],
            runbooks=["ShardclockJobStartsLate"],
        ),
        Stat(
            "Crashes in a row",
            "Of the job that crashed most often in a row.",
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
            "How many jobs are in each state, the disabled and withdrawn ones among them.",
            unit="short",
            style="stacked",
            queries=[Query('max by (state) (shardclock_jobs{job="$job"})', "{{state}}")],
        ),
        TimeSeries(
            "Starts that wait",
            (
                "The age of a job's oldest due start without a call of its function: no shard fires it, no worker"
                " begins it, places are short, or its process does not come up."
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
            "How long the last run of each job took; dashed: how long the slowest job's may take.",
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
                "How long ago the first start was due that should have succeeded since, by job; 0 while a job has"
                " time. A run that is going counts until it succeeds."
            ),
            unit="s",
            queries=[Query('max by (job_name) (shardclock_job_success_overdue_seconds{job="$job"})', "{{job_name}}")],
            runbooks=["ShardclockJobNotSucceeding"],
        ),
        TimeSeries(
            "Since the last success",
            "How long ago each job succeeded, or was declared if it never has.",
            unit="s",
            queries=[Query('max by (job_name) (shardclock_job_since_success_seconds{job="$job"})', "{{job_name}}")],
            runbooks=["ShardclockJobNotSucceeding"],
        ),
    ],
)

JOBS = Dashboard(
    name="jobs",
    description="Jobs: whether they start in time, how their runs end, and which has not succeeded for long.",
    rows=[HEADLINE, STARTS, RUNS, SUCCESS],
)
