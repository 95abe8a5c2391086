-- Reads the due signals of the holder's instances, with the instances' states.
--
-- The statement claims no rows: a later write of an instance fails if the instance's version has changed since this
-- read.
--
-- Each tenant has a lane (a queue); the lanes of tenants with the least usage come first. Each lane has an equal share
-- of the batch, which limits the signals that the statement returns for the lane. For each lane, the statement reads at
-- most ten times as many signals. In a lane, cancellations come first and wait for no other signal. The statement reads
-- the oldest and the newest cancellations, so that many early cancellations don't hide a later cancellation. Signals
-- that are not cancellations wait until their instance has begun. These signals also wait for an earlier signal of the
-- instance that was deferred because no engine could process it.
--
-- in:    :holder bigint: the engine
--        :batch integer: the limit of signals
--        :bytes bigint: the batch ends when its signals and states have this size
--        :stripe integer: the number of the stripe, from 0. A stripe is a part of the engine's instances
--        :stripes integer: the number of stripes
--        :without bigint[]: instances that are left out, except for their cancellations
--        :tenants text[] and :ahead_s double precision[]: for each tenant, the seconds of engine time by which it has
--          used more than other tenants
--        :after_tenant text: search for lanes after this tenant; '': search from the beginning
--        :behind_tenants text[], :behind_at timestamptz[] and :behind_key bigint[]: the lanes with a cursor; each is
--          read after its cursor
-- out:   a row for each signal, in the order of processing; a cancellation may have two rows:
--        timer_key bigint: the signal's key
--        instance_key bigint
--        is_first boolean: the instance must begin
--        token bigint or null, node_id text or null, tenant_id text
--        signal text or null: JSON; null: a timer has fired
--        failed_attempts integer, due_at timestamptz, version bigint, definition_key bigint, process_id text,
--          parent_key bigint, parent_token bigint, root_key bigint
--        state text: only in the first row of its instance
--        has_ended boolean: the instance has ended; if the instance must begin: its root instance has ended
--        server_time timestamptz
--        if the instance of a cancellation has not begun, version is null, and its start supplies the other values
--        then rows with a null timer_key: a row for each lane with more signals and no result, and for each lane that
--          was not read, with tenant_id and the lane's cursor in due_at and instance_key; and, if there may be more
--          lanes, a row with:
--        next_tenant text: the next :after_tenant
-- locks: nothing
-- index: deliveries_by_lane, one probe for each lane, and up to ten times its share; deliveries_of_cancellations, up to
--        the same; deliveries_deferred, deliveries_of_throws, deliveries_pkey, instances_pkey and definitions_pkey, one
--        probe for each signal; holders_pkey
with recursive
-- include: included/own_part.sql
lane (target, tenant_id, soonest, number) as (
    (
        select d.target, d.tenant_id, d.next_attempt_at, 1
        from me
        cross join lateral (
            select d.target, d.tenant_id, d.next_attempt_at
            from shardclock.deliveries d
            where (d.target, d.tenant_id) > ('process:instance', :after_tenant::text)
            order by d.target, d.tenant_id, d.next_attempt_at
            limit 1
        ) d
        where d.target = 'process:instance'
    )
    union all
    select d.target, d.tenant_id, d.next_attempt_at, p.number + 1
    from lane p
    cross join lateral (
        select d.target, d.tenant_id, d.next_attempt_at
        from shardclock.deliveries d
        where d.target = p.target and d.tenant_id > p.tenant_id
        order by d.target, d.tenant_id, d.next_attempt_at
        limit 1
    ) d
    where p.number < 500
),
open_lane as materialized (
    select
        l.target, l.tenant_id, row_number() over (order by coalesce(u.ahead_s, 0), l.soonest) as turn,
        coalesce(b.behind_at, '-infinity') as behind_at, coalesce(b.behind_key, 0) as behind_key
    from lane l
    left join unnest(:tenants::text[], :ahead_s::double precision[]) as u (tenant_id, ahead_s)
        on u.tenant_id = l.tenant_id
    left join unnest(:behind_tenants::text[], :behind_at::timestamptz[], :behind_key::bigint[])
        as b (tenant_id, behind_at, behind_key)
        on b.tenant_id = l.tenant_id
    where l.soonest <= now()
),
share as materialized (
    select greatest(1, :batch::integer / greatest(1, count(*)))::integer as signals from open_lane
),
due as (
    select
        o.turn,
        d.rank,
        d.timer_key,
        coalesce(d.process_instance_key, d.timer_key) as instance_key,
        d.process_instance_key,
        d.element_instance_key,
        d.target_element_id,
        d.tenant_id,
        d.payload,
        d.failed_attempts,
        d.next_attempt_at,
        case
            when d.process_instance_key is null and d.payload ->> 'root' ~ '^[0-9]{1,18}$'
                then (d.payload ->> 'root')::bigint
        end as start_root_key
    from (select * from open_lane l order by l.turn) o
    cross join share
    cross join me
    cross join lateral (
        (
            select
                0 as rank, c.timer_key, c.process_instance_key, c.element_instance_key, c.target_element_id, c.tenant_id,
                c.payload, c.failed_attempts, c.next_attempt_at
            from (
                select
                    c.timer_key, c.process_instance_key, c.element_instance_key, c.target_element_id, c.tenant_id,
                    c.payload, c.failed_attempts, c.next_attempt_at, c.timer_key + 0 as place
                from shardclock.deliveries c
                where (c.target = 'process:instance' and c.payload ->> 'kind' = 'cancel') is true
                    and c.tenant_id = o.tenant_id
                    and c.next_attempt_at <= now()
                order by c.next_attempt_at, c.timer_key + 0
                limit 10 * share.signals
            ) c
            where c.process_instance_key % 840 % me.part_count = me.part
                and c.process_instance_key / 840 % :stripes::integer = :stripe::integer
            order by c.next_attempt_at, c.place
            limit share.signals
        )
        union all
        (
            select
                1, d.timer_key, d.process_instance_key, d.element_instance_key, d.target_element_id, d.tenant_id, d.payload,
                d.failed_attempts, d.next_attempt_at
            from (
                select
                    d.timer_key, d.process_instance_key, d.element_instance_key, d.target_element_id, d.tenant_id,
                    d.payload, d.failed_attempts, d.next_attempt_at, d.timer_key + 0 as place
                from shardclock.deliveries d
                where d.target = o.target
                    and d.tenant_id = o.tenant_id
                    and d.next_attempt_at <= now()
                    and (d.next_attempt_at, d.timer_key + 0) > (o.behind_at, o.behind_key)
                order by d.next_attempt_at, d.timer_key + 0
                limit 10 * share.signals
            ) d
            where coalesce(d.process_instance_key, d.timer_key) % 840 % me.part_count = me.part
                and coalesce(d.process_instance_key, d.timer_key) / 840 % :stripes = :stripe
                and coalesce(d.process_instance_key, d.timer_key) <> all (:without::bigint[])
                and (
                    (
                        d.element_instance_key is null
                        and d.process_instance_key is not null
                        and d.payload ->> 'kind' = 'cancel'
                    )
                    or (
                        -- A signal waits for the start of its instance. The start may be due later than the signal,
                        -- after a redrive with a rate. A signal to a token other than the process itself (token 1)
                        -- needs no check, because its instance has begun. A subquery reads the start, because with a
                        -- join a plan that was made for an empty table would read all deliveries for each signal.
                        (
                            d.element_instance_key > 1
                            or coalesce(
                                (
                                    select b.next_attempt_at
                                    from shardclock.deliveries b
                                    where b.timer_key = d.process_instance_key
                                ),
                                d.next_attempt_at
                            ) <= d.next_attempt_at
                        )
                        and (
                            not exists (
                                select
                                from shardclock.deliveries e
                                where (e.target = 'process:instance' and e.failed_attempts > 0) is true
                                    and coalesce(e.process_instance_key, e.timer_key)
                                        = coalesce(d.process_instance_key, d.timer_key)
                                    and e.timer_key <> d.timer_key
                                    -- Of two deferred signals, process the older signal, so that they don't wait for
                                    -- each other.
                                    and (d.failed_attempts = 0 or e.timer_key < d.timer_key)
                            )
                            or d.process_instance_key is null
                        )
                        -- A thrown signal waits until an engine has sent the earlier signal of the same name to all
                        -- subscriptions.
                        and (
                            d.process_instance_key is not null
                            or d.payload ->> 'kind' is distinct from 'thrown'
                            or d.timer_key = coalesce(
                                (
                                    select t.timer_key
                                    from shardclock.deliveries t
                                    where (t.target = 'process:instance' and t.payload ->> 'kind' = 'thrown') is true
                                        and t.payload ->> 'name' = d.payload ->> 'name'
                                        and t.tenant_id = d.tenant_id
                                    order by t.timer_key + 0
                                    limit 1
                                ),
                                d.timer_key
                            )
                        )
                    )
                )
            order by d.next_attempt_at, d.place
            limit share.signals
        )
        limit share.signals
    ) d
    limit :batch
),
-- If the batch is full, it ends with this lane, and later lanes are not read.
last_lane as materialized (
    select case when count(*) >= :batch::integer then max(d.turn) end as turn from due d
),
fruitless as (
    select o.tenant_id, w.next_attempt_at, w.timer_key
    from open_lane o
    cross join share
    cross join lateral (
        select d.next_attempt_at, d.timer_key
        from shardclock.deliveries d
        where d.target = o.target
            and d.tenant_id = o.tenant_id
            and d.next_attempt_at <= now()
            and (d.next_attempt_at, d.timer_key + 0) > (o.behind_at, o.behind_key)
        order by d.next_attempt_at, d.timer_key + 0
        offset 10 * share.signals - 1
        limit 1
    ) w
    where o.turn <= coalesce((select l.turn from last_lane l), o.turn)
        and o.tenant_id not in (select d.tenant_id from due d)
),
unread as (
    select b.tenant_id, b.behind_at, b.behind_key
    from unnest(:behind_tenants::text[], :behind_at::timestamptz[], :behind_key::bigint[])
        as b (tenant_id, behind_at, behind_key)
    where b.tenant_id <= :after_tenant::text
        or b.tenant_id > (select l.tenant_id from lane l where l.number = 500)
        or b.tenant_id in (select o.tenant_id from open_lane o where o.turn > (select l.turn from last_lane l))
),
known as (
    select
        d.*,
        d.payload::text as signal,
        i.version,
        coalesce(i.definition_key, s.definition_key) as definition_key,
        coalesce(i.process_id, s.process_id) as process_id,
        coalesce(i.parent_key, s.parent_key) as parent_key,
        coalesce(i.parent_token, s.parent_token) as parent_token,
        coalesce(i.root_key, d.start_root_key, s.root_key) as root_key,
        -- Read the state once for each instance, because an instance may have a large state and many signals.
        case
            when row_number() over (
                partition by d.instance_key order by d.rank, d.next_attempt_at, d.timer_key
            ) = 1 then i.state
        end as state,
        coalesce(
            i.ended_at,
            -- The root is read only for the start of a called process.
            case
                when coalesce(d.start_root_key, s.root_key) is not null
                    then (
                        select r.ended_at
                        from shardclock.instances r
                        where r.instance_key = coalesce(d.start_root_key, s.root_key)
                    )
            end
        ) is not null as has_ended
    from due d
    left join lateral (
        select
            i.instance_key, i.version, i.definition_key, i.process_id, i.parent_key, i.parent_token, i.root_key,
            i.state, i.ended_at
        from shardclock.instances i
        where i.instance_key = d.instance_key and i.tenant_id = d.tenant_id
        limit 1
    ) i on true
    -- Find the start of an instance that is cancelled before it has begun. The search is by key, so that no plan reads
    -- all starts of the tenant.
    left join lateral (
        select
            f.definition_key, f.process_id,
            case when b.payload ->> 'parent' ~ '^[0-9]{1,18}$' then (b.payload ->> 'parent')::bigint end as parent_key,
            case
                when b.payload ->> 'parent_token' ~ '^[0-9]{1,18}$' then (b.payload ->> 'parent_token')::bigint
            end as parent_token,
            case when b.payload ->> 'root' ~ '^[0-9]{1,18}$' then (b.payload ->> 'root')::bigint end as root_key
        from (
            select b.target, b.process_instance_key, b.tenant_id, b.payload
            from shardclock.deliveries b
            where b.timer_key = d.process_instance_key
                and i.instance_key is null
                and d.element_instance_key is null
                and d.payload ->> 'kind' = 'cancel'
            limit 1
        ) b
        cross join lateral (
            select f.definition_key, f.process_id, f.tenant_id
            from shardclock.definitions f
            where f.definition_key
                = case
                    when b.payload ->> 'definition' ~ '^[0-9]{1,18}$' then (b.payload ->> 'definition')::bigint
                end
            limit 1
        ) f
        where b.target = 'process:instance'
            and b.process_instance_key is null
            and b.tenant_id = d.tenant_id
            and f.tenant_id = d.tenant_id
    ) s on true
),
measured as (
    select
        k.*,
        -- Use the length of the signal's text, because a number of a few stored bytes may have thousands of digits.
        -- Postgres knows the length of a state without reading it.
        sum(coalesce(octet_length(k.signal), 0) + coalesce(octet_length(k.state), 0)) over (
            order by k.turn, k.rank, k.next_attempt_at, k.timer_key
            rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from known k
)
(
    select
        m.timer_key,
        m.instance_key,
        m.process_instance_key is null as is_first,
        m.element_instance_key as token,
        m.target_element_id as node_id,
        m.tenant_id,
        m.signal,
        m.failed_attempts,
        m.next_attempt_at as due_at,
        m.version,
        m.definition_key,
        m.process_id,
        m.parent_key,
        m.parent_token,
        m.root_key,
        m.state,
        m.has_ended,
        clock_timestamp() as server_time,
        null::text as next_tenant
    from measured m
    where coalesce(m.bytes_before, 0) < :bytes::bigint
    order by m.turn, m.rank, m.next_attempt_at, m.timer_key
)
union all
select
    null, f.timer_key, null, null, null, f.tenant_id, null, null, f.next_attempt_at, null, null, null, null, null, null,
    null, null, clock_timestamp(), null
from (select * from fruitless union all select * from unread) f
union all
select
    null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
    clock_timestamp(), l.tenant_id
from lane l
where l.number = 500
