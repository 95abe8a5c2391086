"""Run an embedded Postgres, so that users can try Shardclock without a database server.

    server      one use of a directory's Postgres server; processes share the server, and the last process that uses the
                server stops it
    reasons     the cause of a failure, from the output of a Postgres program (pure)
    unnamed_user create the data as an operating system user with a number but without a name
    modes       directories and lock files with permissions that do not depend on the umask
    memory      find a file system in memory for temporary data
    postmaster  the server process: its binaries, its data, its start and its end

The package is independent of timers, and imports no other package of Shardclock. `shardclock up`, the tests and the
benchmarks use this package.
"""
