"""Uses a generated client: imports all of it, starts a command, reads its output.

Run by the generators' Python.

    python driving.py openapi-python-client FOLDER URL

It shares no code with outlive and prints what it saw as one JSON object.
"""

import importlib
import json
import pkgutil
import sys
from types import ModuleType
from typing import Any

_SCRIPT = 'printf hello\nprintf "%s" "$NAME" >&2\nexit 3'
_UNKNOWN = "0" * 26


def _import_all(name: str) -> tuple[ModuleType, int]:
    """Import a package and every module below it; return it and how many these are."""
    package = importlib.import_module(name)
    names = [one.name for one in pkgutil.walk_packages(package.__path__, f"{name}.")]
    for one in names:
        importlib.import_module(one)
    return package, len(names)


def _openapi_python_client(url: str) -> dict[str, Any]:
    package, modules = _import_all("outlive_client")
    models = package.models
    client = package.Client(base_url=url)

    def call(tag: str, name: str, *words: object, **members: object) -> Any:  # noqa: ANN401 -- the client's own
        operation = importlib.import_module(f"outlive_client.api.{tag}.{tag}_{name}")
        return operation.sync(*words, client=client, **members)

    body = models.StartRequest(script=_SCRIPT, env=models.StartRequestEnv.from_dict({"NAME": "world"}))
    process_id = call("processes", "start", body=body).process_id
    ended = call("processes", "wait", process_id)
    page = call("processes", "read", process_id)
    terminal_id = call("terminals", "create", body=models.NewTerminalRequest()).terminal_id
    command = models.ExecuteRequest(command="echo $((6 * 7))")
    shown = call("terminals", "execute", terminal_id, body=command)
    return {
        "modules": modules,
        "exit_code": ended.exit_code,
        "output": {one.type_.value: one.data for one in page.chunks},
        "problem": call("processes", "get", _UNKNOWN).slug,
        "terminal": shown.output,
        "closed": call("terminals", "close", terminal_id).closed,
    }


def _openapi_generator(url: str) -> dict[str, Any]:
    package, modules = _import_all("openapi_client")
    client = package.ApiClient(package.Configuration(host=url))
    processes, terminals = package.ProcessesApi(client), package.TerminalsApi(client)
    started = processes.processes_start(package.StartRequest(script=_SCRIPT, env={"NAME": "world"}))
    ended = processes.processes_wait(started.process_id)
    page = processes.processes_read(started.process_id).actual_instance
    chunks = [one.actual_instance for one in page.chunks]
    slug = None
    try:
        processes.processes_get(_UNKNOWN)
    except package.exceptions.NotFoundException as error:
        slug = error.data.slug
    terminal_id = terminals.terminals_create(package.NewTerminalRequest()).terminal_id
    command = package.ExecuteRequest(command="echo $((6 * 7))")
    shown = terminals.terminals_execute(terminal_id, command)
    return {
        "modules": modules,
        "exit_code": ended.exit_code,
        "output": {one.type: one.data for one in chunks},
        "problem": slug,
        "terminal": shown.output,
        "closed": terminals.terminals_close(terminal_id).closed,
    }


_CLIENTS = {"openapi-python-client": _openapi_python_client, "openapi-generator": _openapi_generator}

if __name__ == "__main__":
    generator, folder, address = sys.argv[1:]
    sys.path.insert(0, folder)
    print(json.dumps(_CLIENTS[generator](address)))
