-- Refuses invalid variables of a process: a value that is not a JSON object, a value that is too large or too deep, or
-- a number that no double can hold.
--
-- in:    variables jsonb
-- out:   nothing
-- locks: nothing
-- index: none
create or replace function shardclock.check_variables(variables jsonb)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    bytes constant integer := octet_length(variables::text);
begin
    if jsonb_typeof(variables) is distinct from 'object' then
        raise exception 'variables are %: give a JSON object, of names and values',
            coalesce(jsonb_typeof(variables), 'null')
            using errcode = 'invalid_parameter_value', constraint = 'invalid_variables';
    end if;
    -- A short text can't break the other rules, because it has less than 101 levels of brackets and less than 310
    -- digits.
    if bytes <= 200 then
        return;
    end if;
    if bytes > 1048576 then
        raise exception 'variables have % bytes: the limit is 1048576 (1 MiB)', bytes
            using errcode = 'invalid_parameter_value', constraint = 'invalid_variables';
    end if;
    if shardclock.is_too_deep(variables) then
        raise exception '%', shardclock.too_deep('variables', variables)
            using errcode = 'invalid_parameter_value', constraint = 'invalid_variables';
    end if;
    -- The pattern for 310 digits has two parts, because a repeat count in Postgres is at most 255. Most variables have
    -- fewer digits in total, and need no further check.
    if variables::text ~ '[0-9]{155}[0-9]{155}'
        and regexp_replace(variables::text, E'"(\\\\.|[^"\\\\])*"', '""', 'g') ~ '(^|[^0-9.])[0-9]{155}[0-9]{155}'
    then
        raise exception 'variables hold a number of more than 309 digits, which no double holds: write it as a text'
            using errcode = 'invalid_parameter_value', constraint = 'invalid_variables';
    end if;
end
$$;

comment on function shardclock.check_variables is 'Internal: Refuses invalid variables of a process.';
