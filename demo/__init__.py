"""The demo: a run of a whole cluster that judges itself.

It starts a cluster in a temporary directory, schedules thousands of timers on it, and kills a shard and a worker half
way. Then it compares what was recorded with what was promised. It is a user of `cluster`, as `shardclock up` is, and
one that knows in advance how each of its timers must end:

    run       one run: start, schedule, watch and kill, judge
    example   the timers that it fires, and how the delivery of each must end (pure)
    app       its handler, which workers import as they import a user's
    calls     what the handler notes of each call
    verdict   what the recorded rows prove about the firings (pure)
    delivery_verdict   what they and the noted calls prove about the deliveries (pure)

Tests judge their own runs by the same verdicts. Of the packages only `cli` imports this one.
"""
