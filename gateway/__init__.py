"""The HTTP API: an ordinary stateless process that talks to Postgres only, so it accepts while no cluster runs.

Any number of gateways may run on one database. Each route is a use case of `service` or a verb of `sql.clients`; what
is decided here is only how HTTP says it: who asks, what a body may be, and which status an outcome has.

    serving    run it: `shardclock gateway`
    app        put the parts together
    settings   its numbers
    quotas     how much one tenant may have
    room       what one request takes of that
    standing   how much of that it has, as one gateway knows it
    limits     how many writes a second
    callers    whose request this is, and whether it may
    problems   what is answered when something is not done
    bodies     read a body, bounded
    asked      what several routes are asked alike
    paths      names in paths
    creating   the hot route: one timer
    combining  many creates at the same time become one statement
    idempotency, doing   a request that is sent again does nothing twice
    hinting    tell engines that callers have sent signals
    task_lines wait for service tasks, one after the other
    timers     look at timers, and change one
    bulk       many timers: lines of JSON, or one verb for all that a filter finds
    schedules  look ahead: what a rule will do
    waiting    wait until a timer has ended
    log        read the log, by pages or as it grows
    consumers  groups that read it, each record at least once
    deliveries, dead_letters, endpoints, jobs   what firings do
    processes, instances, messages, tasks, incidents   deployed models, and what goes on in them
    cluster, tenants, audit   the cluster, its tenants, and who did what, as an operator sees them
    recording  what operators do is recorded in the audit
    parts      what every route uses
    answers    what is answered: the models of the API's reference
    reference, examples, refusals   that reference, OpenAPI: with examples, and the problems of each operation
    page, page_parts   the same as a page for people
    listing    answers that may be long
    health     whether it works
    stats, families   how many requests, and how long they took
    watching   what no request tells: whether the loop stands still, which keys expire
    places     so many at once, and no more
"""
