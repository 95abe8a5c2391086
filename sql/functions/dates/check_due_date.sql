-- Returns a due date; refuses a due date outside of the years 1 to 9999.
--
-- in:    due_date timestamptz, field text, given text
-- out:   timestamptz
-- locks: nothing
-- index: none
create or replace function shardclock.check_due_date(due_date timestamptz, field text, given text)
returns timestamptz
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    -- The first moment of the year 1 is refused, because asyncpg sends it as -infinity. The last moment of the year
    -- 9999 is refused, because a paused timer has this due_date.
    if due_date > '0001-01-01 00:00:00+00' and due_date < '9999-12-31 23:59:59.999998+00' then
        return due_date;
    end if;
    raise exception '% % is out of range: a timer is due in the years 1 to 9999', field, quote_literal(left(given, 60))
        using errcode = 'invalid_parameter_value', constraint = 'invalid_' || field;
end
$$;
