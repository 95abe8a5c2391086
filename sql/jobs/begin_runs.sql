-- Begins runs of jobs, before a worker calls their functions.
--
-- The statement claims the due deliveries, marks the jobs as running, and drops the starts that must not run.
--
-- in:    :holder bigint: the worker
--        :lease interval
--        :read_limit integer: the limit of due starts to read
--        :places integer: the limit of runs to begin, for jobs that reserve nothing
--        :reserving integer: the limit of runs to begin, for jobs that reserve processors, GPUs or memory
--        :after_at timestamptz and :after_key bigint: the last start of the previous page, nulls for the first page
--        :running bigint[]: the deliveries that the worker runs or is about to end. These runs have not crashed, even
--          if their leases have expired
--        :ending bigint[]: the deliveries in :running with a run that has ended but is not recorded yet. The job's next
--          start waits for the record
--        :machine jsonb: the machine's cpus and memory_mib. The call claims no start of a job that asks for more, or
--          for GPUs; null: no limit
--        :now timestamptz or null (Postgres's clock)
-- out:   at least one row; each row has the same values of the scan:
--        server_time timestamptz
--        dropped bigint: the starts that were skipped or discarded
--        replaced bigint: the runs that must end because of a later start
--        saturated boolean: more starts may be due than were read
--        short boolean and short_reserving boolean: whether more runs of this kind would have begun with a higher limit
--        queued boolean: a start waits for the end of its job's run
--        last_at timestamptz and last_key bigint: the last start that was read, or nulls
--        each row also has a run, or nulls; the most urgent run comes first:
--        job text, function text, timer_key bigint
--        claims integer: the number of claims of the claimed delivery
--        run_claims integer: the number of claims in the job's mark. If it differs from claims, the run has crashed,
--          and the worker ends it
--        attempt integer, scheduled_at timestamptz, config text, policy text
--        lease_left interval: the rest of the crashed run's lease
-- locks: the claimed and dropped deliveries and the marked jobs, until the statement ends; skips locked rows
-- index: deliveries_of_jobs, the first :read_limit due rows; jobs_pkey and deliveries_pkey, one probe for each row;
--        deliveries_of_jobs_by_due_date and timers_by_target, one probe for each job with a queue, and of
--        deliveries_of_jobs_by_due_date a scan up to the hundredth start if more may wait; holders_pkey, holders_ended
with
-- include: included/own_part.sql
-- include: included/ended_workers.sql
due as materialized (
    select d.timer_key, d.target, d.tenant_id, d.next_attempt_at, d.due_date, d.is_planned, d.was_begun
    from me
    cross join lateral (
        select
            d.timer_key, d.target, d.tenant_id, d.next_attempt_at, d.due_date,
            -- Only starts from the job's rule have the job's name; starts on request and users' timers have other
            -- names.
            (d.name = d.target) is true as is_planned,
            d.claims > 0 as was_begun
        from shardclock.deliveries d
        where d.target like 'job:%'
            -- Don't use clock_timestamp() here, because an index scan with a volatile bound does not stop after the due
            -- starts.
            and d.next_attempt_at <= coalesce(:now::timestamptz, now())
            and d.next_attempt_at >= coalesce(:after_at::timestamptz, '-infinity')
            -- With "is true", the planner can't use an index in another order, with which it would read the starts of
            -- all jobs.
            and ((d.next_attempt_at, d.timer_key) > (:after_at, :after_key::bigint) or :after_at is null) is true
            and d.slot % me.part_count = me.part
            and d.timer_key <> all (:running::bigint[])
            and shardclock.is_free(
                d.claimed_by, d.claimed_until, coalesce(:now::timestamptz, now()), :lease,
                array(select ended.holder from ended)
            )
        order by d.next_attempt_at, d.timer_key
        limit :read_limit::integer
    ) d
),
earlier as materialized (
    -- Count the earlier starts of each job, up to 101, because a queue has at most 100 starts.
    select j.target, j.tenant_id, e.starts
    from (select distinct due.target, due.tenant_id from due where :after_at is not null) j
    cross join lateral (
        select count(*) as starts
        from (
            select
            from me
            join shardclock.deliveries d on d.slot % me.part_count = me.part
            where d.target = j.target
                and d.tenant_id = j.tenant_id
                and d.next_attempt_at <= :after_at
                and (d.next_attempt_at, d.timer_key) <= (:after_at, :after_key)
                and d.claimed_by is null
            limit 101
        ) d
    ) e
),
of_job as materialized (
    select
        due.timer_key, due.target, due.tenant_id, due.next_attempt_at, due.due_date, due.is_planned, due.was_begun,
        j.name, j.priority, j.overlap, j.disabled_at, j.run_timer_key,
        j.run_claims, j.reserves, r.due_date as run_due_date,
        -- A start may need more resources than the caller's machine has. The start then waits for another worker, in
        -- the same way as during the pause after a run. The policy may be any JSON; if a value is not a number, the
        -- comparison is false.
        j.not_before > coalesce(:now::timestamptz, now())
            -- A withdrawn job's start waits until an app declares the job again.
            or j.withdrawn_at is not null
            or jsonb_path_exists(
                j.policy, '$ ? (@.num_gpus > 0 || @.num_cpus > $cpus || @.memory_mib > $memory_mib)', :machine::jsonb, true
            ) as rests,
        coalesce(e.starts, 0)
            + row_number() over (partition by due.target, due.tenant_id order by due.next_attempt_at, due.timer_key)
            as place,
        row_number() over (partition by due.target, due.tenant_id order by due.due_date, due.timer_key) as age,
        count(*) over (partition by due.target, due.tenant_id) as waiting
    from due
    left join lateral (
        select
            j.name, j.policy, j.priority, j.overlap, j.disabled_at, j.withdrawn_at, j.run_timer_key, j.run_claims,
            j.not_before,
            jsonb_strip_nulls(j.policy) ?| array['num_cpus', 'num_gpus', 'memory_mib'] as reserves
        from shardclock.jobs j
        where j.name = substr(due.target, 5) and due.tenant_id = 'default'
        -- With `limit 1` the planner probes the index for each name; without it, a join could read all jobs.
        limit 1
    ) j on true
    left join lateral (
        select d.due_date from shardclock.deliveries d where d.timer_key = j.run_timer_key limit 1
    ) r on true
    left join earlier e on e.target = due.target and e.tenant_id = due.tenant_id
),
hundredth as materialized (
    -- A job's queue consists of the hundred starts with the earliest due dates. The index is in the order of the next
    -- attempt, which may be another order, because a timer may fire late.
    select q.target, q.tenant_id, d.due_date, d.timer_key
    from (
        select distinct o.target, o.tenant_id
        from of_job o
        where o.overlap = 'queue' and (o.waiting > 100 or :after_at is not null)
    ) q
    cross join lateral (
        select d.due_date, d.timer_key
        from shardclock.deliveries d
        where d.target = q.target and d.target like 'job:%' and d.tenant_id = q.tenant_id
            and d.slot % (select me.part_count from me) = (select me.part from me)
            -- With "is true", the planner can't use another index, so Postgres reads the starts in the order of their
            -- due dates, and stops after the hundredth start.
            and (d.next_attempt_at <= coalesce(:now::timestamptz, now())) is true
            and d.claimed_by is null
        order by d.due_date, d.timer_key
        offset 99
        limit 1
    ) d
),
judged as materialized (
    select
        o.*,
        -- A run has crashed if its delivery is free and its job has the mark of the run.
        o.run_timer_key is not distinct from o.timer_key as crashed,
        case
            when o.run_timer_key = o.timer_key then null
            when o.name is null then 'there is no such job'
            when o.disabled_at is not null then 'the job is disabled'
            when o.overlap = 'skip' and o.run_timer_key is not null and o.run_timer_key <> all (:ending::bigint[])
                then 'skipped: another run was going'
            when o.overlap = 'skip' and o.is_planned and o.place > 1 then 'skipped: an earlier start was waiting'
            -- Another worker may have begun a later start in its own slots. A retry is not a later start.
            when o.overlap = 'replace'
                and (o.age < o.waiting or (o.due_date, o.timer_key) < (o.run_due_date, o.run_timer_key))
                then 'skipped: a later start replaced it'
            when o.was_begun then null
            when o.overlap = 'skip' and o.place > 100 or (o.due_date, o.timer_key) > (h.due_date, h.timer_key)
                then 'skipped: 100 starts were waiting'
        end as why_not
    from of_job o
    left join hundredth h on h.target = o.target and h.tenant_id = o.tenant_id
),
first_in_queue as materialized (
    -- The starts of a queue begin in a common order across the slots of all workers:
    -- docs/decisions/0075-queues-keep-their-order.md.
    select f.timer_key, q.name, q.reserves, q.priority, f.next_attempt_at
    from (
        select distinct j.name, j.target, j.tenant_id, j.reserves, j.priority
        from judged j
        where j.overlap = 'queue' and j.why_not is null and j.run_timer_key is null and j.rests is not true
    ) q
    cross join lateral (
        select d.timer_key, d.due_date, d.next_attempt_at
        from shardclock.deliveries d
        where d.target = q.target and d.target like 'job:%' and d.tenant_id = q.tenant_id
        order by d.due_date, d.timer_key
        limit 1
    ) f
    -- No start of a queue begins before an earlier start that waits for its next attempt.
    where f.next_attempt_at <= coalesce(:now::timestamptz, now())
        and f.timer_key <> all (:running)
        -- No start of a queue begins before an earlier start that is still a pending timer. A schedule without a
        -- computed due date has no start. With `limit 1` the planner probes the index instead of joining the tables.
        and (
            select t.timer_key
            from shardclock.timers t
            where t.target = q.target and t.target <> 'log'
                and t.tenant_id = q.tenant_id
                and (t.due_date, t.timer_key) < (f.due_date, f.timer_key)
                and (t.schedule is null or num_nonnulls(t.anchor_occurrence, t.kept_due_date) > 0)
            order by t.due_date, t.timer_key
            limit 1
        ) is null
),
chosen as materialized (
    select
        c.timer_key, c.name, c.crashed, c.run_claims, c.reserves,
        -- One level of priority equals five minutes of waiting, so that no start waits forever.
        row_number() over (
            order by c.next_attempt_at + c.priority * interval '5 minutes', c.timer_key
        ) as rank
    from (
        select f.timer_key, f.name, false as crashed, null::integer as run_claims, f.reserves, f.next_attempt_at, f.priority
        from first_in_queue f
        union all
        select j.timer_key, j.name, j.crashed, j.run_claims, j.reserves, j.next_attempt_at, j.priority
        from judged j
        where j.why_not is null
            and (
                j.crashed
                or (
                    j.overlap <> 'queue'
                    and j.run_timer_key is null
                    and j.rests is not true
                    and case
                        when j.overlap = 'replace' then
                            j.age = j.waiting
                            -- The later start may be beyond the page of starts that this statement has read.
                            and not exists (
                                select
                                from me
                                join shardclock.deliveries d on d.slot % me.part_count = me.part
                                where d.target = j.target
                                    and d.tenant_id = j.tenant_id
                                    and d.next_attempt_at <= coalesce(:now::timestamptz, now())
                                    and (d.due_date, d.timer_key) > (j.due_date, j.timer_key)
                            )
                        else j.place = 1
                    end
                )
            )
    ) c
),
held as materialized (
    -- Lock the delivery and the job of each run, and check their newest versions. Lock runs one by one until the limits
    -- are reached, because a run with a locked row does not count.
    select r.*
    from (values (false, :places::integer), (true, :reserving::integer)) as kind (reserves, places)
    cross join lateral (
        select
            c.name, c.crashed, c.run_claims, c.reserves, c.rank, d.timer_key, d.claims, d.failed_attempts,
            d.claimed_until, j.function, j.config, j.policy
        from (select s.* from chosen s where not s.crashed and s.reserves = kind.reserves order by s.rank) c
        -- include: included/lock_start.sql
        cross join lateral (
            select j.function, j.config, j.policy
            from shardclock.jobs j
            where j.name = c.name
                -- The fence: a job has at most one run, and a disabled or withdrawn job has none.
                and j.run_timer_key is null
                and j.is_enabled
                and (j.not_before > coalesce(:now::timestamptz, now())) is not true
            for update of j skip locked
        ) j
        limit greatest(kind.places, 0)
    ) r
    union all
    -- The end of a crashed run does not count toward the limits.
    select
        c.name, c.crashed, c.run_claims, c.reserves, c.rank, d.timer_key, d.claims, d.failed_attempts,
        d.claimed_until, j.function, j.config, j.policy
    from (select s.* from chosen s where s.crashed) c
    -- include: included/lock_start.sql
    cross join lateral (
        select j.function, j.config, j.policy
        from shardclock.jobs j
        -- Check this on the newest version of the row: a run that has ended since the snapshot has not crashed.
        where j.name = c.name and j.run_timer_key = c.timer_key and j.run_claims = c.run_claims
        for update of j skip locked
    ) j
),
marked as (
    -- include: included/mark_jobs.sql
),
short as materialized (
    select
        coalesce(bool_or(k.is_short) filter (where not k.reserves), false) as plain,
        coalesce(bool_or(k.is_short) filter (where k.reserves), false) as reserving
    from (
        -- If the limit allows a run and no run has begun, the limit is not the cause: other transactions have locked
        -- the starts.
        select kind.reserves, c.starts > kind.places and (kind.places = 0 or h.runs > 0) as is_short
        from (values (false, :places), (true, :reserving)) as kind (reserves, places)
        cross join lateral (
            select count(*) as starts from chosen c where not c.crashed and c.reserves = kind.reserves
        ) c
        cross join lateral (
            select count(*) as runs from held h where not h.crashed and h.reserves = kind.reserves
        ) h
    ) k
),
found as materialized (
    select m.name, m.function, m.run_timer_key as timer_key, m.run_claims, m.config, m.policy from marked m
    union all
    select h.name, h.function, h.timer_key, h.run_claims, h.config, h.policy from held h where h.crashed
),
-- include: included/record_begun.sql
going as materialized (
    -- Skip a start only while the job is locked. Without the lock, a run that ends at the same time could have no next
    -- attempt, because it relies on this start.
    select j.name
    from shardclock.jobs j
    where j.name = any (array(select s.name from judged s where s.why_not = 'skipped: another run was going'))
        and (j.name, j.run_timer_key, j.run_claims) in (select s.name, s.run_timer_key, s.run_claims from judged s)
    for update of j skip locked
),
unwanted as materialized (
    select d.timer_key
    from shardclock.deliveries d
    where d.timer_key = any (
            array(
                select j.timer_key
                from judged j
                where j.why_not is not null
                    and (j.why_not <> 'skipped: another run was going' or j.name in (select g.name from going g))
            )
        )
    for update of d skip locked
),
dropped as (
    delete from shardclock.deliveries d
    where d.timer_key = any (array(select u.timer_key from unwanted u))
        -- With "is true", the planner can't use another index, so that even a plan for an empty table probes the key.
        and (d.next_attempt_at <= coalesce(:now::timestamptz, now())) is true
        and shardclock.is_free(
            d.claimed_by, d.claimed_until, coalesce(:now::timestamptz, now()), :lease,
            array(select ended.holder from ended)
        )
    returning d.*
),
told as (
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, holder,
        intent, tenant_id, timer_type, target, target_element_id, name, schedule, detail
    )
    select
        d.timer_key, d.process_instance_key, d.element_instance_key, d.due_date, d.created_at, d.occurrence, :holder,
        'DISCARDED', d.tenant_id, d.timer_type, d.target, d.target_element_id, d.name, d.schedule,
        jsonb_build_object('reason', j.why_not)
    from dropped d
    join judged j on j.timer_key = d.timer_key
),
skipped as (
    insert into shardclock.job_runs (
        timer_key, claims, job, outcome, attempt, scheduled_at, started_at, ended_at, holder, reason
    )
    select
        d.timer_key, d.claims + 1, j.name, 'SKIPPED', d.failed_attempts + 1, d.due_date, clock_timestamp(),
        clock_timestamp(), :holder, j.why_not
    from dropped d
    join judged j on j.timer_key = d.timer_key
    where j.name is not null
    on conflict do nothing
),
later as materialized (
    select o.name, o.run_timer_key, o.run_claims
    from judged o
    where o.overlap = 'replace' and o.why_not is null and not o.crashed and o.run_timer_key is not null
),
outrun as materialized (
    select j.name
    from shardclock.jobs j
    where j.name = any (array(select l.name from later l))
        and j.state in ('STARTING', 'RUNNING')
        -- The fence: the job's run must be the run that this statement has read.
        and (j.run_timer_key, j.run_claims) in (select l.run_timer_key, l.run_claims from later l)
    for update of j skip locked
),
replaced as (
    update shardclock.jobs j
    set state = 'TERMINATING', cancel_asked_at = clock_timestamp(), cancel_why = 'a later start replaces it'
    where j.name = any (array(select outrun.name from outrun)) and j.state in ('STARTING', 'RUNNING')
    returning j.name, j.run_timer_key, j.run_started_at
),
ending as (
    insert into shardclock.command_log (
        timer_key, due_date, created_at, occurrence, holder, intent, tenant_id, timer_type, target, name, detail
    )
    select
        r.run_timer_key, r.run_started_at, r.run_started_at, 1, :holder, 'TERMINATING', 'default', 'USER',
        'job:' || r.name, 'job:' || r.name, jsonb_build_object('reason', 'a later start replaces it')
    from replaced r
)
select
    clock_timestamp() as server_time,
    (select count(*) from dropped) as dropped,
    (select count(*) from replaced) as replaced,
    (select count(*) from due) >= :read_limit as saturated,
    short.plain as short,
    short.reserving as short_reserving,
    exists (
        select from judged j
        where j.why_not is null
            and not j.crashed
            and (
                j.run_timer_key is not null
                or (j.name in (select m.name from marked m) and j.timer_key not in (select m.run_timer_key from marked m))
            )
    ) as queued,
    (select due.next_attempt_at from due order by due.next_attempt_at desc, due.timer_key desc limit 1) as last_at,
    (select due.timer_key from due order by due.next_attempt_at desc, due.timer_key desc limit 1) as last_key,
    f.name as job, f.function, c.timer_key, c.claims, f.run_claims, c.failed_attempts + 1 as attempt,
    c.due_date as scheduled_at, coalesce(c.payload, f.config)::text as config, f.policy::text as policy,
    -- At most one lease duration, because the clock may have been set back since the lease was written.
    least(greatest(h.claimed_until - coalesce(:now::timestamptz, now()), interval '0'), :lease) as lease_left
from short
left join claimed c on true
left join found f on f.timer_key = c.timer_key
left join held h on h.timer_key = c.timer_key
order by h.rank
