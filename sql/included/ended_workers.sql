-- The ended workers: their claims are free.
ended as materialized (
    -- A suspended worker may be running, so its claims are valid until their leases end.
    select h.holder from shardclock.holders h where h.ended_at > coalesce(:now::timestamptz, now()) - :lease::interval
),
