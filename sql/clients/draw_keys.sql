-- Draws timer_keys for timers that will be inserted later. If the outcome of the insert is unknown, the client searches
-- for these keys.
--
-- in:    :count integer
--        :tenants text: sets the tenants of the session, without a separate statement; null: does not change the
--          session's tenants
-- out:   one row:
--        timer_keys bigint[]: ascending, :count keys
--        drawn_at timestamptz: the moment after which schedules begin
-- locks: nothing
-- index: none
with durable as materialized (
    -- Forces a flush of the write-ahead log at the commit. Without the flush, a crash could lose the sequence's new
    -- value, and the sequence would draw the same keys again.
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
