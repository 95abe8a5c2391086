-- Converts operator events to deliveries for the subscribed endpoints.
--
-- For each endpoint, kind and subject, a call writes at most one delivery per interval. Further events wait until the
-- interval ends. The next delivery contains their number.
--
-- in:    every interval, most integer, now timestamptz
-- out:   integer: the number of deliveries
-- locks: an advisory lock, until the transaction ends (a concurrent call returns 0); the subscriptions (while another
--        transaction removes a subscription, the call returns 0); the events, the throttles and the new deliveries;
--        skips locked events
-- index: operator_events_pkey; event_subscriptions_pkey; all event_throttles, which has rows of the last interval only
create or replace function shardclock.send_events(every interval, most integer, now timestamptz default null)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    moment constant timestamptz := coalesce(send_events.now, clock_timestamp());
    free integer;
    sent integer;
begin
    if not exists (select from shardclock.operator_events)
        and not exists (select from shardclock.event_throttles)
        or not pg_try_advisory_xact_lock(1936221558) -- "shev"
    then
        return 0;
    end if;
    -- Lock the subscriptions against removal. Without this lock, a deadlock is possible: this transaction waits for a
    -- subscription that a second transaction removes, and the second transaction waits for the throttle rows that this
    -- transaction has locked.
    perform from shardclock.event_subscriptions for key share skip locked;
    get diagnostics free = row_count;
    if free < (select count(*) from shardclock.event_subscriptions) then
        return 0;
    end if;
    with taken as materialized (
        delete from shardclock.operator_events e
        where e.event_id = any (
            array(
                select o.event_id
                from shardclock.operator_events o
                order by o.event_id
                limit send_events.most
                for update skip locked
            )
        )
        returning e.*
    ),
    news as materialized (
        select s.tenant_id, s.endpoint, t.kind, t.subject, count(*)::integer as events, max(t.event_id) as newest
        from taken t
        join shardclock.event_subscriptions s on s.tenant_id = t.tenant_id and t.kind = any (s.kinds)
        -- An endpoint does not get the event that it was disabled.
        where (t.kind, t.subject) is distinct from ('endpoint.disabled', s.endpoint)
            and coalesce(t.failures >= s.failures_min, true)
        group by s.tenant_id, s.endpoint, t.kind, t.subject
    ),
    known as materialized (
        select
            coalesce(n.tenant_id, h.tenant_id) as tenant_id, coalesce(n.endpoint, h.endpoint) as endpoint,
            coalesce(n.kind, h.kind) as kind, coalesce(n.subject, h.subject) as subject,
            h.sent_at, n.newest is not null as is_new,
            -- A time far in the future was written before the clock was set back.
            (h.sent_at > moment - every and h.sent_at <= moment + every) is not true as is_due,
            coalesce(n.events, 0) + coalesce(h.waiting, 0) as events,
            case when t.event_id is null then h.event else to_jsonb(t) end as event
        from news n
        full join shardclock.event_throttles h
            on (h.tenant_id, h.endpoint, h.kind, h.subject) = (n.tenant_id, n.endpoint, n.kind, n.subject)
        left join taken t on t.event_id = n.newest
    ),
    forgotten as (
        delete from shardclock.event_throttles h
        using known k
        where (h.tenant_id, h.endpoint, h.kind, h.subject) = (k.tenant_id, k.endpoint, k.kind, k.subject)
            and k.is_due
            and k.events = 0
    ),
    throttled as (
        insert into shardclock.event_throttles as h (tenant_id, endpoint, kind, subject, sent_at, waiting, event)
        select
            k.tenant_id, k.endpoint, k.kind, k.subject, case when k.is_due then moment else k.sent_at end,
            case when k.is_due then 0 else k.events end, case when not k.is_due then k.event end
        from known k
        where k.events > 0 and (k.is_due or k.is_new)
        on conflict (tenant_id, endpoint, kind, subject) do update
        set sent_at = excluded.sent_at, waiting = excluded.waiting, event = excluded.event
    ),
    written as (
        insert into shardclock.deliveries (
            timer_key, next_attempt_at, due_date, created_at, occurrence, slot, tenant_id, timer_type, target, name,
            payload
        )
        select
            key.timer_key, moment, (k.event ->> 'happened_at')::timestamptz, (k.event ->> 'happened_at')::timestamptz, 1,
            key.timer_key % 840, k.tenant_id, 'NOTIFICATION', 'webhook:notify/' || k.endpoint, k.kind,
            shardclock.body_of_event(k.event, k.events - 1, s.text_only)
        from known k
        join shardclock.event_subscriptions s on s.tenant_id = k.tenant_id and s.endpoint = k.endpoint
        join shardclock.endpoints e
            on e.tenant_id = s.tenant_id and e.name = s.endpoint and e.disabled_at is null
        cross join lateral (
            select nextval('shardclock.timer_key_seq') as timer_key where k.kind is not null
        ) key
        where k.is_due and k.events > 0
        returning timer_key
    )
    select count(*) into sent from written;
    return sent;
end
$$;

comment on function shardclock.send_events is
    'Internal: Converts the operator events to deliveries for the subscribed endpoints.';
