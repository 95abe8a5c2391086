"""A Postgres of our own, so that trying Shardclock needs no database.

    server      one use of the Postgres server of a directory; processes share the server, and the last one stops it
    reasons     why a program of Postgres failed, from its output (pure)
    unnamed_user  making data as a user who has a number and no name
    modes       directories and lock files whose permissions do not depend on the umask
    memory      a place in memory for data that nobody keeps
    postmaster  the server process itself: its binaries, its data, its start and its end

This package knows nothing of timers and imports none of our packages: tests and benchmarks use it like `shardclock up`.
"""
