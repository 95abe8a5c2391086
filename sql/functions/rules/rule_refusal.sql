-- Returns the refusal of a rule for which no shard can compute due dates.
--
-- in:    given text, zone text
-- out:   text
-- locks: nothing
-- index: none
-- needs: cron_refusal, repeat_refusal
create or replace function shardclock.rule_refusal(given text, zone text)
returns text
language sql
stable
begin atomic
    select case
        when ltrim(given, E' \t\r\n+-') ~ '^[RrPp]' then shardclock.repeat_refusal(given, zone)
        else shardclock.cron_refusal(given)
    end;
end;

comment on function shardclock.rule_refusal is
    'Internal: Returns the refusal of a rule for which no shard can compute due dates; null: the rule is valid.';
