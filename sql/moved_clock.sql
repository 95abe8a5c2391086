-- Gives a test's database a clock that only the test moves. It runs before `migrate`, as a superuser,
-- and only `sql.clock.moved.install` sends it: docs/decisions/0052-a-clock-that-tests-move.md.
--
-- Each database has its own catalog of functions. So this script renames the clock functions of this database alone,
-- and makes new functions with their names: each call of now() here, qualified or not, calls the new function. A dump
-- does not contain the new functions.

create schema shardclock_clock;

-- Microseconds since 2000, as in a timestamptz. The clock is a sequence and not a table, because a claim reads the
-- clock in each of 840 slots, and a sequence is read without a plan and without a scan. Also, each session sees a new
-- time immediately, even within a transaction.
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

-- Stable, like Postgres's own clocks: an index scan ends after the due rows only if its bound is stable.
alter function pg_catalog.pg_sequence_last_value(regclass) stable;

-- Only the next function uses this cast. A timestamptz has the same eight bytes as a bigint.
create cast (bigint as timestamptz) without function;

-- The planner inlines this expression in place of now(): a call for each expression would cost more than the rest.
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
