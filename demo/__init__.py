"""The demo runs a cluster, and checks the run with the records in the log.

The demo starts a cluster in a temporary directory, schedules thousands of timers on it, and kills a shard and a worker
half way. Then the demo compares the records with the expected end of each timer. The demo uses `cluster`, like
`shardclock up`:

    run       one run: start, schedule, watch and kill, check
    example   the timers of a run, and the expected end of each delivery (pure)
    app       the handler, which workers import like a user's app
    calls     the calls that the handler records
    verdict   checks the firings with the recorded rows (pure)
    delivery_verdict   checks the deliveries with the recorded rows and calls (pure)

Tests also use these checks. Only the package `cli` imports this package.
"""
