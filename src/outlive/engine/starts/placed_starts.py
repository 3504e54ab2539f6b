"""`PlacedStarts`: the start of a command whose machine is decided when it has a place, rather than when it
was asked for.

What waits for any machine is stored in the words of its caller, as a node would get them. For a node the
place is written in; for this machine the words are resolved anew, as a node does with what it is sent.
"""

from outlive.core.command import as_callers_write
from outlive.core.errors import OutliveError
from outlive.core.location import LOCAL, Location
from outlive.core.process import ProcessRecord
from outlive.core.values import replace
from outlive.engine.commands.containers import execute_words
from outlive.engine.processes.places import Places
from outlive.engine.processes.process import Process
from outlive.engine.settings import EngineSettings
from outlive.engine.starts.preparation import Preparation
from outlive.engine.starts.start_records import new_spec
from outlive.operations.requests import convert_request
from outlive.protocols.jsonrpc.params import ExecuteParams
from outlive.protocols.keeper import decode_spec, encode_spec, with_meta
from outlive.store.folder import encode_meta
from outlive.store.queue_store import WaitingCommand

# Which GPUs a program sees: CUDA's documentation, and HIP's, which honours the same name.
GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"
# Refusals of a machine that say nothing of the command: it had not been started, and another machine may take
# it.
_GOES_ELSEWHERE = frozenset({"node_unavailable", "no_room"})


class PlacedStarts:
    """Makes what is started of what has waited for a place."""

    def __init__(self, settings: EngineSettings, preparation: Preparation, places: Places) -> None:
        self._settings = settings
        self._preparation = preparation
        self._places = places

    async def at(self, node: str | None, process: Process, command: WaitingCommand) -> WaitingCommand:
        """Return what is started on a node, and have the process show where it runs; None: it was decided
        before.

        Raises:
            OutliveError: It cannot run on this machine, which is the node.
        """
        command = await self._located(node, process, command)
        if process.is_ended:  # withdrawn meanwhile
            return command
        if process.location.kind != "local" or not (gpus := self._places.take_gpus(process)):
            return command
        process.place(process.location, process.record.cwd, gpus)
        spec = decode_spec(command.spec)
        env = {**spec.env, GPU_VARIABLE: ",".join(gpus)}
        meta = {**spec.meta, **encode_meta(process.record)}
        return replace(command, spec=encode_spec(spec._replace(env=env, meta=meta)))

    async def _located(self, node: str | None, process: Process, command: WaitingCommand) -> WaitingCommand:
        record = process.record
        if node is None or not record.location.is_open:
            return command
        if node != LOCAL:
            location = Location(kind="node", backend=node, image=record.location.image)
            process.place(location, record.cwd)
            meta = encode_meta(replace(record, location=location))
            return replace(command, spec=with_meta(command.spec, meta))
        return await self._here(record, process, command)

    async def _here(self, record: ProcessRecord, process: Process, command: WaitingCommand) -> WaitingCommand:
        spec = decode_spec(command.spec)
        words = execute_words(spec, command.script, command.secrets)
        members = {name: value for name, value in as_callers_write(words).items() if value is not None}
        asked = convert_request(members, ExecuteParams).to_command()
        # Which profile it gets was decided when it was asked for, and stands among the words.
        owner = replace(record.owner, is_admin=True, inside=None)
        resolved = await self._preparation.prepare(replace(asked, backend=LOCAL), owner, record.process_id)
        process.place(resolved.location, resolved.cwd)
        placed = replace(
            record,
            location=resolved.location,
            cwd=resolved.cwd,
            shell=resolved.shell,
            sandbox=resolved.sandbox,
        )
        limit = spec.output_limit
        new = new_spec(asked, resolved, placed, output_limit=limit, settings=self._settings)
        # What the first answer to the start put down, the token of a grant for instance, stays.
        # The old place is "any", and that of this machine has no member of its own.
        before = {name: value for name, value in spec.meta.items() if name != "location"}
        meta = {**before, **new.meta}
        return replace(
            command,
            spec=encode_spec(new._replace(meta=meta)),
            script=resolved.script,
            secrets={**resolved.caller_env, **command.secrets},
        )


def goes_elsewhere(process: Process, error: OutliveError) -> bool:
    """Return whether a refused start waits for a place once more: on another machine, or where its caller
    wants it.
    """
    needs = process.needs
    if needs is None:
        return False
    return error.code == "no_room" or (not needs.node and error.code in _GOES_ELSEWHERE)
