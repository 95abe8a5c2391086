"""Call the targets of timers that have fired.

A worker has a part of the slots, like a shard. A worker claims the due deliveries of its slots, calls their targets,
and settles the outcomes in batches: delivered, discarded, dead, or due again. A delivery is called at least once. If a
worker dies, the slot's next worker calls the deliveries again. If a delivery was claimed again, only the outcome of the
newest claim is stored.

User code never runs in the worker's process. A worker starts, watches and kills the processes of each handler
separately, so a fault of one handler stops no other handler. `shardclock.executor` in the client is the code of these
processes.

    worker:              the keeper and its four parts: hand-overs, deliveries, endpoints, runs
    hand_over_receiver:  grant places to the shards of the same machine, and receive deliveries from these shards
    deliveries:          claim, renew and settle deliveries, in loops
    delivery_planner:    the positions at which the next claim reads (pure)
    lane_finder:         find new endpoints while searches are slow
    lease_table:         the leases of deliveries or runs, and the time of each lease's last renewal
    permits:             decide which deliveries may be called now
    settler:             the outcomes that are not settled yet, and their settlement in batches
    task_set:            the asyncio tasks of calls; an unexpected error in a task stops the worker
    attempts:            decide whether a delivery ends after an attempt, or gets another attempt (pure)

    context:             the objects that the queues of handlers and endpoints share
    handlers:            all handlers of an app
    handler:             the declaration of a handler: its limits and policy
    handler_queue:       the deliveries of one handler: waiting, being called, or suspects
    failure_log:         one log line a second for failed attempts
    handler_slot:        one process of a handler, and its calls
    process:             the worker's interface to a handler's process
    user_process:        the interface to the processes of handlers and of runs, over a `call_socket`; the process is a
                         child of Ray (`ray_process`), of Ray's actor (`ray_child`) or of the worker (`local_process`)
    machine:             the CPUs and the memory for the processes of user code, without Ray

    process_exit:        describe in one sentence how a process ended (pure)

    endpoints:           all endpoints that have deliveries in this worker
    endpoint_queue:      the deliveries of one endpoint
    attempt_log:         attempts to call endpoints, until they are written to the database
    webhook:             write a webhook's message, and decide the settlement after the endpoint's answer (pure)
    webhook_budget:      the limit of webhooks in a worker's memory, shared between tenants (pure)
    route:               check a stored endpoint (pure)
    breaker:             limit an endpoint's concurrent attempts according to the endpoint's answers (pure)

    runs:                runs of jobs; `run_resources` has the resources that a run reserves
    app:                 the user's modules, which `shardclock.executor.describe` imports in a separate process
    interpreter:         the Python that runs the user's code, which may belong to another environment
    python_environment:  the environment variables of the processes of user code

    stepped:             the worker for tests that move the clock; `in_process` calls handlers in the test's own process
    dependencies:        the clock, the jitter and the network, which tests replace
    stats:               the counters of a worker; `families` declares the metrics of these counters, `settings` the
                         worker's settings
"""
