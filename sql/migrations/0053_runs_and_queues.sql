-- 0053_runs_and_queues
select;
