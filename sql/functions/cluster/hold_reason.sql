-- in:    identity text
-- out:   text
-- locks: nothing
-- index: identity_pkey
create or replace function shardclock.hold_reason(identity text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    whose shardclock.identity;
begin
    select i.* into whose from shardclock.identity i where i.singleton;
    -- Every claim asks: nearly always this is all.
    if whose.held_why is null then
        return shardclock.foreign_reason(hold_reason.identity, whose);
    end if;
    -- Both, and this first: a copy of a database that was on hold is on hold for two reasons.
    return concat_ws(
        '; ', shardclock.foreign_reason(hold_reason.identity, whose), 'an operator said: ' || whose.held_why
    );
end
$$;

comment on function shardclock.hold_reason is
    'Internal: Says why a cluster that is configured for an installation may not fire here; null: it may.';
