-- Breaks off the sessions in which holders claim and fire: what a process locks that stands still, nobody could have.
--
-- in:    $1 holders bigint[]
-- out:   pid integer, of each session that was broken off
-- locks: nothing
-- index: none, a row for each session of the server
with theirs as materialized (
    select a.pid
    from pg_stat_activity a
    where a.datname = current_database()
        and a.application_name in (
            select 'shardclock shard ' || use || ' ' || lpad(to_hex(h.holder), 16, '0')
            from unnest($1::bigint[]) as h (holder)
            cross join unnest(array['claims', 'fires']) as use
        )
)
select t.pid from theirs t where pg_terminate_backend(t.pid)
