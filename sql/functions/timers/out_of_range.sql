-- Words the refusal of a date that Python can't read.
--
-- in:    moment timestamptz, field text
-- out:   text[]: the rule, and the sentence
-- locks: nothing
-- index: none
create or replace function shardclock.out_of_range(moment timestamptz, field text)
returns text[]
language sql
immutable
begin atomic
    select array[
        field || '_is_in_years_1_to_9999',
        format('%s "%s" is out of range: a timer''s dates are in the years 1 to 9999', field, moment)
    ];
end;
