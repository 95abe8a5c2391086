-- Returns the refusal if a tenant's timer can't have this target; otherwise null.
--
-- in:    target text, tenant_id text
-- out:   text[]: the code, and the sentence
-- locks: nothing
-- index: endpoints_pkey or handlers_pkey; for a job, the index of unknown_job
create or replace function shardclock.unknown_target(target text, tenant_id text)
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    withdrawn_at timestamptz;
    disabled_at timestamptz;
    disabled_why text;
begin
    if unknown_target.target = 'log' then
        return null;
    end if;
    if unknown_target.target like 'job:%' then
        return shardclock.unknown_job(substr(unknown_target.target, 5), unknown_target.tenant_id);
    end if;
    if unknown_target.target like 'webhook:%' then
        select e.disabled_at, e.disabled_why into disabled_at, disabled_why
        from shardclock.endpoints e
        where e.tenant_id = unknown_target.tenant_id and e.name = substr(unknown_target.target, 9);
        if found and disabled_at is null then
            return null;
        end if;
        if found then
            return array[
                'target_disabled',
                format(
                    'target %L was disabled at %s (%s): enable it (shardclock endpoints enable)',
                    left(target, 60), disabled_at, disabled_why
                )
            ];
        end if;
    else
        select h.withdrawn_at into withdrawn_at from shardclock.handlers h where h.target = unknown_target.target;
        if found and withdrawn_at is null then
            return null;
        end if;
        if found then
            return array[
                'target_withdrawn',
                format(
                    'target %L was withdrawn at %s: start the cluster with the app that declares it',
                    left(target, 60), withdrawn_at
                )
            ];
        end if;
    end if;
    return array['unknown_target', format(
        'target %L is unknown: %s', left(target, 60),
        coalesce(
            (
                select 'the targets are log, ' || string_agg(t.target, ', ' order by t.target)
                from (
                    (
                        select h.target
                        from shardclock.handlers h
                        where h.withdrawn_at is null
                        order by h.target
                        limit 20
                    )
                    union all
                    (
                        select 'webhook:' || e.name
                        from shardclock.endpoints e
                        where e.tenant_id = unknown_target.tenant_id and e.disabled_at is null
                        order by e.name
                        limit 20
                    )
                ) t
            ),
            'the only target is log; an app has more (shardclock up --app), '
            'and so has a tenant with endpoints (shardclock endpoints add)'
        )
    )];
end
$$;

comment on function shardclock.unknown_target is
    'Internal: Returns the refusal if a tenant''s timer can''t have a target; null: the target is accepted.';
