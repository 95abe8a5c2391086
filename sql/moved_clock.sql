-- Gives a database that was made for a test a clock that stands still until it is moved. It runs before the migrations,
-- as a superuser, and only where `sql.clock.moved.install` sends it: docs/decisions/0052-a-clock-that-tests-move.md.
--
-- Postgres keeps its functions in each database by itself. So this renames the clocks of this database alone, and puts
-- others in their place: whatever asks for now() here, qualified or not, asks these. A dump leaves them behind.

create schema shardclock_clock;

-- Microseconds since 1970. Not a table: a claim asks the clock in each of 840 slots, and a sequence answers without a
-- plan and a scan. And every session sees at once where it was moved, in the middle of a transaction, too.
create sequence shardclock_clock.moment;

alter function pg_catalog.now() rename to real_now;
alter function pg_catalog.transaction_timestamp() rename to real_transaction_timestamp;
alter function pg_catalog.statement_timestamp() rename to real_statement_timestamp;
alter function pg_catalog.clock_timestamp() rename to real_clock_timestamp;

create function shardclock_clock.move_to(moment timestamptz)
returns void
language sql
begin atomic
    select setval(
        'shardclock_clock.moment'::regclass, (extract(epoch from move_to.moment) * 1000000)::bigint
    );
end;

-- In plpgsql, which evaluates such an expression by itself, without an executor: a claim asks thousands of times. Stable,
-- as Postgres's own: a scan stops at what is due only by a bound that does not change.
create function pg_catalog.now()
returns timestamptz
language plpgsql
stable
as $$
begin
    -- In two parts: Postgres multiplies an interval by a double, which is exact for microseconds only until the year 2255.
    return timestamptz '1970-01-01 00:00:00+00'
        + pg_catalog.pg_sequence_last_value('shardclock_clock.moment'::regclass) / 1000000 * interval '1 second'
        + pg_catalog.pg_sequence_last_value('shardclock_clock.moment'::regclass) % 1000000 * interval '1 microsecond';
end
$$;

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
