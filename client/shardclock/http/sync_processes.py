# Written by `make docs` from async_processes.py: change that, and write this anew.
"""Deploy processes, start instances and drive them through a gateway."""

from collections.abc import Iterator, Mapping
from typing import Any

import httpx2

from shardclock.api.fields import Length
from shardclock.api.processes import (
    CanceledInstances,
    Deleted,
    Deployed,
    Deployment,
    Incident,
    IncidentsPage,
    InstancesPage,
    InstanceState,
    ProcessesPage,
    ProcessState,
    Reached,
    Resolved,
    Step,
    StepsPage,
    Told,
    WholeInstance,
)
from shardclock.durations import seconds_of
from shardclock.http import asked as ask
from shardclock.http.reading import read_answer
from shardclock.http.sync_sending import Sender

PROCESSES, INSTANCES, INCIDENTS = "/v1/processes", "/v1/instances", "/v1/incidents"


class Processes:
    """Ask about processes; `client.processes` is one.

    Each call that changes something draws an idempotency key, unless it is given one: so it is sent again until it is
    answered, and done once.

    errors:  ApiError  of each method, as of the client
    """

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def deploy(
        self, model: bytes | str, *, resource: str = "model.bpmn", idempotency_key: str | None = None
    ) -> tuple[Deployed, ...]:
        """Deploy the processes of a BPMN model, all or none; `resource` is the file's name.

        shape:   a process whose newest version is of the same file stays as it is
        errors:  Refused  something can't be run; it says which element, and why
        """
        text = model.encode() if isinstance(model, str) else model
        asked = ask.file(PROCESSES, text, ask.XML, idempotency_key, resource=resource)
        return (self._sender.ask(Deployment, asked)).processes

    def definitions(self, *, all_versions: bool = False) -> tuple[ProcessState, ...]:
        """List deployed processes: the newest version of each, or all."""
        asked = ask.read(PROCESSES, all_versions=all_versions)
        return (self._sender.ask(ProcessesPage, asked)).processes

    def model(self, definition_key: int) -> bytes:
        """Fetch the model of a definition as it was deployed, also of a deleted one that is still kept.

        errors:  NotFound  there is none
        """
        return (self._sender.send(ask.read(f"{_definition(definition_key)}/model"))).content

    def delete(self, definition_key: int, *, idempotency_key: str | None = None) -> None:
        """Delete one version of a process; its instances go on.

        If it was the newest, the version before it is that again.

        errors:  NotFound  it is deleted already, or never was
        """
        asked = ask.once("DELETE", _definition(definition_key), {}, idempotency_key)
        self._sender.ask(Deleted, asked)

    def start(
        self,
        process_id: str,
        variables: Mapping[str, Any] | None = None,
        *,
        version: int | None = None,
        business_key: str | None = None,
        wait: Length | None = None,
        idempotency_key: str | None = None,
    ) -> WholeInstance:
        """Start an instance; an engine begins it within milliseconds.

        With `wait`, at most five minutes, the answer comes when the instance has ended, or when that time is over.
        `business_key` is what your own world calls the instance; `list` finds it by that.

        errors:  NotFound      the process is not deployed, or has no such version
                 Refused       the variables or the business key can't be
                 OtherRequest  the key came with other fields within a day
        """
        path = f"{PROCESSES}/{ask.segment(process_id)}/start"
        fields = {"variables": variables, "version": version, "business_key": business_key}
        asked = ask.once("POST", path, fields, idempotency_key)
        return self._sender.ask(WholeInstance, asked.waiting(wait))

    def show(self, instance_key: int) -> WholeInstance:
        """Find one instance, with its variables and what it waits for.

        errors:  NotFound  there is none
        """
        return self._sender.ask(WholeInstance, ask.read(_instance(instance_key)))

    def wait_for_end(self, instance_key: int, *, within: Length) -> WholeInstance:
        """Wait until an instance has ended, or the time is over; return it as it is then.

        errors:  NotFound  there is none
        """
        asked = ask.read(_instance(instance_key))

        def has_ended(answer: httpx2.Response) -> bool:
            return read_answer(WholeInstance, asked, answer.content).ended_at is not None

        answer = self._sender.ask_until(has_ended, asked, within_s=seconds_of(within))
        return read_answer(WholeInstance, asked, answer.content)

    def list(
        self, *, process_id: str | None = None, business_key: str | None = None, state: str | None = None
    ) -> Iterator[InstanceState]:
        """Find instances, the newest first.

        shape:   all of them, read page by page; `state` is STARTING, RUNNING, COMPLETED, CANCELED or ERROR; ENDED: in
                 any way; INCIDENT: with one
        """
        before: int | None = None
        while True:
            asked = ask.read(
                INSTANCES,
                process_id=process_id,
                business_key=business_key,
                state=state,
                limit=ask.PAGE,
                before=before,
            )
            page = self._sender.ask(InstancesPage, asked)
            for instance in page.instances:
                yield instance
            if page.next is None:
                return
            before = page.next

    def history(self, instance_key: int) -> Iterator[Step]:
        """Tell what happened in an instance, in order: the signals that came, and how its tokens went.

        errors:  NotFound  there is none
        """
        after = 0
        while True:
            asked = ask.read(f"{_instance(instance_key)}/steps", limit=ask.PAGE, after=after)
            page = self._sender.ask(StepsPage, asked)
            for step in page.steps:
                yield step
            if page.next is None:
                return
            after = page.next

    def cancel(self, instance_key: int, *, idempotency_key: str | None = None) -> None:
        """Cancel an instance, with all that it waits for; an engine does it soon. One that is cancelled already is so.

        errors:  Conflict  it has ended otherwise
                 NotFound  it never was, or is forgotten
        """
        self._tell(instance_key, "cancel", {}, idempotency_key)

    def cancel_many(
        self,
        business_key: str,
        *,
        process_id: str | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> CanceledInstances:
        """Cancel the instances of a business key that have not ended, at most 1,000 with one call, the newest first.

        shape:   none is no error: the answer says so
        """
        fields = {"business_key": business_key, "process_id": process_id, "limit": limit}
        asked = ask.once("POST", f"{INSTANCES}/cancel", fields, idempotency_key)
        return self._sender.ask(CanceledInstances, asked.asking(dry_run=True) if dry_run else asked)

    def set_variables(
        self, instance_key: int, variables: Mapping[str, Any], *, token: int = 1, idempotency_key: str | None = None
    ) -> None:
        """Set variables of an instance; those that are not named stay. Token 1 is the process.

        errors:  Conflict  it has ended
                 NotFound  it never was, or is forgotten
        """
        self._tell(instance_key, "variables", {"variables": variables, "token": token}, idempotency_key)

    def move(
        self,
        instance_key: int,
        *,
        terminated: tuple[int, ...] = (),
        begun: tuple[str, ...] = (),
        idempotency_key: str | None = None,
    ) -> None:
        """Let tokens end, and others begin at nodes that are named; all of it happens, or nothing.

        errors:  as `set_variables`
        """
        fields = {"terminated": list(terminated), "begun": list(begun)}
        self._tell(instance_key, "move", fields, idempotency_key)

    def incidents(
        self,
        *,
        process_id: str | None = None,
        version: int | None = None,
        saying: str | None = None,
        limit: int = 100,
    ) -> tuple[Incident, ...]:
        """Find tokens that can't go on, and why; `saying` is a part of the sentence.

        shape:   the newest first, at most 1,000
        """
        asked = ask.read(INCIDENTS, process_id=process_id, version=version, saying=saying, limit=limit)
        return (self._sender.ask(IncidentsPage, asked)).incidents

    def resolve(self, instance_key: int, token: int, *, idempotency_key: str | None = None) -> None:
        """Resolve an incident: the token goes on where it stopped.

        errors:  Conflict  its instance has ended
                 NotFound  there is no such incident
                 Refused   it is a dead letter: redrive that
        """
        self._tell(instance_key, "resolve", {"token": token}, idempotency_key)

    def resolve_many(
        self,
        *,
        process_id: str | None = None,
        version: int | None = None,
        saying: str | None = None,
        every: bool = False,
        limit: int | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Resolved:
        """Resolve all incidents that are chosen, at most 1,000 with one call; without a filter, say `every`."""
        fields = {"process_id": process_id, "version": version, "saying": saying, "limit": limit}
        fields |= {"every": True} if every else {}
        asked = ask.once("POST", f"{INCIDENTS}/resolve", fields, idempotency_key)
        return self._sender.ask(Resolved, asked.asking(dry_run=True) if dry_run else asked)

    def publish_message(
        self,
        name: str,
        *,
        correlation: str = "",
        variables: Mapping[str, Any] | None = None,
        keep: Length | None = None,
        idempotency_key: str | None = None,
    ) -> tuple[int, ...]:
        """Publish a message, and return the keys of the instances that get it now.

        With `keep` it stays for so long, for tokens that come to wait later.
        """
        fields = {"name": name, "correlation": correlation, "variables": variables, "keep": keep}
        return (self._sender.ask(Reached, ask.once("POST", "/v1/messages", fields, idempotency_key))).instance_keys

    def throw_signal(
        self, name: str, *, variables: Mapping[str, Any] | None = None, idempotency_key: str | None = None
    ) -> tuple[int, ...]:
        """Throw a signal to everybody who waits for it now, and return the keys of their instances."""
        fields = {"name": name, "variables": variables}
        return (self._sender.ask(Reached, ask.once("POST", "/v1/signals", fields, idempotency_key))).instance_keys

    def _tell(self, instance_key: int, verb: str, fields: Mapping[str, object], idempotency_key: str | None) -> None:
        asked = ask.once("POST", f"{_instance(instance_key)}/{verb}", fields, idempotency_key)
        self._sender.ask(Told, asked)


def _definition(definition_key: int) -> str:
    return f"{PROCESSES}/{ask.number('definition_key', definition_key)}"


def _instance(instance_key: int) -> str:
    return f"{INSTANCES}/{ask.number('instance_key', instance_key)}"
