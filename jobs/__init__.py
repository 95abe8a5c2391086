"""Define what a job is, which states it has, and what follows a run, without touching anything outside the process.

A job is recurring work with a memory. Its next start is a timer; a run is one attempt of the delivery that the timer's
firing left. `docs/decisions/0042-jobs.md` says why.

    states   the states of a job, and how a run can end
    spec     a job as its app declares it, checked
    entry    a job as a file describes it
    policy   how a job is run, as it is stored
    ending   what follows a run: another attempt, or the next start

Everything here is a pure function of its arguments: chance comes in as `jitter`.
"""
