-- Returns the refusal of JSON that is nested too deeply.
--
-- in:    subject text, document jsonb
-- out:   text
-- locks: nothing
-- index: none
create or replace function shardclock.too_deep(subject text, document jsonb)
returns text
language sql
immutable
begin atomic
    select format('%s %s is nested deeper than 100 levels; flatten it', subject, left(document::text, 60));
end;

comment on function shardclock.too_deep is 'Internal: Returns the refusal of JSON that is nested too deeply.';
