-- Marks a transaction as a writer of the log, so that readers wait for its records. A trigger calls this function
-- before the transaction draws a position.
--
-- A mark is a shared advisory lock that lasts until the transaction ends. The lock's key is the current value of the
-- position sequence. The transaction draws all its positions above its mark. So no new record can appear below the
-- lowest mark (docs/decisions/0024-the-log-reads-by-position.md).
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
    -- A select of the sequence's column last_value would not lock the sequence's page, and might return a value that is
    -- 32 too high.
    drawn bigint := coalesce(pg_sequence_last_value('shardclock.position_seq'), 0);
    setting text := current_setting('shardclock.log_marked', true);
    mark bigint := drawn;
begin
    -- The first call in a transaction locks a mark, and stores the mark in a setting. Later calls in the transaction
    -- read the setting, and lock the same mark again. A forged setting is harmless: a mark above the sequence's value
    -- is ignored. A rollback to a savepoint undoes both the setting and the lock.
    if setting ~ '^-?[0-9]{1,18}$' then
        if setting::bigint between drawn - 1000000000 and drawn then
            mark := setting::bigint;
        end if;
    end if;
    -- If another session has locked this key exclusively, don't wait, because any role can lock any key for any time.
    -- Take a lower mark instead. With a lower mark readers wait a little longer; their result is still correct.
    for step in 1 .. 65536 loop
        if pg_try_advisory_xact_lock_shared(1936221036, (mark & 2147483647)::integer) then -- "shcl"
            perform set_config('shardclock.log_marked', mark::text, true);
            return null;
        end if;
        mark := mark - 1;
    end loop;
    raise exception 'the log can''t be written: other sessions hold all marks from % down, one of them the backend with pid %: '
        'end it by pg_terminate_backend', drawn, (
        select l.pid
        from pg_locks l
        where l.locktype = 'advisory' and l.classid = 1936221036 and l.objsubid = 2 and l.mode = 'ExclusiveLock'
            and l.database = (select d.oid from pg_database d where d.datname = current_database())
        limit 1
    )
        using errcode = 'object_in_use', constraint = 'log_marks_taken';
end
$$;
