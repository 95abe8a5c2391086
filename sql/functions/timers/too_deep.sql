-- in:    what text, document jsonb
-- out:   text
-- locks: nothing
-- index: none
create or replace function shardclock.too_deep(what text, document jsonb)
returns text
language sql
immutable
begin atomic
    select format('%s %s is nested deeper than 100 levels; flatten it', what, left(document::text, 60));
end;

comment on function shardclock.too_deep is 'Internal: Refuses JSON that is nested too deeply, in a sentence.';
