"""What fires: each shard keeps one part of the slots, leases what will soon be due, and fires it on time.

A shard runs four small loops around Postgres. The claim loop fills a queue in memory, the fire loop empties it:

    beats    sends a sign of life four times a second, even while the other loops wait (`heartbeat`)
    claims   scans the shard's slots at every poll: it fires what is overdue and leases what is due within the horizon.
             Once a second it also sweeps *all* slots for timers that another shard should have fired (`claiming`).
             It takes what an outage left overdue at a limited rate, and fairly between tenants (`ramp`)
    queue    holds the leased timers, soonest first, up to a limit, with an alarm for the soonest (`queue`)
    fires    when the alarm rings, takes the due timers out of the table and appends their records, in one statement.
             It reads the timers that did not fire again, to learn why (`firing`), and keeps those that another
             transaction has locked for another try (`locked`). It also gives new schedules their first date
    hints    tells waiting consumers that timers have fired (`hints`)

A shard needs neither a living coordinator nor the death of another shard. A shard may be frozen, cut off from the
network, or declared dead while it lives: the fence on each row (the version that was claimed) lets each occurrence fire
only once. A shard that is asked to stop drains: it stops claiming, finishes the statement in flight, and ends its
holder, which frees all its timers in one write.

A shard counts what became of its timers (`stats`) and sends the counts once a second to the node's exporter
(`metrics`), if there is one.

`shard` puts the loops together, `actor` is the Ray actor around them, `clock` estimates Postgres's time.
"""
