"""Fire timers: each shard owns a part of the slots, and leases and fires the timers in these slots.

A shard runs eight loops. The claim loop fills a queue in memory, and the fire loop empties the queue. The `queue` has a
limited size, and an alarm for the soonest timer. If more timers are due than one statement can fire, `lanes` alternates
between plain timers and the schedules of each tenant:

    beats    sends a heartbeat four times a second, even while the other loops wait (`keepers.heartbeat`)
    claims   scans the shard's slots at every poll, fires overdue timers and leases the timers within the horizon. Once
             a second the loop also sweeps *all* slots for overdue timers of other shards (`scan_planner`). For timers
             that became overdue in an outage, the loop limits the firing rate, and divides it between tenants (`ramp`)
    fires    at the alarm, deletes the due timers from the table and appends their log records, in one statement. A
             second read explains why timers did not fire (`firing`); timers with a locked row are retried (`locked`).
             The loop also computes the first due date of new schedules
    notifications  starts a claim when a gateway sends a notification that a timer is due immediately
    record_notifications    notifies waiting consumers that timers have fired (`sql.notification_sender`)
    delivery_notifications  notifies workers of deliveries, and engines of signals
    maintenance     connects to the workers of the shard's machine, because the shard claims deliveries for these
                    workers (`hand_over_sender`), and resumes paused timers when their pauses end (`maintenance`)
    reports  once a second, sends counts of outcomes (`stats`) to the node's exporter (`metrics.report`)

A shard can fire any timer, without a coordinator. A shard can also take a dead shard's timers before the coordinator
has declared the other shard dead. A firing compares each row with the version that the shard has claimed (the fence).
Each occurrence therefore fires only once, even if a shard freezes, loses the network, or is declared dead while its
process runs. A shard stops by a drain: it stops claiming, finishes the current statement, and ends its holder. The end
of the holder releases all timers of the shard in one write.

`shard` has the loops, `settings` the settings, and `families` the metrics. `stepped` is a shard without loops, for
tests that set the clock. `keepers.clock` estimates Postgres's time.
"""
