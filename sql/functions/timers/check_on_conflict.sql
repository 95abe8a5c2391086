-- Refuses an unknown value of on_conflict, and a value that needs a name if the timer has no name.
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
        raise exception 'on_conflict % is unknown: use refuse, ignore or replace', quote_literal(left(on_conflict, 60))
            using errcode = 'invalid_parameter_value', constraint = 'invalid_on_conflict';
    end if;
    if name is null then
        raise exception 'on_conflict % needs a name: give the timer a name', quote_literal(on_conflict)
            using errcode = 'invalid_parameter_value', constraint = 'invalid_on_conflict';
    end if;
end
$$;
