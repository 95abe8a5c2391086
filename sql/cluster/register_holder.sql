-- Registers a keeper as a new holder without slots. If the database has no owner, the keeper's installation becomes its
-- owner.
--
-- in:    :holder bigint, :role text, :cluster_id text, :actor_name text, :node_id text, :host text, :pid integer
--        :identity text: the installation that the actor is configured for, or ''
--        :targets text[]: the targets of the worker's handlers
--        :functions text[]: the functions of the worker's jobs
-- out:   nothing
-- locks: the new rows, and the identity row while its name or its origin is missing
-- index: holders_pkey
with adopted as materialized (
    select shardclock.adopt(:identity::text)
),
registered as (
    insert into shardclock.holders (holder, role, cluster_id, actor_name, node_id, host, pid, identity, targets, functions)
    select :holder::bigint, :role::text, :cluster_id::text, :actor_name::text, :node_id::text, :host::text,
    :pid::integer, :identity, :targets::text[], :functions::text[] from adopted
    on conflict (holder) do nothing
    returning holder
)
insert into shardclock.beats (holder)
select holder from registered
