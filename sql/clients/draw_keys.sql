-- Draws timer_keys before the timers are written, so that a client can look them up after a write with unknown outcome.
--
-- in:    :count integer, :tenants text: whom the session serves from now on, so that no statement of its own need say it;
--        null: as before
-- out:   one row: timer_keys bigint[], `count` of them, ascending; drawn_at timestamptz, the moment from which schedules
--        are planned
-- locks: nothing
-- index: none
with durable as materialized (
    -- Without a write of its own, a transaction does not flush the log at its commit, even if it has an xid. The log
    -- record that moves the sequence on may be from another transaction, not committed yet: after a crash the same keys
    -- would be drawn again.
    select
        pg_logical_emit_message(true, 'shardclock', '') as lsn,
        case when :tenants::text is not null then set_config('shardclock.tenants', :tenants, false) end as served
)
select array_agg(k.timer_key) as timer_keys, now() as drawn_at
from (
    select nextval('shardclock.timer_key_seq') as timer_key
    from durable
    cross join generate_series(1, :count)
) k
