-- Terminates the database sessions of the given holders, because a frozen process may have locked rows. Does not
-- terminate the sessions for heartbeats and notifications.
--
-- in:    :holders bigint[]
-- out: pid integer of each terminated session; sessions in a commit that waits for a synchronous standby are not
--          terminated
-- locks: nothing
-- index: none; it reads a row for each session of the server
with theirs as materialized (
    select a.pid
    from pg_stat_activity a
    where a.datname = current_database()
        -- 'shardclock shard claims 00000000000000ab'
        and split_part(a.application_name, ' ', 1) = 'shardclock'
        and split_part(a.application_name, ' ', 3) not in ('beats', 'notifications')
        and split_part(a.application_name, ' ', 4) = any (
            array(select lpad(to_hex(h.holder), 16, '0') from unnest(:holders::bigint[]) as h (holder))
        )
        -- Skips sessions in a commit: a termination would end their wait for a standby
        -- (docs/decisions/0027-a-commit-that-waits.md).
        and a.wait_event is distinct from 'SyncRep'
)
select t.pid from theirs t where pg_terminate_backend(t.pid)
