-- Returns a text for the log, and refuses a text that is too long, as the HTTP API does.
--
-- in:    field text, given text, most integer
-- out:   text: the given text; null for null
-- locks: nothing
-- index: none
create or replace function shardclock.checked_text(field text, given text, most integer default 1000)
returns text
language plpgsql
immutable
strict
set search_path = pg_catalog, pg_temp
as $$
begin
    if length(given) > most then
        raise exception '% % is refused: string should have at most % characters', field, shardclock.shown(given), most
            using errcode = 'invalid_parameter_value', constraint = 'invalid_' || field;
    end if;
    return given;
end
$$;

comment on function shardclock.checked_text is
    'Internal: Returns a text; refuses a text that is too long for a record.';
