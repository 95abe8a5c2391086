-- Renews the leases of deliveries that a worker still has in hand.
--
-- in:    :holder bigint, :timer_keys bigint[], :claims integer[] (as they were claimed), :lease interval,
--        :now timestamptz or null
-- out:   timer_key bigint, claims integer, of those that are still the caller's. A missing one was claimed by somebody
--        since, or is gone
-- locks: the renewed rows, for the statement
-- index: deliveries_pkey, one probe for each row
update shardclock.deliveries d
set claimed_until = coalesce(:now::timestamptz, clock_timestamp()) + :lease::interval
where d.timer_key = any (:timer_keys::bigint[])
    and d.claimed_by = :holder::bigint
    and (
        (d.timer_key, d.claims) in (
            select a.timer_key, a.claims from unnest(:timer_keys, :claims::integer[]) as a (timer_key, claims)
        )
    ) is true
returning d.timer_key, d.claims
