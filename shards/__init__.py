"""What fires: each shard keeps one part of the slots, leases what will soon be due, and fires it on time.

A shard runs seven loops around Postgres. The claim loop fills a queue in memory (`queue`: soonest first, up to a limit,
with an alarm for the soonest; if more timers are due than one statement fires, `lanes` gives them turns). The fire loop
empties it:

    beats    sends a sign of life four times a second, even while the other loops wait (`keepers.heartbeat`)
    claims   scans the shard's slots at every poll: it fires what is overdue and leases what is due within the horizon.
             Once a second it also sweeps *all* slots for timers that another shard should have fired (`claim_planner`).
             It takes what an outage left overdue at a limited rate, and fairly between tenants (`ramp`)
    fires    when the alarm rings, takes the due timers out of the table and appends their records, in one statement.
             It reads again the timers that did not fire, to learn why (`firing`), and keeps those that another
             transaction has locked for another try (`locked`). It also gives new schedules their first date
    hints    hears from gateways that a timer is due at once, and lets the next claim begin
    record_hints    tells waiting consumers that timers have fired (`sql.hint_sender`)
    delivery_hints  tells workers that there are deliveries, and engines that there are signals
    reports  once a second, sends the counts of what became of the timers (`stats`) to the node's exporter, if there is
             one (`metrics.report`)

A shard needs neither a living coordinator nor the death of another shard. A shard may be frozen, cut off from the
network, or declared dead while it lives: the fence on each row (the version that was claimed) lets each occurrence fire
only once. A shard that is asked to stop drains: it stops claiming, finishes the statement in flight, and ends its
holder, which frees all its timers in one write.

`shard` puts the loops together, with the numbers in `settings`; `families` names the metrics. `stepped` is
the shard of a clock that a test moves, and `keepers.clock` estimates Postgres's time.
"""
