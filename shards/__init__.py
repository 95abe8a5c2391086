"""The firing of timers: each shard keeps one part of the slots, leases timers before they are due, and fires on time.

A shard runs eight loops around Postgres. The claim loop fills a queue in memory (`queue`: soonest first, up to a limit,
with an alarm for the soonest timer; if more timers are due than one statement fires, `lanes` gives them turns). The
fire loop empties this queue:

    beats    sends a heartbeat four times a second, even while the other loops wait (`keepers.heartbeat`)
    claims   scans the shard's slots at every poll: it fires overdue timers and leases the timers of the horizon.
             Once a second the loop also sweeps *all* slots for timers that another shard should have fired
             (`scan_planner`). The loop takes an outage's overdue timers at a limited rate, and fairly between tenants
             (`ramp`)
    fires    when the alarm rings, takes the due timers out of the table and appends their records, in one statement.
             Timers that did not fire are read again, to learn the reason (`firing`); timers with a locked row are kept
             for another try (`locked`). The loop also gives new schedules their first date
    notifications  gets notifications from gateways that a timer is due immediately, and lets the next claim begin
    record_notifications    tells waiting consumers that timers have fired (`sql.notification_sender`)
    delivery_notifications  tells workers that there are deliveries, and engines that there are signals
    maintenance     connects to the workers of its machine, to pass on the deliveries that its firings claim for them
                    (`hand_over`), and ends the pauses whose end has come (`maintenance`)
    reports  once a second, sends the counts of the timers' outcomes (`stats`) to the node's exporter, if there is one
             (`metrics.report`)

A shard can fire any timer without a coordinator, and before another shard is known to be dead. A shard may be frozen,
cut off from the network, or declared dead while it lives: the fence on each row (the version that was claimed) lets
each occurrence fire only once. A shard that is asked to stop drains: the shard stops claiming, finishes the statement
in flight, and ends its holder. The end of the holder frees all timers of the shard in one write.

`shard` puts the loops together, with the numbers in `settings`; `families` names the metrics. `stepped` is
the shard for tests that move the clock, and `keepers.clock` estimates Postgres's time.
"""
