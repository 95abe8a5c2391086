-- Returns the refusal of a date that Python can't read.
--
-- in:    moment timestamptz, field text
-- out:   text[]: the code, and the sentence
-- locks: nothing
-- index: none
create or replace function shardclock.out_of_range(moment timestamptz, field text)
returns text[]
language sql
immutable
begin atomic
    select array[
        'invalid_' || field,
        format('%s %L is out of range: a timer is due in the years 1 to 9999', field, moment)
    ];
end;
