-- Returns the reason if a cluster with this identity must not fire on this database; otherwise null.
--
-- There are two reasons: the database belongs to another installation, or an operator has suspended all firings (a
-- hold).
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
    -- A fast path for the frequent case, a database without a hold. Each claim calls this function.
    if owner.held_why is null then
        return shardclock.foreign_reason(hold_reason.identity, owner);
    end if;
    -- If the database was on hold when it was copied, the reason for a copy is returned, too.
    return concat_ws(
        '; ', shardclock.foreign_reason(hold_reason.identity, owner), 'an operator said: ' || owner.held_why
    );
end
$$;

comment on function shardclock.hold_reason is
    'Internal: Returns the reason why a cluster with this identity must not fire on this database; null: it may fire.';
