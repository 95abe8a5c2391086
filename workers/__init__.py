"""What acts: workers call the targets of timers that have fired.

A worker keeps slots as a shard does. It claims the deliveries of its slots that are due, calls their targets, and
settles in batches how each attempt ended: delivered, discarded, dead, or due again. A delivery is called at least once.
If a worker dies, the next worker calls its deliveries again. Only the answer to the newest claim counts.

User code never runs here. Each handler has processes of its own, which a worker starts, watches and kills: whatever a
handler does to its process, it fails alone. The code of such a process is `shardclock.executor`, in the client.

    worker          the keeper, with its three parts: deliveries, endpoints, runs
    deliveries      claim, renew and settle, and the loops that do it
    claim_planner   where in the deliveries the next claim looks (pure)
    lane_finder     endpoints that are new, where a search for them takes long
    lease_table     the leases of deliveries or runs, and when each was renewed
    permits         which deliveries may be called now
    settler         what has ended, and is not settled yet
    calls           tasks that are under way; a fault of ours in one ends the worker
    attempts        what follows an attempt (pure)

    context         the objects that the queues of handlers and endpoints share
    handlers        all handlers of an app
    handler         what is known of a handler: its limits and policy
    handler_queue   the deliveries of one handler: waiting, being called, under suspicion
    seat            one process of a handler, and the calls in it
    process         the process in which a handler runs, as its worker sees it
    user_process    the part of it that runs' processes share, called by a `call_socket`; started by Ray
                    (`ray_process`), or as a child of the worker (`local_process`)
    machine         the CPUs and the memory for such processes, without Ray

    ended           how such a process ended, in a sentence (pure)

    endpoints       all endpoints to which a worker has something to send
    endpoint_queue  the deliveries of one endpoint
    webhook         the message of one, and the settlement after its answer (pure)
    budget          how many webhooks a worker takes in hand, and of which tenant (pure)
    route           a stored endpoint, checked (pure)
    breaker         how many deliveries an endpoint may have in flight now, after what it answered (pure)

    runs            how runs of jobs are made; `needs` has the resources that a run asks for
    app             the user's modules, which `shardclock.executor.describe` imports in a process of its own
    python_environment      what such a process inherits from the shell

    stepped         the worker of a clock that a test moves; `here` has its handlers in the test's own process
    surroundings    clock, chance and network, which a test plays
    stats           what is counted, `families` its metrics, `settings` its numbers
"""
