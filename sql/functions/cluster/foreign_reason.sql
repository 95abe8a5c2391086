-- Returns the reason if a database belongs to another installation than `identity`; otherwise null.
--
-- Statements of coordinators call this function instead of hold_reason, because a coordinator may lead during an
-- operator's hold. A caller that has already read the identity row passes it as `owner`.
--
-- in:    identity text, owner shardclock.identity
-- out:   text
-- locks: nothing
-- index: identity_pkey
create or replace function shardclock.foreign_reason(identity text, owner shardclock.identity default null)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    here text;
begin
    if owner is null then
        select i.* into owner from shardclock.identity i where i.singleton;
    end if;
    if owner.origin is null or foreign_reason.identity is null then
        return null;
    end if;
    here := shardclock.origin();
    if owner.origin <> here then
        return format('the database is a copy, or was moved: it ran as %s and is %s now', owner.origin, here);
    end if;
    -- A database without a name belongs to every cluster, so that a cluster continues to fire while an operator gives
    -- the database a name.
    if owner.name <> foreign_reason.identity then
        return format(
            'the database belongs to %s, and the cluster %s', owner.name,
            case foreign_reason.identity
                when '' then 'has no SHARDCLOCK_IDENTITY'
                else 'is ' || foreign_reason.identity
            end
        );
    end if;
    return null;
end
$$;

comment on function shardclock.foreign_reason is
    'Internal: Returns the reason if this database belongs to another installation than `identity`; otherwise null.';
