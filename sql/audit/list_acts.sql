-- Lists the audit records of operators' acts, newest first, one page at a time.
--
-- in:    filters, null for none:
--        :since timestamptz
--        :verb text: also matches longer verbs that begin with this verb
--        :actor text: the name or the prefix of an API key, a person's name or subject, or a database role
--        the last row of the previous page, nulls for the first page:
--        :after_at timestamptz, :after_id bigint, :limit bigint
-- out:   act_id bigint, recorded_at timestamptz, role text, interface text, key_prefix text or null, key_name text or
--          null, subject text or null, tenant_id text or null, verb text
--        parameters text: JSON
--        outcome text, address text or null
-- locks: nothing
-- index: audit_by_age, backwards, up to the limit of the matching rows
select
    a.act_id, a.recorded_at, a.role, a.interface, a.key_prefix, a.key_name, a.subject, a.tenant_id, a.verb,
    a.parameters::text as parameters, a.outcome, a.address
from shardclock.audit a
where a.recorded_at >= coalesce(:since::timestamptz, '-infinity')
    and (a.recorded_at, a.act_id) < (
        coalesce(:after_at::timestamptz, 'infinity'), coalesce(:after_id::bigint, 9223372036854775807)
    )
    and (:verb::text is null or a.verb = :verb or starts_with(a.verb, :verb || ' '))
    and (:actor::text is null or :actor in (a.key_name, a.key_prefix, a.subject, a.role))
order by a.recorded_at desc, a.act_id desc
limit :limit
