-- Reads the signals of the holder's instances that are due, with what is known of these instances. It claims nothing: an
-- instance's version protects what is written. Signals wait for the start of their instance. A signal that no engine
-- could take is put off, and the later signals of its instance wait for it. Two do not wait: the start, and a cancellation
-- of an instance that has begun.
--
-- in:    :holder bigint, :batch integer, :bytes bigint: after so many of signals and states there is no other signal,
--        :stripe integer of :stripes integer: a part of the holder's instances, from 0;
--        :without bigint[]: instances that are left out
-- out:   timer_key bigint (the signal's), instance_key bigint, is_first boolean (the instance is to begin),
--        token bigint or null, node_id text or null, tenant_id text, signal text or null (JSON; null: a timer has fired),
--        failed_attempts integer, due_at timestamptz, version bigint, definition_key bigint, process_id text,
--        parent_key bigint, parent_token bigint, state text (with its first signal alone), has_ended boolean: of the
--        instance, null if there is none; server_time timestamptz: in the order in which they are to be taken
-- locks: nothing
-- index: deliveries_of_processes, up to the batch; deliveries_put_off, deliveries_pkey and instances_pkey, one probe for
--        each; holders_pkey
with due as (
    select
        d.timer_key,
        coalesce(d.process_instance_key, d.timer_key) as instance_key,
        d.process_instance_key,
        d.element_instance_key,
        d.target_element_id,
        d.tenant_id,
        d.payload::text as signal,
        d.failed_attempts,
        d.next_attempt_at,
        i.version,
        i.definition_key,
        i.process_id,
        i.parent_key,
        i.parent_token,
        -- Once for each instance: it may be large, and many signals may be for it.
        case
            when row_number() over (
                partition by coalesce(d.process_instance_key, d.timer_key) order by d.next_attempt_at, d.timer_key
            ) = 1 then i.state
        end as state,
        i.ended_at is not null as has_ended
    from shardclock.holders h
    cross join lateral (
        select d.*
        from shardclock.deliveries d
        where d.target = 'process:instance'
            and d.next_attempt_at <= now()
            and coalesce(d.process_instance_key, d.timer_key) % 840 % h.part_count = h.part
            and coalesce(d.process_instance_key, d.timer_key) / 840 % :stripes::integer = :stripe::integer
            and coalesce(d.process_instance_key, d.timer_key) <> all (:without::bigint[])
            -- A start that was redriven at a rate is due later than what was sent to it before: that waits for it. What is
            -- for a token other than the process itself (1) is for an instance that has begun. Asked for a value, here
            -- and below, or a plan that was made while nothing waited reads all deliveries for each signal.
            and (
                d.element_instance_key > 1
                or coalesce(
                    (select b.next_attempt_at from shardclock.deliveries b where b.timer_key = d.process_instance_key),
                    d.next_attempt_at
                ) <= d.next_attempt_at
            )
            and (
                not exists (
                    select
                    from shardclock.deliveries e
                    where e.target = 'process:instance'
                        and e.failed_attempts > 0
                        and coalesce(e.process_instance_key, e.timer_key) = coalesce(d.process_instance_key, d.timer_key)
                        and e.timer_key <> d.timer_key
                        -- Of two that were put off, the older one goes on: neither waits for ever.
                        and (d.failed_attempts = 0 or e.timer_key < d.timer_key)
                )
                or d.process_instance_key is null
                or (
                    d.payload ->> 'kind' = 'cancel'
                    -- An instance that is yet to begin is cancelled after that.
                    and (
                        select b.next_attempt_at
                        from shardclock.deliveries b
                        where b.timer_key = d.process_instance_key
                    ) is null
                )
            )
        order by d.next_attempt_at, d.timer_key
        limit :batch::integer
    ) d
    left join lateral (
        select i.*
        from shardclock.instances i
        where i.instance_key = coalesce(d.process_instance_key, d.timer_key) and i.tenant_id = d.tenant_id
        limit 1
    ) i on true
    where h.holder = :holder::bigint
        and h.ended_at is null
        and h.part is not null
        -- Nothing goes on in a copy: docs/decisions/0016-a-copy-does-not-fire.md.
        and shardclock.hold_reason(h.identity) is null
),
measured as (
    select
        d.*,
        -- A signal as text: a number of a few bytes may have thousands of digits. The length of a state is known without
        -- reading it.
        sum(coalesce(octet_length(d.signal), 0) + coalesce(octet_length(d.state), 0)) over (
            order by d.next_attempt_at, d.timer_key rows between unbounded preceding and 1 preceding
        ) as bytes_before
    from due d
)
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
    m.state,
    m.has_ended,
    clock_timestamp() as server_time
from measured m
where coalesce(m.bytes_before, 0) < :bytes::bigint
order by m.next_attempt_at, m.timer_key
