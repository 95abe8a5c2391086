"""What acts: workers call the targets of timers that have fired.

A worker keeps slots as a shard does. It claims the deliveries of its slots that are due, calls their targets, and
settles in batches how each attempt ended: delivered, discarded, dead, or due again. A delivery is called at least once.
If a worker dies, the next worker calls its deliveries again. Only the answer to the newest claim counts.

User code never runs here. Each handler has processes of its own, which a worker starts, watches and kills: whatever a
handler does to its process, it fails alone.

    worker     the loops: beats, claims, settlements, renewals
    line       the deliveries of one handler in this worker: waiting, being called, under suspicion
    seat       one process of a handler, and the calls in it
    process    the Ray actor in which a handler runs
    attempts   what follows an attempt (pure)
    bucket     how many calls a second (pure)
    handler    what is known of a handler: its limits and policy
    hand       what a worker has in hand, and when each lease was renewed
    claim_planner  where in the deliveries the next claim looks (pure)
    niceness   how much of a short processor a handler's process gets
    app        the user's modules, which `describe` imports in a process of its own
    endpoints  the endpoints to which a worker has something to send
    endpoint_line  the deliveries of one endpoint in this worker
    route      a stored endpoint, checked (pure)
    runs       how runs of jobs are made
    breaker    how many deliveries an endpoint may have in flight now, after what it answered (pure)
"""
