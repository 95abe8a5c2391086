-- Lists what operators did, the newest first.
--
-- in:    :since timestamptz or null: from the first, :limit bigint
-- out:   act_id bigint, recorded_at timestamptz, role text, interface text, key_prefix text or null, key_name text or
--        null, tenant_id text or null, verb text, what text (JSON), outcome text, address text or null
-- locks: nothing
-- index: audit_by_age, backwards
select
    a.act_id, a.recorded_at, a.role, a.interface, a.key_prefix, a.key_name, a.tenant_id, a.verb, a.what::text as what,
    a.outcome, a.address
from shardclock.audit a
where a.recorded_at >= coalesce(:since::timestamptz, '-infinity')
order by a.recorded_at desc, a.act_id desc
limit :limit
