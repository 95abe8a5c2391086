"""Make runs of jobs: at most one run of a job at a time, each run in a separate process.

One statement begins a run, and another statement ends it: docs/decisions/0042-jobs.md. During the run, the worker reads
requests to end the run, renews the run's lease, and writes the run's reports.

    runner:                 the loops: begin, watch, end
    table:                  the leases and the state of all runs, and their unwritten ends
    monitor:                requests to end runs, leases and reports
    outcome_writer:         write the advances and the outcomes of runs
    live:                   one run from its begin to its end
    report:                 the latest report of a run, and the last report that was written
    lifetime:               the time after which a run's process ends itself, if its worker is dead
    process_pool:           the processes of runs, and their number
    process:                the worker's interface to a run's process
    poll_planner:           the time and the size of the next poll for due starts (pure)
    prefetch:               the number of runs that begin before a process is free (pure)
    notification_throttle:  the delay from a notification to its poll (pure)
"""
