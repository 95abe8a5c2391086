-- Ends the sessions in which these holders claim and fire: a frozen process would keep its rows locked.
--
-- in:    :holders bigint[]
-- out:   pid integer of each session that was ended; a session whose commit waits for a synchronous standby is left
-- locks: nothing
-- index: none; it reads a row for each session of the server
with theirs as materialized (
    select a.pid
    from pg_stat_activity a
    where a.datname = current_database()
        and a.application_name in (
            select 'shardclock shard ' || use || ' ' || lpad(to_hex(h.holder), 16, '0')
            from unnest(:holders::bigint[]) as h (holder)
            cross join unnest(array['claims', 'fires']) as use
        )
        -- A commit that waits for a standby would stop waiting: docs/decisions/0027-a-commit-that-waits.md.
        and a.wait_event is distinct from 'SyncRep'
)
select t.pid from theirs t where pg_terminate_backend(t.pid)
