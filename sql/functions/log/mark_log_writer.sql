-- Marks the writer of records, before its first position is drawn: docs/decisions/0024-the-log-reads-by-position.md.
--
-- A transaction that inserts takes a mark: a shared advisory lock, held until the transaction ends, whose key is the
-- value of the sequence at that time. So all positions that it draws are above its mark, and no new record can appear
-- below the lowest mark.
--
-- in:    nothing
-- out:   trigger
-- locks: the mark, until the transaction ends
-- index: none
create or replace function shardclock.mark_log_writer()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Never by `select last_value`: that reads without the page's lock, and may see a value that is 32 too high while
    -- the sequence logs values ahead.
    drawn bigint := coalesce(pg_sequence_last_value('shardclock.position_seq'), 0);
    said text := current_setting('shardclock.log_marked', true);
    mark bigint := drawn;
begin
    -- One mark for each transaction is enough; taking the same one again needs no new lock. Whatever a client wrote
    -- into the setting, a mark is taken, and it is not above the drawn positions. A rollback to a savepoint undoes the
    -- setting together with the lock.
    if said ~ '^-?[0-9]{1,18}$' then
        if said::bigint between drawn - 1000000000 and drawn then
            mark := said::bigint;
        end if;
    end if;
    -- Any role that may connect may hold any key. So this waits for no key: a lower mark is as correct, and makes
    -- readers wait a little longer.
    for step in 1 .. 65536 loop
        if pg_try_advisory_xact_lock_shared(1936221036, (mark & 2147483647)::integer) then -- "shcl"
            perform set_config('shardclock.log_marked', mark::text, true);
            return null;
        end if;
        mark := mark - 1;
    end loop;
    raise exception 'the log can''t be written: all marks from % down are held by others, '
        'one by the backend with pid %: end it by pg_terminate_backend', drawn, (
        select l.pid
        from pg_locks l
        where l.locktype = 'advisory' and l.classid = 1936221036 and l.objsubid = 2 and l.mode = 'ExclusiveLock'
            and l.database = (select d.oid from pg_database d where d.datname = current_database())
        limit 1
    )
        using errcode = 'object_in_use';
end
$$;
