"""Look after dead letters and jobs through a gateway."""

from typing import Any, Unpack

from shardclock.api.answers import Acted, DeadLetter, DeadLettersPage
from shardclock.api.fields import Length
from shardclock.api.jobs import JobRun, JobsPage, JobState, Started
from shardclock.durations import seconds_of
from shardclock.http import asked as ask
from shardclock.http.asked import Letters
from shardclock.http.async_sending import AsyncSender


class AsyncOperating:
    """What an operator's client does."""

    _sender: AsyncSender

    async def dead_letters(self, *, target: str | None = None, limit: int = 100) -> tuple[DeadLetter, ...]:
        """Find deliveries that were given up.

        shape:   the newest first, at most 1,000
        """
        found: list[DeadLetter] = []
        after: str | None = None
        while True:  # if they are large, a page has fewer than were asked for
            asked = ask.read("/v1/dead-letters", target=target, limit=limit - len(found), after=after)
            page = await self._sender.ask(DeadLettersPage, asked)
            found += page.dead_letters
            after = page.next
            if after is None or len(found) >= limit:
                return tuple(found)

    async def redrive(
        self,
        timer_key: int | None = None,
        *,
        per_s: int | None = None,
        enable: bool = False,
        every: bool = False,
        dry_run: bool = False,
        **chosen: Unpack[Letters],
    ) -> Acted:
        """Deliver one dead letter again, or all that are chosen, so many a second; it is not sent again by itself.

        With `enable`, endpoints that are disabled are enabled first; else their dead letters stay as they are.

        errors:  NotFound  there is no such dead letter
                 Conflict  its endpoint is disabled or was removed
                 Refused   nothing chooses any, and `every` was not asked for
        """
        body = {"per_s": per_s, "every": every or None, **chosen}
        return await self._act_on_letters("redrive", timer_key, body, {"enable": enable or None}, dry_run=dry_run)

    async def discard(
        self,
        timer_key: int | None = None,
        *,
        reason: str | None = None,
        every: bool = False,
        dry_run: bool = False,
        **chosen: Unpack[Letters],
    ) -> Acted:
        """Discard one dead letter for good, or all that are chosen; it is not sent again by itself.

        errors:  NotFound  there is no such dead letter
                 Refused   nothing chooses any, and `every` was not asked for
        """
        body = {"reason": reason, "every": every or None, **chosen}
        return await self._act_on_letters("discard", timer_key, body, {}, dry_run=dry_run)

    async def jobs(self) -> tuple[JobState, ...]:
        """List all jobs, by name; the key must be for all tenants."""
        return (await self._sender.ask(JobsPage, ask.read("/v1/jobs"))).jobs

    async def wait_for_run(self, name: str, timer_key: int, *, within: Length) -> JobRun | None:
        """Wait until a start of a job is over; `timer_key` is what `run_job` has returned.

        shape:   its last run; None: it is not over `within` that time
        errors:  NotFound  there is no such start, or it was dropped before it ran
        """
        asked = ask.read(f"/v1/jobs/{ask.segment(name)}/runs/{ask.number('timer_key', timer_key)}")
        within_s = seconds_of(within)
        return await self._sender.wait_for(JobRun, asked, within_s=within_s)

    async def run_job(self, name: str, *, config: Any = None) -> int:
        """Start a job now, and return the key of the start; a configuration is for this run alone.

        It is not sent again after an answer that was lost, or the job would run twice.

        errors:  NotFound  there is no such job
        """
        asked = ask.act(f"/v1/jobs/{ask.segment(name)}/run", {"config": config}, is_repeatable=False)
        return (await self._sender.ask(Started, asked)).timer_key

    async def _act_on_letters(
        self, verb: str, timer_key: int | None, body: dict[str, object], how: dict[str, object], *, dry_run: bool
    ) -> Acted:
        path = "/v1/dead-letters"
        if timer_key is None:
            asked = ask.act(f"{path}/{verb}", body | how, is_repeatable=dry_run, dry_run=dry_run)
        else:
            if dry_run or any(value is not None for value in body.values()):
                raise TypeError(f"{verb} takes a timer_key alone, or what chooses dead letters: give one of them")
            asked = ask.act(f"{path}/{ask.number('timer_key', timer_key)}/{verb}", how, is_repeatable=False)
        return await self._sender.ask(Acted, asked)
