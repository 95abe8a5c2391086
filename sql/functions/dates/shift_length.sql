-- Parses a shift: a duration that may begin with a minus sign.
--
-- in:    shift text
-- out:   interval
-- locks: nothing
-- index: none
create or replace function shardclock.shift_length(shift text)
returns interval
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return case when shift ^@ '-' then -1 else 1 end
        * shardclock.parse_delay(regexp_replace(shift, '^-(?=[Pp])', ''), 'shift');
end
$$;
