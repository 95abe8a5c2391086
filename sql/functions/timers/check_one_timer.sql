-- Refuses a call unless exactly one of key and name is given.
--
-- in:    timer_key bigint, name text
-- out:   nothing
-- locks: nothing
-- index: none
create or replace function shardclock.check_one_timer(timer_key bigint, name text)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if num_nonnulls(timer_key, name) <> 1 then
        raise exception 'say which timer: give either timer_key or name (with its tenant_id)'
            using errcode = 'invalid_parameter_value', constraint = 'needs_one_timer';
    end if;
end
$$;
