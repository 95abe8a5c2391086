"""What runs do and how they end, until Postgres has taken it."""

from collections.abc import Sequence

from jobs.states import JobState, RunOutcome
from sql.jobs.runs import BegunRun, EndedRun, How, advance_runs, end_runs, record_late_runs
from sql.session import Session
from workers.hand import Hand

ENDS_MAX = 200  # by one statement

_Advance = tuple[BegunRun, str, str | None]


class RunWriter:
    """Keep what runs do and how they end, and write it: nothing is forgotten before Postgres has said so.

    A run is in hand until then.
    """

    def __init__(self, session: Session, holder: int, hand: Hand[BegunRun]) -> None:
        self._session = session
        self._holder = holder
        self._hand = hand
        self._advances: list[_Advance] = []
        self._ends: list[EndedRun] = []

    def __len__(self) -> int:
        """Count the runs whose ends are not written yet."""
        return len(self._ends)

    def advance(self, run: BegunRun, state: JobState, reason: str | None = None) -> None:
        """Say what a run does now."""
        self._advances.append((run, state.value, reason))

    def end(self, ended: EndedRun) -> None:
        """Say how a run has ended."""
        self._ends.append(ended)

    async def write_advances(self) -> None:
        """Write what runs do now; what concerns a job that somebody has locked is written by a later call.

        errors:  StoreUnavailable  the outcome is unknown: call again
        """
        if self._advances:
            said = list(self._advances)
            locked = await advance_runs(self._session, self._holder, _last_of_each(said))
            self._advances = [it for it in said if it[0].claim in locked] + self._advances[len(said) :]

    async def write_ends(self) -> None:
        """End what has ended, as far as its jobs are not locked: what is left is written by a later call.

        errors:  StoreUnavailable  the outcome is unknown: call again
        """
        while self._ends:
            await self.write_advances()  # a short run may have been called and have ended since
            batch = _one_of_each_job(self._ends)[:ENDS_MAX]
            how = await end_runs(self._session, self._holder, batch)
            # Whoever ends a run that has crashed, and hears that it was ended, comes to no end of it.
            crashed = RunOutcome.CRASHED
            late = [it for it in batch if how[it.run.claim] is How.LOST and it.ending.outcome is not crashed]
            if late:
                await record_late_runs(self._session, late)
            taken = [it.run for it in batch if how[it.run.claim] is not How.LOCKED]
            if not taken:
                return
            self._forget(taken)

    def _forget(self, taken: Sequence[BegunRun]) -> None:
        claims = {run.claim for run in taken}
        self._ends = [it for it in self._ends if it.run.claim not in claims]
        self._advances = [it for it in self._advances if it[0].claim not in claims]
        self._hand.drop(taken)


def _one_of_each_job(ended: Sequence[EndedRun]) -> list[EndedRun]:
    first: dict[str, EndedRun] = {}
    for it in ended:
        first.setdefault(it.run.job, it)
    return list(first.values())


def _last_of_each(said: Sequence[_Advance]) -> list[_Advance]:
    return list({run.claim: (run, state, reason) for run, state, reason in said}.values())
