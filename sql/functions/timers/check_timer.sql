-- Refuses a row that breaks a rule. The error looks like the error of a check constraint with the rule's name.
--
-- in:    nothing
-- out:   trigger
-- locks: nothing
-- index: none
create or replace function shardclock.check_timer()
returns trigger
language plpgsql
as $$
declare
    broken text[] := coalesce(
        shardclock.broken_rule(new), shardclock.reserved_rule(new), shardclock.stale_period(new, old)
    );
    named text := shardclock.named_target(new, old);
begin
    if broken is null and named is not null then
        broken := shardclock.unknown_target(named, new.tenant_id);
    end if;
    if broken[2] is null then
        return new;
    end if;
    raise exception '%', broken[2]
        using errcode = 'check_violation', constraint = broken[1], schema = tg_table_schema, table = tg_table_name;
end
$$;
