-- Returns the reason if a cluster with this identity must not fire on this database; otherwise null.
--
-- There are two reasons: the database belongs to another installation, or an operator has put the database on hold.
--
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
    owner shardclock.identity;
begin
    select i.* into owner from shardclock.identity i where i.singleton;
    -- Each claim calls this function, and most databases have no hold. So this case is checked first.
    if owner.held_why is null then
        return shardclock.foreign_reason(hold_reason.identity, owner);
    end if;
    -- A copy of a database that was on hold has both reasons.
    return concat_ws(
        '; ', shardclock.foreign_reason(hold_reason.identity, owner), 'an operator said: ' || owner.held_why
    );
end
$$;

comment on function shardclock.hold_reason is
    'Internal: Returns the reason why a cluster with this identity must not fire on this database; null: it may fire.';
