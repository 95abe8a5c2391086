-- Parses a number or a name of a cron field; returns null for any other text.
--
-- in:    word text, names text[], lowest integer
-- out:   numeric
-- locks: nothing
-- index: none
create or replace function shardclock.cron_number(word text, names text[], lowest integer)
returns numeric
language sql
immutable
begin atomic
    select coalesce(
        array_position(names, word) - 1 + lowest, case when word ~ '^[0-9]+$' then word::numeric end
    );
end;

comment on function shardclock.cron_number is
    'Internal: Reads a number or a name of a cron field; null for any other text.';
