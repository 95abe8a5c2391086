-- Installs a clock in a test's database that only the test moves. `sql.clock.moved.install` sends this script as a
-- superuser, before `migrate`: docs/decisions/0052-a-clock-that-tests-move.md.
--
-- Renames Postgres's clock functions in the catalog of this database, and creates new functions with the old names. So
-- each call of now(), with or without a schema, calls the new function. A dump does not contain the new functions.

create schema shardclock_clock;

-- Microseconds since 2000, as in a timestamptz. A sequence instead of a table, because a claim reads the clock 840
-- times and a sequence needs no plan and no scan. With a sequence, each session also sees a new time immediately, even
-- within a transaction.
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

-- The function is stable, like Postgres's own now(). If it were volatile, an index scan with the condition due_date <=
-- now() would not stop after the due rows.
alter function pg_catalog.pg_sequence_last_value(regclass) stable;

-- This cast is for the next function: a timestamptz has the same eight bytes as a bigint.
create cast (bigint as timestamptz) without function;

-- The planner inlines this function's body. A real call at each use would be too slow.
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
