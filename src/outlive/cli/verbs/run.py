"""`outlive run`: what a command in the foreground is given; how it is run is `outlive.cli.foreground`'s."""

from outlive.cli.foreground.plan import ForegroundOptions
from outlive.cli.foreground.run import run_command
from outlive.cli.parameters import (
    DETACH_KEYS_DEFAULT,
    SERVER,
    count,
    option,
    options,
    places,
    seconds,
    switch,
    takes,
)

_PARAMETERS = (
    places(
        "argv", "[--] COMMAND...", about="A program and its arguments.", is_required=False, ends_flags=True
    ),
    option("--shell", "-c", metavar="LINE", about="A shell line instead.", to="line"),
    switch("--detach", "-d", about="Print its id and leave it running.", to="is_detached"),
    switch(
        "--pty",
        off="--no-pty",
        about="Give it a terminal, or not; by default where stdin and stdout are one.",
        default=None,
    ),
    seconds("--timeout", about="End its tree then, and exit with 124.", to="timeout_s"),
    option(
        "--wait-for",
        metavar="TEXT|:PORT",
        about="Return once its output contains the text, or it listens on the port; it runs on.",
    ),
    options("--tag", metavar="NAME=VALUE", about="Names of yours, kept with it.", to="tags"),
    option("--group", "-g", metavar="NAME", about="Its group."),
    count(
        "--group-limit",
        metavar="COUNT",
        about="How many of the group run at once from now on; more wait.",
        least=1,
    ),
    option("--cwd", metavar="FOLDER", about="Its working folder instead of this one."),
    options("--env", metavar="NAME=VALUE", about="Added to the environment.", to="env"),
    options(
        "--secret",
        metavar="NAME",
        about="A variable of yours that is given to it and written nowhere.",
        to="secrets",
    ),
    option(
        "--profile",
        metavar="PROFILE",
        about="Its sandbox: open, guarded, workspace, offline or sealed; the server's default, or stronger.",
    ),
    options(
        "--limit",
        metavar="NAME=VALUE",
        about="What it may take, the server's bound or less: cpu=10m, cpus=1.5, memory=2G, files=256, processes=50.",
        to="limits",
    ),
    option(
        "--backend",
        metavar="NAME",
        about="Where it runs: local, docker, or the name of a node; the server's default else.",
    ),
    option("--image", metavar="IMAGE", about="The image of its container."),
    option(
        "--isolation",
        metavar="session|strict",
        about="A container that others share, or one of its own.",
    ),
    option(
        "--grant",
        metavar="SCOPE[:TIME]",
        about="Let it use outlive itself while it runs, by a token in its OUTLIVE_TOKEN: read, run or admin; run:1h.",
    ),
    seconds("--grace", about="Time between TERM and KILL.", to="grace_s"),
    option(
        "--detach-keys",
        metavar="KEYS",
        about="Typed at a terminal, they leave it running: ctrl-<letter> or characters, separated by commas; "
        '"" for none.',
        default=DETACH_KEYS_DEFAULT,
    ),
)
_MORE = """outlive run -- make -j8     outlive run -d -- ./server     outlive run -c 'make 2>&1 | tee log'

Exits as the command did. 124: its time was up, 125: outlive failed, 126: not executable, 127: not found.
"""


@takes(*_PARAMETERS, *SERVER, more=_MORE.rstrip("\n"))
def run(*, state_dir: str | None, no_start: bool, argv: list[str], **wanted: object) -> int:
    """Run the command, and end as it did."""
    # Every other parameter has the name of a field of `ForegroundOptions`.
    found = {name: tuple(value) if isinstance(value, list) else value for name, value in wanted.items()}
    options = ForegroundOptions(argv=tuple(argv), **found)  # type: ignore[arg-type] # the parser has typed them
    return run_command(options, state_dir=state_dir, no_start=no_start)
