-- Returns the moment at which a pause ends; null: the pause has no end.
--
-- The function refuses an end in the past. Without an end, it also refuses a choice for missed occurrences.
--
-- in:    until timestamptz, delay text, missed text
-- out:   timestamptz
-- locks: nothing
-- index: none
create or replace function shardclock.end_of_pause(
    until timestamptz default null,
    delay text default null,
    missed text default 'policy'
)
returns timestamptz
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    ends_at constant timestamptz := case
        when delay is null then until else shardclock.delay_from_now(delay, 'UTC', 'until')
    end;
begin
    if ends_at is null then
        if shardclock.missed_choice(missed) is not null then
            raise exception 'missed % goes with until: a resume by hand has its own choice; leave it out',
                quote_literal(missed)
                using errcode = 'invalid_parameter_value', constraint = 'invalid_missed';
        end if;
        return null;
    end if;
    if ends_at <= clock_timestamp() then
        raise exception 'until % is not after now: name a later moment, or leave it out, and the pause lasts until a resume',
            quote_literal(coalesce(delay, ends_at::text))
            using errcode = 'invalid_parameter_value', constraint = 'invalid_until';
    end if;
    return shardclock.check_due_date(ends_at, 'until', ends_at::text);
end
$$;

comment on function shardclock.end_of_pause is
    'Internal: Checks and returns the end of a pause, given as a moment or as a delay from now.';
