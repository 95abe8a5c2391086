"""How a worker makes runs of jobs: one at a time of each job, each in a process of its own.

The worker begins a run by one statement and ends it by one: docs/decisions/0042-jobs.md. In between it watches: whether
somebody wants the run to end, whether its lease goes on, and what the run has said.

    runner   the loops: begin, watch, end
    table    the runs in hand and under way, with their leases, and what is not written of them
    watch    what the worker hears of its runs and tells of them, and their leases
    writer   what runs do and how they end, into Postgres
    live     one run, from its begin to its end
    report   what it has said, and what of it is written
    lifetime how long its process lives if nobody reaches it any more
    places   the processes, and how many runs there are at a time
    process  the process of a run, as its worker sees it
    look_planner  when the worker looks for starts that are due, and how many it reads (pure)
    ahead    how many runs are begun before their places are free (pure)
    gate     when a hint leads to a look (pure)
    actor    the Ray actor in which a run is made
"""
