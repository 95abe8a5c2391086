-- Returns the moment after a delay from now, on a zone's clock.
--
-- in:    delay text, zone text, field text
-- out:   timestamptz
-- locks: nothing
-- index: none
create or replace function shardclock.delay_from_now(delay text, zone text, field text)
returns timestamptz
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return shardclock.check_due_date(
        shardclock.later(now(), shardclock.parse_delay(delay, field), zone), field, delay
    );
exception when datetime_field_overflow then
    raise exception '% % is too long: it must end before year 10000', field, quote_literal(left(delay, 60))
        using errcode = 'invalid_parameter_value', constraint = 'invalid_' || field;
end
$$;
