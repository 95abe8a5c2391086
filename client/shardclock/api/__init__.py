"""Hold what the client over HTTP and the client over SQL have in common, so that both say the same.

    fields   what is asked: the fields of a timer, and how they are written
    answers  what is answered
    changes  what the state means that a verb leaves its timer in
    processes  what is answered about processes
    jobs     the answers about jobs and their runs
    errors   why something was not done, by class

It needs neither HTTP nor a driver of Postgres; users import from `shardclock.http` and `shardclock.sql`.
"""
