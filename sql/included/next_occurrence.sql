-- The columns of the next occurrence of the schedule `f`. The rule (`mine`) has computed the values. After a run on
-- request, they are the values from before the run.
mine.fires,
-- After a run on request, the next occurrence has the due date from before the run. Missed occurrences are handled when
-- this occurrence fires.
case when f.kept_due_date is null then mine.skipped when mine.fires then 0 else 1 end as skipped,
case when f.kept_due_date is null then mine.next_occurrence else f.occurrence + 1 end as next_occurrence,
coalesce(f.kept_due_date, mine.next_due_date) as next_due_date,
case when f.kept_due_date is null then mine.next_anchor else f.anchor end as next_anchor,
case when f.kept_due_date is null then mine.next_anchor_occurrence else f.anchor_occurrence end as next_anchor_occurrence
