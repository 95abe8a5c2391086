"""What fires: each shard keeps one part of the slots, leases what will soon be due, and fires it on time.

A shard is four small loops around Postgres, with its memory between two of them:

    beats    a sign of life four times a second, whatever the other loops wait for (`pulse`)
    claims   every poll, one walk over its slots: fire what is overdue, lease what is due within the horizon,
             once a second also sweep *all* slots for what somebody else should have fired (`claiming`);
             what an outage left overdue is taken at a rate, and fairly between tenants (`ramp`)
    queue    what is leased, soonest first, bounded; an alarm for the soonest (`queue`)
    fires    when the alarm rings, one statement takes the timers out of the table and appends their records;
             what did not fire is read again and sorted out (`firing`); a schedule that has no date yet gets one

Nothing here needs the coordinator to be alive, nor any other shard to be dead. A shard may be frozen, cut off, or
declared dead while it lives: the fence on each row (`claimed_by = holder`) keeps every firing to one. When it is
asked to go it drains: it stops claiming, finishes the statement in flight, and ends its holder, which frees all it
held in one write.

What became of timers is counted (`tally`), and told once a second to the node's exporter (`metrics`), if there is one.

`shard` puts the loops together, `actor` is the Ray actor around them, `clock` knows Postgres's time.
"""
