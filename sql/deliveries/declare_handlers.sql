-- Declares the handlers of an app: writes new and changed handlers, and marks missing handlers as withdrawn.
--
-- in:    one array for each field of the handlers:
--        :targets text[]: each once
--        :references text[], :policies jsonb[]
--        :withdraw boolean: false leaves missing handlers unchanged
-- out:   target text
--        change text: added, changed, withdrawn, or back (declared again after a withdrawal); an unchanged handler has
--          no row
-- locks: the changed rows
-- index: none, the table is small
with declared as materialized (
    select d.*
    from unnest(:targets::text[], :references::text[], :policies::jsonb[]) as d (target, reference, policy)
),
known as materialized (
    select h.target, h.withdrawn_at from shardclock.handlers h
),
withdrawn as (
    update shardclock.handlers h
    set withdrawn_at = now()
    from known k
    where :withdraw::boolean and k.target = h.target and k.withdrawn_at is null and h.target <> all (:targets)
    returning h.target
),
written as (
    insert into shardclock.handlers as h (target, reference, policy)
    select d.target, d.reference, d.policy from declared d order by d.target
    on conflict (target) do update
    set reference = excluded.reference, policy = excluded.policy, withdrawn_at = null, declared_at = now()
    where (h.reference, h.policy, h.withdrawn_at) is distinct from (excluded.reference, excluded.policy, null)
    returning h.target
)
select
    w.target,
    case when k.target is null then 'added' when k.withdrawn_at is not null then 'back' else 'changed' end as change
from written w
left join known k on k.target = w.target
union all
select w.target, 'withdrawn' from withdrawn w
