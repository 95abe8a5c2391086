"""The demo runs a cluster, and judges the run by its records.

The demo starts a cluster in a temporary directory, schedules thousands of timers on it, and kills a shard and a worker
half way. Then the demo compares the records with the expected end of each timer. The demo uses `cluster`, like
`shardclock up`:

    run       one run: start, schedule, watch and kill, judge
    example   the timers of a run, and the expected end of each delivery (pure)
    app       the handler, which workers import like a user's app
    calls     the calls that the handler notes
    verdict   judges the firings from the recorded rows (pure)
    delivery_verdict   judges the deliveries from the recorded rows and the noted calls (pure)

Tests use the same verdicts for their runs. Only the package `cli` imports this package.
"""
