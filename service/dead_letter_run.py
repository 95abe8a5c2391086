"""Redrive or discard all dead letters that match a filter in one bulk run.

The run finds the keys of all letters before it changes the first letter. A letter that is redriven and fails again
during the run is therefore not redriven a second time.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, field

from shardclock_server.service.bulk_run import BulkProgress, BulkRun
from shardclock_server.service.bulk_wording import BulkResult
from shardclock_server.service.dead_letters import AT_ONCE_MAX, DeadLetterChange
from shardclock_server.service.unchanged import describe_unchanged
from shardclock_server.sql.deliveries.dead_letters import DeadLetterFilter, DeadLetterKey, find_dead_letter_keys
from shardclock_server.sql.operations.operations import NewOperation
from shardclock_server.sql.session import Session

# With a rate, the letters of one page become due within this time. After an interrupt, the later pages stay unchanged.
STEP_S = 10


@dataclass(slots=True)
class DeadLetterRun(BulkRun):
    """One run over all dead letters that match a filter, in the order in which they were given up.

    shape:   one statement changes `batch` letters, or fewer if there is a rate
    """

    change: DeadLetterChange
    wanted: DeadLetterFilter
    batch: int = AT_ONCE_MAX
    # The number of letters per target and tenant.
    _number_of: "Counter[tuple[str, str]]" = field(default_factory=Counter, init=False)
    # The first dead letter of each target and tenant, which the sentence names as an example.
    _examples: dict[tuple[str, str], DeadLetterKey] = field(default_factory=dict, init=False)

    async def run(self, session: Session, progress: BulkProgress, *, dry_run: bool) -> None:
        """Find all matching dead letters; change the found letters, unless `dry_run` is set.

        errors:  Refusal           not_redriven: the filter names one letter, and its target can't be called
                 StoreUnavailable  Postgres did not answer during the search: nothing was changed
                 BulkBroken        Postgres stopped answering; `outcome` describes all earlier changes
        """
        await self.find(session, progress, dry_run=dry_run)
        if dry_run or not self.keys:
            return
        await self.start(session)
        await self.change_all(session, progress)

    async def find(self, session: Session, progress: BulkProgress, *, dry_run: bool = False) -> None:
        """Find all matching dead letters for `start`; unless `dry_run` is set, also enable the letters' endpoints.

        errors:  StoreUnavailable  Postgres did not answer within the timeout
        """
        await self.find_all(self._pages(session, dry_run=dry_run), progress)

    @property
    def page_size(self) -> int:
        """Return the number of letters that one transaction changes."""
        return min(self.batch, self.change.per_s * STEP_S) if self.change.per_s else self.batch

    def new_operation(self) -> NewOperation:
        """Describe the operation."""
        parameters = {"per_s": self.change.per_s, "reason": self.change.reason}
        return self.actor.begin(self.change.verb, self.wanted.tenant_id, asdict(self.wanted), parameters)

    def outcome(self, *, dry_run: bool) -> BulkResult[int]:
        """Return the changed keys with a sentence; for a dry run, return the keys that would be changed."""
        many, selected = self.change.wording_for(self.wanted, self._number_of), list(self._examples.values())
        if dry_run:
            return BulkResult(self.keys, many.word_dry_run(len(self.keys), selected, more=False), more=False)
        left = describe_unchanged(self.unchanged_reasons)
        # If only some letters were changed, their tenants are unknown.
        are_all = len(self.changed_keys) == len(self.keys)
        return BulkResult(
            self.changed_keys,
            many.word_change(len(self.changed_keys), selected if are_all else [], left=left),
            more=False,
            operation_id=self.operation_id,
        )

    async def _pages(self, session: Session, *, dry_run: bool) -> AsyncIterator[Sequence[int]]:
        after, is_last = None, False
        while not is_last:
            page = await find_dead_letter_keys(session, self.wanted, limit=self.batch, after=after)
            self._number_of.update((it.target, it.tenant_id) for it in page)
            letters = await self.change.open_among(self.wanted, page, dry_run=dry_run)
            for letter in letters:
                self._examples.setdefault((letter.target, letter.tenant_id), letter)
            self.left_out += len(page) - len(letters)
            yield [it.timer_key for it in letters]
            is_last = len(page) < self.batch
            after = page[-1].cursor if page else after
