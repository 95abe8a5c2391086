-- Sends a thrown signal to the next batch of its subscriptions; later calls send it to the remaining subscriptions. The
-- sent signals are due since the time of the throw, so that an instance processes them before later signals.
--
-- in:    :holder bigint
--        :timer_key bigint: the delivery with the thrown signal
--        :receivers_max integer
--        :bytes_max bigint: the limit of the variables' bytes for all receivers together; the first receiver may exceed
--          it
-- out:   sent bigint: the number of receivers; 0: no receiver is left, or the delivery is locked or deleted
-- locks: the delivery, until the statement ends; skips a locked delivery
-- index: deliveries_pkey and holders_pkey, one probe; subscriptions_in_order, up to :receivers_max
with held as materialized (
    select
        d.timer_key, d.tenant_id, d.payload,
        coalesce((d.payload ->> 'at')::timestamptz, d.next_attempt_at) as thrown_at
    from shardclock.deliveries d
    where d.timer_key = :timer_key::bigint
        and (d.target = 'process:instance' and d.process_instance_key is null and d.payload ->> 'kind' = 'thrown') is true
        and exists (select from shardclock.holders h where h.holder = :holder::bigint and h.ended_at is null)
    for update skip locked
),
part as materialized (
    select
        h.timer_key, h.tenant_id, h.payload, h.thrown_at,
        greatest(
            1,
            least(:receivers_max::integer, :bytes_max::bigint / octet_length((h.payload -> 'variables')::text))
        ) as receivers
    from held h
),
reached as materialized (
    select
        s.subscription_key, s.instance_key, s.token, s.node_id, p.tenant_id, p.thrown_at,
        case
            when s.instance_key is null then jsonb_build_object('kind', 'begin', 'definition', s.definition_key)
            else jsonb_build_object('kind', 'happened')
        end || jsonb_build_object('variables', p.payload -> 'variables') as signal
    from part p
    cross join lateral (
        select s.*
        from shardclock.subscriptions s
        where s.tenant_id = p.tenant_id
            and s.name = p.payload ->> 'name'
            and s.subscription_key + 0 > (p.payload ->> 'after')::bigint
            and s.subscription_key + 0 <= (p.payload ->> 'until')::bigint
            and (s.kind = 'signal') is true
        order by s.subscription_key + 0
        limit p.receivers
    ) s
),
sent as (
    insert into shardclock.deliveries (
        timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, occurrence, slot,
        tenant_id, timer_type, target, target_element_id, payload
    )
    select
        q.key, q.instance_key, q.token, q.thrown_at, now(), now(), 1, coalesce(q.instance_key, q.key) % 840, q.tenant_id,
        'USER', 'process:instance', q.node_id, q.signal
    from (select nextval('shardclock.timer_key_seq') as key, r.* from reached r) q
),
rest as (
    update shardclock.deliveries d
    -- Make the thrown signal due after this batch, so that the instances of this batch continue first.
    set payload = d.payload || jsonb_build_object('after', (select max(r.subscription_key) from reached r)),
        next_attempt_at = clock_timestamp()
    where d.timer_key = any (
        array(select p.timer_key from part p where (select count(*) from reached) = p.receivers)
    )
),
over as (
    delete from shardclock.deliveries d
    where d.timer_key = any (
        array(select p.timer_key from part p where (select count(*) from reached) < p.receivers)
    )
)
select count(*) as sent from reached
