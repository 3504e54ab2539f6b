"""`outlive rename`: another name for a process, while it runs and afterwards."""

from outlive.cli.output import say, show_json
from outlive.cli.parameters import NAME, SERVER, ServerFlags, place, takes
from outlive.cli.processes import connected, find_process, view


@takes(NAME, place("new_name", "NAME", about="What it is called from now on."), *SERVER)
def rename(*, name: str, new_name: str, server: ServerFlags) -> int:
    """Give a process a name, and say so."""
    with connected(server) as client:
        info = find_process(client, name).relabel({}, name=new_name)
    if server.as_json:
        show_json({"process": view(info)})
    else:
        say(f"{info.process_id} is called {info.name}")
    return 0
