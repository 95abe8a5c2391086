-- Refuses an on_conflict that is unknown, or that needs a name.
--
-- in:    on_conflict text, name text
-- out:   nothing
-- locks: nothing
-- index: none
create or replace function shardclock.check_on_conflict(on_conflict text, name text)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if on_conflict is null or on_conflict not in ('refuse', 'ignore', 'replace') then
        raise exception 'on_conflict "%" is unknown: use refuse, ignore or replace', left(on_conflict, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    if name is null then
        raise exception 'on_conflict "%" goes with a name: give the timer one', on_conflict
            using errcode = 'invalid_parameter_value';
    end if;
end
$$;
