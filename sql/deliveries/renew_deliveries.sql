-- Renews the leases of a worker's deliveries, except locked rows.
--
-- in:    :holder bigint, :timer_keys bigint[]
--        :claims integer[]: as they were claimed
--        :lease interval, :now timestamptz or null
-- out:   timer_key bigint
--        claims integer of each delivery that the caller still has
--        is_locked boolean: true: the row is locked, and its lease is unchanged
--        . A delivery without a row has ended, or another worker has claimed it
-- locks: the renewed rows, until the statement ends; skips rows that other transactions have locked
-- index: deliveries_pkey, two probes for each row, and a third probe for each row that was not renewed
with free as materialized (
    select d.timer_key
    from shardclock.deliveries d
    where d.timer_key = any (:timer_keys::bigint[]) and d.claimed_by = :holder::bigint
    for update of d skip locked
),
renewed as (
    update shardclock.deliveries d
    set claimed_until = coalesce(:now::timestamptz, clock_timestamp()) + :lease::interval
    where d.timer_key = any (array(select f.timer_key from free f))
        and d.claimed_by = :holder
        and (
            (d.timer_key, d.claims) in (
                select a.timer_key, a.claims from unnest(:timer_keys, :claims::integer[]) as a (timer_key, claims)
            )
        ) is true
    returning d.timer_key, d.claims
)
select r.timer_key, r.claims, false as is_locked
from renewed r
union all
-- The result may include a delivery that another worker is claiming at this moment. After this claim has committed, the
-- next call no longer returns the delivery.
select d.timer_key, d.claims, true
from shardclock.deliveries d
where d.timer_key = any (
        array(
            select a.timer_key
            from unnest(:timer_keys) as a (timer_key)
            where a.timer_key not in (select f.timer_key from free f)
        )
    )
    and d.claimed_by = :holder
    and (
        (d.timer_key, d.claims) in (
            select a.timer_key, a.claims from unnest(:timer_keys, :claims) as a (timer_key, claims)
        )
    ) is true
