-- Gives a database that was made for a test a clock that stands still until it is moved. It runs before `migrate`,
-- as a superuser, and only where `sql.clock.moved.install` sends it: docs/decisions/0052-a-clock-that-tests-move.md.
--
-- Postgres keeps its functions in each database by itself. So this renames the clocks of this database alone, and puts
-- others in their place: whatever asks for now() here, qualified or not, asks these. A dump leaves them behind.

create schema shardclock_clock;

-- Microseconds since 2000, as a timestamptz holds them. Not a table: a claim asks the clock in each of 840 slots, and a
-- sequence answers without a plan and a scan. And every session sees at once where it was moved, in the middle of a
-- transaction, too.
create sequence shardclock_clock.moment minvalue -9223372036854775807;

alter function pg_catalog.now() rename to real_now;
alter function pg_catalog.transaction_timestamp() rename to real_transaction_timestamp;
alter function pg_catalog.statement_timestamp() rename to real_statement_timestamp;
alter function pg_catalog.clock_timestamp() rename to real_clock_timestamp;

create function shardclock_clock.move_to(moment timestamptz)
returns void
language sql
begin atomic
    select setval(
        'shardclock_clock.moment'::regclass,
        (extract(epoch from move_to.moment - timestamptz '2000-01-01 00:00:00+00') * 1000000)::bigint
    );
end;

-- Stable, as Postgres's own clocks: a scan stops behind the due rows only by a bound that does not change.
alter function pg_catalog.pg_sequence_last_value(regclass) stable;

-- For the next function alone: a timestamptz is the same eight bytes.
create cast (bigint as timestamptz) without function;

-- The planner puts this expression in the place of now(): a call within each expression would cost more than the rest.
create function pg_catalog.now()
returns timestamptz
language sql
stable
begin atomic
    select pg_catalog.pg_sequence_last_value('shardclock_clock.moment'::regclass)::timestamptz;
end;

drop cast (bigint as timestamptz);

create function pg_catalog.transaction_timestamp()
returns timestamptz
language sql
stable
begin atomic
    select pg_catalog.now();
end;

create function pg_catalog.statement_timestamp()
returns timestamptz
language sql
stable
begin atomic
    select pg_catalog.now();
end;

create function pg_catalog.clock_timestamp()
returns timestamptz
language sql
volatile
begin atomic
    select pg_catalog.now();
end;

grant usage on schema shardclock_clock to public;
grant select on sequence shardclock_clock.moment to public;

select shardclock_clock.move_to(pg_catalog.real_now());
