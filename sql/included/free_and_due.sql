-- Restricts the timers `t` to the free timers of the slot `s` that are due before the horizon.
where t.slot = s.slot
    -- Don't use clock_timestamp() here: an index scan with a volatile bound does not stop at the horizon.
    and t.due_date <= coalesce(:now::timestamptz, now()) + :horizon::interval
    and t.due_date > s.since
    and shardclock.is_free(
        t.claimed_by, t.claimed_until, coalesce(:now::timestamptz, now()), :lease,
        array(select freed.holder from freed)
    )
