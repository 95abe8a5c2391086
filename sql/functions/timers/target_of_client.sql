-- Returns a client's target, and refuses a reserved target.
--
-- The trigger on timers can't check this, because it can't distinguish the rows of clients from the rows of jobs.
--
-- in:    target text
-- out:   text
-- locks: nothing
-- index: none
create or replace function shardclock.target_of_client(target text)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if shardclock.reserved('target', target) is null then
        return target;
    end if;
    raise exception '%', (shardclock.reserved('target', target))[2]
        using errcode = 'check_violation', constraint = 'reserved_target', schema = 'shardclock', table = 'timers';
end
$$;

comment on function shardclock.target_of_client is
    'Internal: Returns a client''s target, and refuses a reserved target.';
