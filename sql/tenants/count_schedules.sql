-- Counts a tenant's pending schedules, also paused ones, up to a number.
--
-- in:    :tenant_id text, :most bigint
-- out:   schedules bigint
-- locks: nothing
-- index: schedules_by_tenant, at most :most rows
select shardclock.used_of(:tenant_id::text, 'schedules', :most::bigint) as schedules
