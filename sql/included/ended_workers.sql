-- The ended workers: their claims are free.
ended as materialized (
    -- Suspended workers are not included: they may be running, so their claims are valid until their leases end.
    select h.holder from shardclock.holders h where h.ended_at > coalesce(:now::timestamptz, now()) - :lease::interval
),
