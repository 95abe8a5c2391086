-- Reads an ISO 8601 duration, and refuses any other text.
--
-- in:    given text, field text
-- out:   interval
-- locks: nothing
-- index: none
create or replace function shardclock.parse_delay(given text, field text)
returns interval
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    few_digits constant text := '^P(?=.)([0-9]{1,3}Y)?([0-9]{1,4}M)?([0-9]{1,5}W)?([0-9]{1,6}D)?'
        '(T(?=[0-9])([0-9]{1,7}H)?([0-9]{1,9}M)?([0-9]{1,10}S)?)?$';
    plain text := shardclock.plain_length(given);
    fraction text[] := regexp_match(plain, 'T.*[0-9][.,]([0-9]+)([HMS])$');
    whole text := case when fraction is null then plain else regexp_replace(plain, '[.,][0-9]+([HMS])$', E'\\1') end;
    refusal text;
begin
    -- A duration that matches few_digits is shorter than 10,000 years, so it needs no further check.
    if length(given) > 100 or whole !~ few_digits then
        select j.refusal into refusal from shardclock.judged_duration(given) j;
        if refusal is not null then
            raise exception '% %', field, refusal
                using errcode = 'invalid_parameter_value', constraint = 'invalid_' || field;
        end if;
    end if;
    -- Fractions finer than a microsecond are rounded up, so that a timer is never early.
    return whole::interval + coalesce(
        ceil(
            ('0.' || fraction[1])::numeric
            * case fraction[2] when 'H' then 3600000000 when 'M' then 60000000 else 1000000 end
        ) * interval '1 microsecond',
        interval '0'
    );
exception when interval_field_overflow or datetime_field_overflow then
    raise exception '% % is too long: it must end before year 10000', field, quote_literal(left(given, 60))
        using errcode = 'invalid_parameter_value', constraint = 'invalid_' || field;
end
$$;
