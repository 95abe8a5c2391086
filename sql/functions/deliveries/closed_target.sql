-- Returns the reason if a redriven delivery to a target would fail; otherwise null.
--
-- A missing handler is not a reason, because the delivery waits until an app declares the handler.
-- `webhook:notify/NAME` is the target of operator events for the endpoint NAME; clients' timers can't have this target.
--
-- in:    target text, tenant_id text
-- out:   text
-- locks: nothing
-- index: endpoints_pkey; the indexes of unknown_target
-- needs: unknown_target
create or replace function shardclock.closed_target(target text, tenant_id text)
returns text
language sql
stable
begin atomic
    select case
        when closed_target.target like 'webhook:%' and not exists (
            select from shardclock.endpoints e
            where e.tenant_id = closed_target.tenant_id and e.name = substr(replace(closed_target.target, 'webhook:notify/', 'webhook:'), 9)
        ) then format(
            'target %L has no endpoint: add it (shardclock endpoints add), or discard its dead letters',
            left(closed_target.target, 60)
        )
        when closed_target.target like 'webhook:%' or closed_target.target like 'job:%'
            then (
                shardclock.unknown_target(
                    replace(closed_target.target, 'webhook:notify/', 'webhook:'), closed_target.tenant_id
                )
            )[2]
    end;
end;

comment on function shardclock.closed_target is
    'Internal: Returns the reason if a redriven delivery to a target would fail; null: workers can call the target, or the delivery waits for an app.';
