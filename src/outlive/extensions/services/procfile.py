"""From a `Procfile` to services, as Heroku, foreman and overmind read it: `parse_procfile`. Pure.

A line is `name: command`; the command is a shell's line and may use $PORT. Blank lines and lines that begin
with # mean nothing. As in foreman each process gets a PORT of its own: the first the one that a file `.env`
beside the Procfile names, else the caller's environment, else 5000, and each one after it 100 more.

Source: foreman's manual, PROCFILE and ENVIRONMENT (https://ddollar.github.io/foreman).
"""

import re
from collections.abc import Mapping

from outlive.core.errors import ConfigInvalid
from outlive.core.identity import is_name
from outlive.extensions.services.declaration import MAX_SERVICES, ServiceRequest, unlike_an_id

FILE_NAME = "Procfile"
ENV_FILE = ".env"
FIRST_PORT, PORT_STEP = 5000, 100
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_LINE = re.compile(r"([A-Za-z][A-Za-z0-9_.-]{0,62})[ \t]*:(.*)", re.DOTALL)


def parse_procfile(
    text: str,
    *,
    folder: str,
    file: str = FILE_NAME,
    variables: Mapping[str, str] | None = None,
    port: str = "",
) -> dict[str, ServiceRequest]:
    """Return the services that a Procfile declares, in its order.

    Args:
        text: Its content.
        folder: Where it lies, absolute; the processes work there.
        file: What errors call it.
        variables: What a file `.env` beside it says; None where there is none.
        port: The caller's own PORT.

    Raises:
        ConfigInvalid: A line is neither blank, nor a comment, nor `name: command`; or a name stands there
        twice.
    """
    ports = ((variables or {}).get("PORT", ""), port)
    first_port = next((int(one) for one in ports if _PORT.fullmatch(one)), FIRST_PORT)
    services: dict[str, ServiceRequest] = {}
    # Not `splitlines`, for which a form feed inside of a command would end the line.
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if line == "services:":
            raise _refusal(
                f"{file} is no Procfile: it is a file of Docker Compose, or of another reader of YAML.",
                hint="A Procfile has a line NAME: COMMAND for each process (docs/services.md).",
            )
        if found is not None and not found[2].strip():
            raise _refusal(f"{file}, line {number}: {found[1]!r} has no command.")
        if found is None or "\0" in line:
            raise _refusal(
                f"{file}, line {number}: a line is NAME: COMMAND, as `web: ./server --port $PORT`."
            )
        name, command = found[1], found[2].strip()
        if not is_name(name):
            raise _refusal(
                f"{file}, line {number}: {name!r} looks like an id, and could not be told from one: call "
                f"it {unlike_an_id(name)!r}."
            )
        if name in services:
            raise _refusal(f"{file}, line {number}: there is a {name!r} already.")
        services[name] = ServiceRequest(
            command=command,
            folder=folder,
            environment={"PORT": str(first_port + PORT_STEP * len(services))},
            env_file=(f"{folder.rstrip('/')}/{ENV_FILE}",) if variables is not None else (),
        )
    if not services:
        raise _refusal(f"{file} declares no process.")
    if len(services) > MAX_SERVICES:
        raise _refusal(f"{file} declares {len(services)} processes; {MAX_SERVICES} are the most.")
    return services


def _refusal(text: str, *, hint: str = "docs/services.md describes both files.") -> ConfigInvalid:
    return ConfigInvalid("config_invalid", text, hint=hint)
