-- Writes observed events, if an endpoint of the tenant subscribes to the event's kind. The coordinator reports a
-- lasting state repeatedly. The statement skips a report if all subscribed endpoints have received an event of this
-- kind and subject within the interval.
--
-- in:    arrays with a value for each event:
--        :tenant_ids text[], :kinds text[], :subjects text[], :sentences text[]
--        :details jsonb[]: each an object
--        :every interval
-- out:   nothing: no rows
-- locks: the new rows
-- index: event_subscriptions_pkey, event_throttles_pkey
insert into shardclock.operator_events (tenant_id, kind, subject, sentence, detail)
select o.tenant_id, o.kind, o.subject, o.sentence, o.detail
from unnest(:tenant_ids::text[], :kinds::text[], :subjects::text[], :sentences::text[], :details::jsonb[])
    as o (tenant_id, kind, subject, sentence, detail)
where exists (
    select
    from shardclock.event_subscriptions s
    where s.tenant_id = o.tenant_id
        and o.kind = any (s.kinds)
        and not exists (
            select
            from shardclock.event_throttles h
            where h.tenant_id = s.tenant_id and h.endpoint = s.endpoint and h.kind = o.kind and h.subject = o.subject
                -- A time far in the future was written before the clock was set back.
                and h.sent_at > clock_timestamp() - :every::interval
                and h.sent_at <= clock_timestamp() + :every::interval
        )
)
