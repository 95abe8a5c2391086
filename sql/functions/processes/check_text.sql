-- Refuses a text that is null, too short or too long.
--
-- in:    field text, given text, most integer, fewest integer
-- out:   nothing
-- locks: nothing
-- index: none
create or replace function shardclock.check_text(field text, given text, most integer, fewest integer default 1)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if given is null or length(given) not between fewest and most then
        raise exception '% % is refused: give % to % characters', field, quote_nullable(left(given, 60)), fewest, most
            using errcode = 'invalid_parameter_value', constraint = 'invalid_' || field;
    end if;
end
$$;

comment on function shardclock.check_text is
    'Internal: Refuses a text that is null, too short or too long for its column.';
