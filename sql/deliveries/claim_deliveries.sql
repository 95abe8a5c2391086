-- Claims due deliveries for a worker, about the same number for each target and each tenant.
--
-- A lane is the deliveries of one tenant to one target.
--
-- in:    :holder bigint: the worker
--        :lease interval
--        :batch integer: the limit of deliveries
--        :targets text[]: the targets that the worker can call
--        :places jsonb: for each target, the limit of deliveries of all tenants together; without an entry, the limit
--          is the batch. The key of an endpoint's entry is "<target> <tenant_id>"
--        :webhooks integer: the limit for an endpoint without an entry; 0: the worker sends no webhooks
--        :full_tenants text[]: the tenants for which an endpoint without an entry gets no deliveries
--        :after_target text and :after_tenant text: the search for lanes begins after this lane; '' and '' is the
--          beginning
--        one array for each field of the lanes to read, or nulls: search all lanes, and read each from its soonest row:
--        :lane_targets text[], :lane_tenants text[]
--        :behind_at timestamptz[] and :behind_key bigint[]: the row after which the lane is read
--        :now timestamptz or null (Postgres's clock)
-- out:   a row for each claimed delivery, in the order of its lane:
--        timer_key bigint, process_instance_key bigint, element_instance_key bigint, due_date timestamptz, fired_at
--          timestamptz, next_attempt_at timestamptz, redriven_at timestamptz or null, occurrence bigint, claims
--          integer, failed_attempts integer, given_back integer, tenant_id text, timer_type text, target text,
--          target_element_id text, name text, schedule text, payload text, attempts_max integer or null
--        then one row about the scan, with these columns, which are null in all other rows:
--        server_time timestamptz
--        next_target text and next_tenant text: the :after_target and the :after_tenant of the next scan
--        lanes bigint: the number of lanes with deliveries for the worker
--        saturated boolean: more deliveries may be due
--        is_empty boolean: a search of all lanes has found no delivery, not even one that is claimed or not due yet
-- locks: the claimed rows, until the statement ends; skips rows that other transactions have locked
-- index: deliveries_by_lane, one probe for each searched lane, then each due lane from its soonest row or from the
--        worker's row; deliveries_pkey, one probe for each claimed row; holders_pkey, holders_ended
with recursive me as materialized (
    select h.part, h.part_count, hold.reason is not null as is_held
    from shardclock.holders h
    cross join lateral (select shardclock.hold_reason(h.identity) as reason offset 0) hold
    where h.holder = :holder::bigint
        and h.ended_at is null
        and h.part is not null
        -- On a copy of the database, workers deliver nothing (docs/decisions/0016-a-copy-does-not-fire.md). During an
        -- operator's hold, workers deliver only events for operators.
        and (hold.reason is null or shardclock.foreign_reason(h.identity) is null)
),
-- include: included/ended_workers.sql
lane (target, tenant_id, soonest, number) as (
    (
        select d.target, d.tenant_id, d.next_attempt_at, 1
        from me
        cross join lateral (
            select d.target, d.tenant_id, d.next_attempt_at
            from shardclock.deliveries d
            where (d.target, d.tenant_id) > (:after_target::text, :after_tenant::text)
            order by d.target, d.tenant_id, d.next_attempt_at
            limit 1
        ) d
        where :lane_targets::text[] is null
    )
    union all
    select d.target, d.tenant_id, d.next_attempt_at, p.number + 1
    from lane p
    cross join lateral (
        select d.target, d.tenant_id, d.next_attempt_at
        from shardclock.deliveries d
        where (d.target, d.tenant_id) > (p.target, p.tenant_id)
        order by d.target, d.tenant_id, d.next_attempt_at
        limit 1
    ) d
    where p.number < 500
),
known as (
    select l.target, l.tenant_id, l.soonest, '-infinity'::timestamptz as behind_at, 0::bigint as behind_key
    from lane l
    union all
    select k.target, k.tenant_id, d.next_attempt_at, k.behind_at, k.behind_key
    from unnest(:lane_targets, :lane_tenants::text[], :behind_at::timestamptz[], :behind_key::bigint[])
        as k (target, tenant_id, behind_at, behind_key)
    cross join me
    cross join lateral (
        select d.next_attempt_at
        from shardclock.deliveries d
        where d.target = k.target
            and d.tenant_id = k.tenant_id
            and (d.next_attempt_at, d.timer_key + 0) > (k.behind_at, k.behind_key)
        order by d.next_attempt_at, d.timer_key + 0
        limit 1
    ) d
),
open_lane as materialized (
    select
        l.target, l.tenant_id, l.soonest, l.behind_at, l.behind_key,
        case
            when l.target like 'webhook:%'
                then coalesce(
                    (:places::jsonb ->> (l.target || ' ' || l.tenant_id))::integer,
                    case when l.tenant_id = any (:full_tenants::text[]) then 0 else :webhooks::integer end
                )
            else coalesce(
                -- If the limit is smaller than the number of tenants, the statement chooses the tenants at random.
                (
                    (:places ->> l.target)::integer
                    + count(*) over (partition by l.target)
                    - row_number() over (partition by l.target order by random())
                ) / count(*) over (partition by l.target),
                :batch::integer
            )::integer
        end as places
    from known l
    where l.soonest <= coalesce(:now::timestamptz, now())
        and (l.target = any (:targets::text[]) or l.target like 'webhook:%')
        and (l.target like 'webhook:notify/%' or not (select me.is_held from me))
),
share as materialized (
    select count(*) as lanes, greatest(1, :batch / greatest(1, count(*)))::integer as deliveries
    from open_lane o
    where o.places > 0
),
due as materialized (
    select d.timer_key, o.target, o.tenant_id, least(o.places, share.deliveries) as share
    -- Read the few lanes of handlers first. Otherwise hundreds of endpoints with a claimed oldest delivery could use up
    -- the limit.
    from (select * from open_lane o where o.places > 0 order by o.target like 'webhook:%', o.soonest) o
    cross join share
    cross join me
    cross join lateral (
        select d.timer_key
        from shardclock.deliveries d
        where d.target = o.target
            and d.tenant_id = o.tenant_id
            -- Don't use clock_timestamp() here: an index scan with a volatile bound does not stop after the due rows.
            and d.next_attempt_at <= coalesce(:now::timestamptz, now())
            -- Skip earlier rows of the index, which are claimed or deleted: docs/decisions/0040-deliveries.md.
            and (d.next_attempt_at, d.timer_key + 0) > (o.behind_at, o.behind_key)
            and d.slot % me.part_count = me.part
            and shardclock.is_free(
                d.claimed_by, d.claimed_until, coalesce(:now::timestamptz, now()), :lease,
                array(select ended.holder from ended)
            )
        order by d.next_attempt_at, d.timer_key + 0
        limit least(o.places, share.deliveries)
        for update of d skip locked
    ) d
    limit :batch
),
claimed as (
    -- An array instead of a join, so that the planner must probe the key (docs/decisions/0005-queue-plans.md).
    update shardclock.deliveries d
    set claimed_by = :holder, claimed_until = coalesce(:now::timestamptz, clock_timestamp()) + :lease,
        claims = d.claims + 1
    where d.timer_key = any (array(select due.timer_key from due))
    returning
        d.timer_key, d.process_instance_key, d.element_instance_key, d.due_date, d.fired_at, d.next_attempt_at,
        d.redriven_at, d.occurrence, d.claims, d.failed_attempts, d.given_back, d.tenant_id, d.timer_type, d.target,
        d.target_element_id, d.name, d.schedule, d.payload::text as payload, d.attempts_max
)
(
    select
        c.timer_key, c.process_instance_key, c.element_instance_key, c.due_date, c.fired_at, c.next_attempt_at,
        c.redriven_at, c.occurrence, c.claims, c.failed_attempts, c.given_back, c.tenant_id, c.timer_type, c.target,
        c.target_element_id, c.name, c.schedule, c.payload, c.attempts_max,
        null::timestamptz as server_time, null::text as next_target, null::text as next_tenant, null::bigint as lanes,
        null::boolean as saturated, null::boolean as is_empty
    from claimed c
    order by c.next_attempt_at, c.timer_key
)
union all
-- The scan's six columns are in a separate row. As columns of each delivery, they would make the read of the rows a
-- quarter slower.
select
    null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
    clock_timestamp(),
    coalesce((select l.target from lane l where l.number = 500), ''),
    coalesce((select l.tenant_id from lane l where l.number = 500), ''),
    (select share.lanes from share),
    (select count(*) from due) >= :batch
        or exists (
            select from due group by due.target, due.tenant_id, due.share having count(*) >= due.share
        )
        -- A lane was not read if deliveries of other tenants used up the target's limit.
        or exists (
            select
            from open_lane o
            where o.places = 0 and o.target not like 'webhook:%' and (:places ->> o.target)::integer > 0
        ),
    :lane_targets is null
        and (:after_target, :after_tenant) = ('', '')
        and exists (select from me)
        and not exists (select from lane)
