"""Deploy processes, start instances, and change instances through a gateway."""

from collections.abc import AsyncIterator, Mapping
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
    InstanceInList,
    InstanceKey,
    InstanceKeys,
    InstancesPage,
    ProcessesPage,
    ProcessState,
    Resolved,
    Step,
    StepsPage,
    WholeInstance,
)
from shardclock.durations import seconds_of
from shardclock.http import requests as ask
from shardclock.http.async_sending import AsyncSender
from shardclock.http.reading import read_answer

PROCESSES, INSTANCES, INCIDENTS = "/v1/processes", "/v1/instances", "/v1/incidents"


class AsyncProcesses:
    """The client's methods for processes, as `client.processes`.

    Each changing call uses the given idempotency key or a random key, so that the client can retry the request without
    a second change.

    errors:  ApiError  from each method, as `AsyncClient` describes
    """

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def deploy(
        self, model: bytes | str, *, resource: str = "model.bpmn", idempotency_key: str | None = None
    ) -> tuple[Deployed, ...]:
        """Deploy the processes of a BPMN model, all or none; `resource` is the file's name.

        shape:   a process gets no new version if its newest version has the same content and `resource`
        errors:  Refused  the model can't be run; the message names the element and the reason
        """
        text = model.encode() if isinstance(model, str) else model
        request = ask.file(PROCESSES, text, ask.XML, idempotency_key, resource=resource)
        return (await self._sender.ask(Deployment, request)).processes

    async def definitions(self, *, all_versions: bool = False) -> tuple[ProcessState, ...]:
        """List deployed processes: the newest version of each, or all versions."""
        request = ask.read(PROCESSES, all_versions=all_versions)
        return (await self._sender.ask(ProcessesPage, request)).processes

    async def model(self, definition_key: int) -> bytes:
        """Fetch the deployed model of a definition; a deleted definition keeps its model until its data are removed.

        errors:  NotFound  the definition does not exist
        """
        return (await self._sender.send(ask.read(f"{_definition(definition_key)}/model"))).content

    async def delete(self, definition_key: int, *, idempotency_key: str | None = None) -> None:
        """Delete one version of a process; its instances continue.

        If the deleted version was the newest, the previous version becomes the newest.

        errors:  NotFound  the version was deleted already, or never existed
        """
        request = ask.once("DELETE", _definition(definition_key), {}, idempotency_key)
        await self._sender.ask(Deleted, request)

    async def start(
        self,
        process_id: str,
        variables: Mapping[str, Any] | None = None,
        *,
        version: int | None = None,
        business_key: str | None = None,
        wait: Length | None = None,
        idempotency_key: str | None = None,
    ) -> WholeInstance:
        """Start an instance; an engine picks the instance up within milliseconds.

        With `wait`, at most five minutes, the call returns when the instance has ended, or when the time is over.
        `business_key` is the name of the instance in the caller's own system; `list` finds the instance by this key.

        errors:  NotFound      the process is not deployed, or has no such version.
                 Refused       the variables or the business key are invalid.
                 OtherRequest  the idempotency key came with other fields within a day.
        """
        path = f"{PROCESSES}/{ask.segment(process_id)}/start"
        fields = {"variables": variables, "version": version, "business_key": business_key}
        request = ask.once("POST", path, fields, idempotency_key)
        return await self._sender.ask(WholeInstance, request.with_wait(wait))

    async def show(self, instance_key: int) -> WholeInstance:
        """Find one instance, with its variables and its waits.

        errors:  NotFound  the instance does not exist
        """
        return await self._sender.ask(WholeInstance, ask.read(_instance(instance_key)))

    async def wait_for_end(self, instance_key: int, *, within: Length) -> WholeInstance:
        """Wait until an instance has ended, or the time is over; return the instance's state at that moment.

        errors:  NotFound  the instance does not exist
        """
        request = ask.read(_instance(instance_key))

        def has_ended(answer: httpx2.Response) -> bool:
            return read_answer(WholeInstance, request, answer.content).ended_at is not None

        answer = await self._sender.ask_until(has_ended, request, within_s=seconds_of(within))
        return read_answer(WholeInstance, request, answer.content)

    async def list(
        self,
        *,
        process_id: str | None = None,
        business_key: str | None = None,
        state: str | None = None,
        definition_key: int | None = None,
        node_id: str | None = None,
    ) -> AsyncIterator[InstanceInList]:
        """Find instances, the newest first.

        `definition_key` selects the running instances of one version that wait, the oldest first; `node_id` selects the
        instances that wait at one element of this version.

        shape:   all matching instances, read page by page; `state` is STARTING, RUNNING, COMPLETED, CANCELED or ERROR.
                 ENDED selects the last three states, and INCIDENT selects instances with an incident
        errors:  Refused  `node_id` without `definition_key`
        """
        after: int | None = None
        while True:
            request = ask.read(
                INSTANCES,
                process_id=process_id,
                business_key=business_key,
                state=state,
                definition_key=definition_key,
                node_id=node_id,
                limit=ask.PAGE,
                after=after,
            )
            page = await self._sender.ask(InstancesPage, request)
            for instance in page.instances:
                yield instance
            if page.next is None:
                return
            after = page.next

    async def history(self, instance_key: int) -> AsyncIterator[Step]:
        """Yield the steps of an instance, in order: its signals, and the moves of its tokens.

        errors:  NotFound  the instance does not exist
        """
        after = 0
        while True:
            request = ask.read(f"{_instance(instance_key)}/steps", limit=ask.PAGE, after=after)
            page = await self._sender.ask(StepsPage, request)
            for step in page.steps:
                yield step
            if page.next is None:
                return
            after = page.next

    async def cancel(self, instance_key: int, *, idempotency_key: str | None = None) -> None:
        """Request the cancellation of an instance and its waits; an engine performs the cancellation soon afterwards.

        A second request is no error.

        errors:  Conflict  the instance has ended without a cancellation.
                 NotFound  the instance never existed, or its history was deleted.
        """
        await self._signal(instance_key, "cancel", {}, idempotency_key)

    async def cancel_many(
        self,
        business_key: str,
        *,
        process_id: str | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> CanceledInstances:
        """Cancel the unfinished instances that have a business key; one call cancels at most the newest 1,000.

        shape:   if no instance matches, the answer reports this without an error
        """
        fields = {"business_key": business_key, "process_id": process_id, "limit": limit}
        request = ask.once("POST", f"{INSTANCES}/cancel", fields, idempotency_key)
        return await self._sender.ask(CanceledInstances, request.with_query(dry_run=True) if dry_run else request)

    async def set_variables(
        self, instance_key: int, variables: Mapping[str, Any], *, token: int = 1, idempotency_key: str | None = None
    ) -> None:
        """Set variables of an instance; other variables are not changed.

        Token 1 holds the variables of the whole process.

        errors:  Conflict  the instance has ended.
                 NotFound  the instance never existed, or its history was deleted.
        """
        await self._signal(instance_key, "variables", {"variables": variables, "token": token}, idempotency_key)

    async def move(
        self,
        instance_key: int,
        *,
        terminated: tuple[int, ...] = (),
        begun: tuple[str, ...] = (),
        idempotency_key: str | None = None,
    ) -> None:
        """Terminate some tokens, and start new tokens at the named nodes, in one atomic change.

        errors:  as in `set_variables`
        """
        fields = {"terminated": list(terminated), "begun": list(begun)}
        await self._signal(instance_key, "move", fields, idempotency_key)

    async def incidents(
        self,
        *,
        process_id: str | None = None,
        version: int | None = None,
        containing: str | None = None,
        limit: int = 100,
    ) -> tuple[Incident, ...]:
        """Find incidents; `containing` selects incidents with this text in their reason.

        shape:   the newest first, at most 1,000
        """
        request = ask.read(INCIDENTS, process_id=process_id, version=version, containing=containing, limit=limit)
        return (await self._sender.ask(IncidentsPage, request)).incidents

    async def resolve(self, instance_key: int, token: int, *, idempotency_key: str | None = None) -> None:
        """Resolve an incident, so that the token continues at its node.

        errors:  Conflict  the instance has ended.
                 NotFound  the token has no incident.
                 Refused   the incident is a dead letter: redrive the dead letter.
        """
        await self._signal(instance_key, "resolve", {"token": token}, idempotency_key)

    async def resolve_many(
        self,
        *,
        process_id: str | None = None,
        version: int | None = None,
        containing: str | None = None,
        every: bool = False,
        limit: int | None = None,
        dry_run: bool = False,
        idempotency_key: str | None = None,
    ) -> Resolved:
        """Resolve all matching incidents, at most 1,000 with one call; without a filter, `every` must be True."""
        fields = {"process_id": process_id, "version": version, "containing": containing, "limit": limit}
        fields |= {"every": True} if every else {}
        request = ask.once("POST", f"{INCIDENTS}/resolve", fields, idempotency_key)
        return await self._sender.ask(Resolved, request.with_query(dry_run=True) if dry_run else request)

    async def publish_message(
        self,
        name: str,
        *,
        correlation: str = "",
        variables: Mapping[str, Any] | None = None,
        keep: Length | None = None,
        idempotency_key: str | None = None,
    ) -> tuple[int, ...]:
        """Publish a message, and return the keys of the instances that receive the message now.

        The message is stored for the duration `keep`; a token that starts to wait within this time also receives it.
        """
        fields = {"name": name, "correlation": correlation, "variables": variables, "keep": keep}
        return (
            await self._sender.ask(InstanceKeys, ask.once("POST", "/v1/messages", fields, idempotency_key))
        ).instance_keys

    async def throw_signal(
        self, name: str, *, variables: Mapping[str, Any] | None = None, idempotency_key: str | None = None
    ) -> tuple[int, ...]:
        """Broadcast a signal to all tokens that wait for it now; return the keys of the instances of these tokens."""
        fields = {"name": name, "variables": variables}
        return (
            await self._sender.ask(InstanceKeys, ask.once("POST", "/v1/signals", fields, idempotency_key))
        ).instance_keys

    async def _signal(
        self, instance_key: int, verb: str, fields: Mapping[str, object], idempotency_key: str | None
    ) -> None:
        request = ask.once("POST", f"{_instance(instance_key)}/{verb}", fields, idempotency_key)
        await self._sender.ask(InstanceKey, request)


def _definition(definition_key: int) -> str:
    return f"{PROCESSES}/{ask.number('definition_key', definition_key)}"


def _instance(instance_key: int) -> str:
    return f"{INSTANCES}/{ask.number('instance_key', instance_key)}"
