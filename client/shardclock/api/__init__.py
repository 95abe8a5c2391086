"""The fields, answers and errors that the HTTP client and the SQL client share.

    fields:   the fields of a timer, and their JSON
    answers:  the models of answers
    changes:  the outcome of a verb, read from the timer's state
    processes:  the answers about processes
    jobs:     the answers about jobs and their runs
    errors:  the classes of errors

This package needs neither HTTP nor a driver of Postgres; users import from `shardclock.http` and `shardclock.sql`.
"""
