-- A holder that has been silent for a moment is suspended: others take its claims, and it lives on.

alter table shardclock.holders add column suspended_at timestamptz;

create index holders_suspended on shardclock.holders (suspended_at) where suspended_at is not null and ended_at is null;

comment on column shardclock.holders.suspended_at is
    'Since when its coordinator has not heard it: its claims are free to others; null again when it is heard.';
