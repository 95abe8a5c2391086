"""Define jobs and their states, and decide how a job continues after a run, without any I/O.

A job is recurring work with a stored state. A job's next start is a timer. A firing timer creates a delivery; a run is
one attempt of this delivery. `docs/decisions/0042-jobs.md` has the reasons.

    states:   the states of a job and the outcomes of a run
    spec:     a checked job, as its app declares it
    entry:    a job as a file describes it
    policy:   the stored policy of a job: timeouts, retries, resources
    next_attempt:  decides how a job continues after a run: another attempt, or the next start

All functions of this package are pure: the caller passes randomness as `jitter`.
"""
