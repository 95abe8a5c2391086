"""Execute runs of jobs: at most one run of a job at a time, each run in a separate process.

One SQL statement starts a run, and another SQL statement stores its end: docs/decisions/0042-jobs.md. During a run, the
worker reads requests to end the run, renews the run's lease, and writes the run's reports.

    runner:                 the loops that start, watch and end runs
    table:                  the leases and the state of all runs, and the ends that are not written yet
    monitor:                read requests to end runs, renew leases, and write reports
    outcome_writer:         write the new states and the outcomes of runs
    live:                   execute one run
    report:                 the latest report of a run, and the last report that was written
    lifetime:               the time after which a run's process exits if its worker is dead
    process_pool:           the pool of processes, with limits for the number of runs
    process:                the worker's interface to a run's process
    poll_planner:           plan when the next poll for due starts of jobs runs, and how many starts it reads (pure)
    prefetch:               how many runs may start before a process is free (pure)
    notification_throttle:  the delay between a notification and the poll that it triggers (pure)
"""
