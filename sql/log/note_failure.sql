-- Records that the work on a partition's next records has failed, unless another member has done them meanwhile.
--
-- in:    :group_name text, :partition integer, :position bigint (the place where the work began),
--        :lease bigint or null (null: the member worked in a transaction; a lease that another member has taken since
--        stays), :alone boolean (true: the work was on one record), :error text, :wait interval (before the next try)
-- out:   attempts integer (on that record alone); or no row: another member has the records, or has done them
-- locks: the partition's row
-- index: consumers_pkey
update shardclock.consumers
set failures = failures + 1,
    attempts = attempts + case when :alone then 1 else 0 end,
    error = :error,
    failed_at = clock_timestamp(),
    not_before = clock_timestamp() + :wait,
    leased_until = case when :lease::bigint is null and leased_until > clock_timestamp() then leased_until end
where group_name = :group_name
    and partition = :partition::integer
    and position = :position
    and (:lease::bigint is null or lease = :lease)
returning attempts
