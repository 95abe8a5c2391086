-- What a verb looks up, it looks up by an index, whatever the planner believes of the table's size:
-- docs/decisions/0005-queue-plans.md.
alter function shardclock.pending_key(bigint, text, text) set enable_seqscan = off;
alter function shardclock.change_timer(text, bigint, text, text, text) set enable_seqscan = off;
alter function shardclock.cancel_timers(bigint[], text) set enable_seqscan = off;
alter function shardclock.pause_timers(bigint[], text) set enable_seqscan = off;
alter function shardclock.resume_timers(bigint[]) set enable_seqscan = off;
alter function shardclock.move_timers(bigint[], timestamptz, interval, text) set enable_seqscan = off;
alter function shardclock.change_rules(bigint[], text, text, text) set enable_seqscan = off;
alter function shardclock.run_timers(bigint[]) set enable_seqscan = off;
alter function shardclock.cancel_process_instance(bigint, text) set enable_seqscan = off;
