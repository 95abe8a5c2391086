"""The commands that watch a cluster: tail, status."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from shardclock.log import LogRecord
from shardclock.log.async_reading import log_end
from shardclock_server.cli.options import OfTenant
from shardclock_server.cli.output import (
    DONE,
    Json,
    cell,
    hex_of,
    is_terminal,
    json_text,
    print_json,
    print_line,
    print_note,
    print_table,
)
from shardclock_server.cli.ramp import outage_of, overdue_of
from shardclock_server.cli.serving import NO_SHARD
from shardclock_server.cli.session import with_session
from shardclock_server.cluster.settings import load_settings
from shardclock_server.service.hold import living_of, read_hold
from shardclock_server.service.unserved import line_of
from shardclock_server.service.wording import counted
from shardclock_server.sql.cluster.holders import ENGINE, LOCAL_NODE, SHARD, WORKER, Holder, list_holders
from shardclock_server.sql.cluster.leadership import list_stand_bys
from shardclock_server.sql.deliveries.unserved import find_unserved_targets
from shardclock_server.sql.log.records import INTENTS, follow
from shardclock_server.sql.metrics.processes import COUNTED_MAX as MEASURED_MAX
from shardclock_server.sql.metrics.processes import ProcessMeasures, measure_processes
from shardclock_server.sql.metrics.status import Status, read_status
from shardclock_server.sql.session import Session, StoreUnavailable
from shardclock_server.timers.refusal import Refusal, unknown

RETRY_S = 1.0
ACTORS, LOCAL_PROCESSES = "actors of Ray", "local processes"
PAYLOAD_SHOWN_CHARS = 120
COUNTED_MAX = 100_000  # The highest number that the query sql/metrics/read_status.sql counts.


def tail(
    from_start: Annotated[bool, typer.Option("--from-start", help="Start with the oldest record in the log.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Stop after the newest record that exists now.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="Stop after N records.")
    ] = None,
    tenant: OfTenant = None,
    name: Annotated[str | None, typer.Option("--name", help="Only records of timers with this name.")] = None,
    target: Annotated[str | None, typer.Option("--target", help="Only records of timers with this target.")] = None,
    intent: Annotated[str | None, typer.Option("--intent", help=f"Only {', '.join(INTENTS)}.")] = None,
    as_json: Json = False,
) -> int:
    """Follow the command log, and print each record once."""
    if intent is not None and intent.upper() not in INTENTS:
        raise Refusal(f"--intent {unknown(intent, INTENTS)}")
    asked = {"tenant_id": tenant, "name": name, "target": target, "intent": intent and intent.upper()}
    wanted = {field: value for field, value in asked.items() if value is not None}

    async def do(session: Session) -> int:
        position = 0 if from_start else await log_end(session)
        printed = 0
        while True:
            try:
                async for records in follow(session, position):
                    for record in records:
                        position = record.position
                        if any(getattr(record, field) != value for field, value in wanted.items()):
                            continue
                        _print_record(record, as_json=as_json)
                        printed += 1
                        if printed == limit:
                            return DONE
                    if stop and not records:
                        return DONE
            except StoreUnavailable as error:
                print_note(f"Postgres does not answer ({error}); trying again")
                await asyncio.sleep(RETRY_S)

    return with_session(do)


def status(as_json: Json = False) -> int:
    """Show shards, holders and nodes, pending, paused and overdue timers, lag, and timers that an outage delays."""

    async def do(session: Session) -> int:
        state = await read_status(session)
        keepers = await list_holders(session)
        holders = [holder for holder in keepers if holder.role == SHARD]
        workers = [holder for holder in keepers if holder.role == WORKER]
        engines = [holder for holder in keepers if holder.role == ENGINE]
        processes = await measure_processes(session)
        settings = load_settings()
        stand_bys = await list_stand_bys(session)
        hold = await read_hold(session, settings.identity or "", silent_s=settings.coordinator.silent_s)
        unserved = await find_unserved_targets(session)
        if as_json:
            caught_up = {"caught_up_in_s": state.caught_up_in_s}
            print_json(
                {
                    **asdict(state),
                    **caught_up,
                    "hold": hold.why if hold else None,
                    "unserved_targets": unserved,
                    "keepers_run_as": _run_as(living_of(holders, settings.coordinator.silent_s)),
                    "stand_bys": stand_bys,
                    "shards": [_json_of(holder) for holder in holders],
                    "workers": [_json_of_worker(worker) for worker in workers],
                    "engines": [_json_of_engine(engine) for engine in engines],
                    "processes": asdict(processes),
                }
            )
        else:
            silent_s = settings.coordinator.silent_s
            living = living_of(holders, silent_s)
            is_served = any(holder.part is not None for holder in living)
            if hold:
                print_line(f"{hold.line}\n", style="red")
            _print_status(state, holders, living, stand_bys)
            _print_workers(state, workers, living_of(workers, silent_s), is_served=is_served)
            _print_engines(processes, engines, is_served=is_served)
            if unserved and any(worker.part is not None for worker in living_of(workers, silent_s)):
                print_line(line_of(unserved), style="red")
        return DONE

    return with_session(do)


def _print_record(record: LogRecord, *, as_json: bool) -> None:
    if as_json:
        print_json(record)
        return
    lag_ms = (record.recorded_at - record.due_date).total_seconds() * 1000
    late = f"{lag_ms:+.1f} ms" if record.intent == "TRIGGERED" else ""
    called = f"to {record.target}" if record.has_target else None
    detail = json_text(record.detail)
    what = "  ".join(filter(None, [record.tenant_id, record.name, called, _brief(record.payload), detail]))
    begin = f"{record.recorded_at:%H:%M:%S.%f} {record.intent:<11} {record.timer_key:>10}"
    print_line(f"{begin}  due {cell(record.due_date)} {late:>12}  {what}")


def _brief(payload: str | None) -> str | None:
    """Shorten a long payload on a terminal; print the whole payload to a pipe or file."""
    if payload is None or len(payload) <= PAYLOAD_SHOWN_CHARS or not is_terminal():
        return payload
    return payload[: PAYLOAD_SHOWN_CHARS - 1] + "…"


def _print_status(state: Status, holders: Sequence[Holder], living: Sequence[Holder], stand_bys: Sequence[str]) -> None:
    serving = [holder for holder in living if holder.part is not None]
    silent = sum(holder.part is not None for holder in holders) - len(serving)
    about = "about " if state.pending_estimated else ""
    leader = f"{hex_of(state.leader)} in term {state.term}" if state.leader_alive else "none"
    run_as = _run_as(living)
    rows: list[tuple[str, object]] = [
        (
            "shards",
            f"{len(serving)} of {state.shards_wanted} wanted, on {counted(len({h.node_id for h in serving}), 'node')}"
            + (f"; {silent} silent" if silent else ""),
        ),
        ("keepers", run_as or "none"),
        ("leader", leader),
        ("pending", f"{about}{state.pending:,}, {state.paused:,} of them paused"),
        ("overdue", f"{overdue_of(state)}, the oldest for {state.oldest_overdue_s:.1f} s"),
        ("lag", _lag(state)),
    ]
    if standing_by := _standing_by(holders, living, stand_bys):
        rows.append(("stands by", standing_by))
    if state.left_by_outage:
        rows.append(("left by an outage", outage_of(state, is_served=bool(serving))))
    print_table("", ["cluster", ""], rows)
    columns = ["shard", "cluster", "holder", "node", "host", "pid", "held", "seen"]
    print_table("", columns, [_keeper_row(holder) for holder in holders])
    if silent and not serving:
        print_note("no shard sends a heartbeat, so no timer fires: check that `shardclock up` runs, and read its log")
    elif not serving:
        print_note(NO_SHARD)


def _print_workers(state: Status, workers: Sequence[Holder], living: Sequence[Holder], *, is_served: bool) -> None:
    """Show the workers if a worker, a pending delivery or a dead letter exists."""
    if not workers and not state.deliveries and not state.dead_letters:
        return
    serving = sum(worker.part is not None for worker in living)
    rows = [
        ("workers", f"{serving} of {state.workers_wanted} wanted"),
        ("deliveries on their way", _counted_up_to(state.deliveries)),
        ("dead letters", _counted_up_to(state.dead_letters)),
    ]
    print_table("", ["deliveries", ""], rows)
    columns = ["worker", "cluster", "holder", "node", "host", "pid", "in hand", "seen"]
    print_table("", columns, [_keeper_row(worker) for worker in workers])
    if state.deliveries and not serving:
        print_note(
            "no worker is running yet: the running cluster starts a worker within seconds for an endpoint, and for"
            " handlers if the cluster was started with `--app`"
            if is_served
            else "no worker is running: start a cluster with `shardclock up`, add `--app` for handlers"
        )


def _print_engines(measured: ProcessMeasures, engines: Sequence[Holder], *, is_served: bool) -> None:
    """Show the engines and the waiting signals if an engine runs or is needed."""
    if not engines and not measured.engines_wanted:
        return
    oldest = f", the oldest for {measured.oldest_signal_s:.1f} s" if measured.signals_waiting else ""
    rows = [
        ("engines", f"{measured.engines_alive} of {measured.engines_wanted} wanted"),
        ("signals that wait", _counted_up_to(measured.signals_waiting, MEASURED_MAX) + oldest),
        ("incidents", _counted_up_to(measured.incidents, MEASURED_MAX)),
    ]
    print_table("", ["processes", ""], rows)
    columns = ["engine", "cluster", "holder", "node", "host", "pid", "seen"]
    # Omit the number of leased rows, because an engine has leases only during a pass of its loop.
    print_table("", columns, [(*row[:-2], row[-1]) for row in map(_keeper_row, engines)])
    if measured.engines_wanted and not measured.engines_alive:
        way_out = "the running cluster starts an engine soon" if is_served else "start a cluster with `shardclock up`"
        print_note(f"no engine is running, so no instance advances: {way_out}")


def _counted_up_to(number: int, most: int = COUNTED_MAX) -> str:
    return f"{number:,}{' or more' if number >= most else ''}"


def _run_as(living: Sequence[Holder]) -> str | None:
    """Return the kind of the shards' processes, such as Ray actors; None if no shard has slots."""
    kinds = {LOCAL_PROCESSES if it.node_id == LOCAL_NODE else ACTORS for it in living if it.part is not None}
    return " and ".join(sorted(kinds)) or None


def _standing_by(holders: Sequence[Holder], living: Sequence[Holder], stand_bys: Sequence[str]) -> str:
    """Describe the clusters that stand by while another cluster leads, each with its number of live shards.

    `stand_bys` are the clusters of local keepers, which take over when the Ray cluster of their installation is lost.
    """
    serving = {holder.cluster_id for holder in holders if holder.part is not None}
    ready = Counter(h.cluster_id for h in living if serving and h.cluster_id not in serving)
    said = {cluster_id: counted(count, "shard") for cluster_id, count in ready.items()}
    said |= {cluster_id: LOCAL_PROCESSES for cluster_id in stand_bys if cluster_id not in serving}
    return ", ".join(f"{cluster_id} with {what}" for cluster_id, what in sorted(said.items()))


def _lag(state: Status) -> str:
    if state.lag_p50_ms is None:
        return "unknown: the last 10,000 records of the log contain no firing"
    p50, p99, worst = state.lag_p50_ms, state.lag_p99_ms, state.lag_max_ms
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {worst:.1f} ms (last {counted(state.fired, 'firing')})"


def _json_of(holder: Holder) -> dict[str, object]:
    """Convert a shard to JSON; the field `shard` is the number of its part of the slots."""
    said = asdict(holder)
    return {"shard": said.pop("part"), "shard_count": said.pop("part_count"), **said}


def _json_of_worker(holder: Holder) -> dict[str, object]:
    said = asdict(holder)
    return {"worker": said.pop("part"), "worker_count": said.pop("part_count"), "in_hand": said.pop("held"), **said}


def _json_of_engine(holder: Holder) -> dict[str, object]:
    said = asdict(holder)
    return {"engine": said.pop("part"), "engine_count": said.pop("part_count"), **said}


def _keeper_row(holder: Holder) -> tuple[object, ...]:
    idle = "suspended" if holder.suspended_at else "-"
    shard = idle if holder.part is None else f"{holder.part} of {holder.part_count}"
    seen = f"{holder.silent_s:.1f} s ago"
    return (
        shard,
        holder.cluster_id,
        hex_of(holder.holder),
        holder.node_id[:12],
        holder.host,
        holder.pid,
        holder.held,
        seen,
    )
