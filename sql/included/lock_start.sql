-- Locks the delivery `d` of the start `c`, if the delivery is due and free.
cross join lateral (
    select d.timer_key, d.claims, d.failed_attempts, d.claimed_until
    from shardclock.deliveries d
    where d.timer_key = c.timer_key
        and d.next_attempt_at <= coalesce(:now::timestamptz, now())
        and shardclock.is_free(
            d.claimed_by, d.claimed_until, coalesce(:now::timestamptz, now()), :lease,
            array(select ended.holder from ended)
        )
    for update of d skip locked
) d
