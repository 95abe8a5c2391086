-- Returns the refusal of a repeat's period.
--
-- in:    given text, period text
-- out:   text
-- locks: nothing
-- index: none
create or replace function shardclock.period_refusal(given text, period text)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    found record;
begin
    select * into found from shardclock.judged_duration(period);
    return case
        when found.refusal is not null
            then format('%s has no valid period: %s', shardclock.shown(given), found.refusal)
        when found.average_days = 0
            then shardclock.shown(given) || ' has a period of zero; write one longer than zero, such as PT1S'
    end;
end
$$;

comment on function shardclock.period_refusal is
    'Internal: Returns the refusal of a repeat''s period; null: it is valid.';
