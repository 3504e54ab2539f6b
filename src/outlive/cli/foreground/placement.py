"""Where a command is to run by what it needs: the flags of `run`, what they ask for, and what is said while
it waits.
"""

from collections.abc import Mapping

from outlive.cli.far import far_url
from outlive.cli.foreground.plan import ForegroundOptions
from outlive.cli.output import say
from outlive.cli.parameters import NEED_EXAMPLES, option, switch
from outlive.client import Client
from outlive.client.results import ProcessInfo
from outlive.core.location import ANY, DOCKER, LOCAL

NEEDS = (
    option("--same-node-as", metavar="PROCESS", about="Beside this process, on the same machine."),
    switch("--spread", about="Rather on a machine that runs fewer of its group.", to="is_spread"),
    switch(
        "--no-wait", about="Refuse it where no machine has room, rather than let it wait.", to="is_refused"
    ),
)


def need(word: str) -> str:
    """Return a word that says what a command needs.

    Raises:
        ValueError: It is neither an amount nor a label.
    """
    from outlive.config.placement_settings import parse_resources  # noqa: PLC0415 -- as below

    try:
        parse_resources(word)
    except ValueError as error:
        raise ValueError(f"{error}, for instance {NEED_EXAMPLES}") from None
    return word


def parse_needs(wanted: ForegroundOptions) -> Mapping[str, object]:
    """Return what a command needs of its machine, as `execute` takes it."""
    # Start-up time: most commands say nothing of it.
    from outlive.config.placement_settings import parse_resources  # noqa: PLC0415

    found = parse_resources(",".join(wanted.needs))
    members = {
        "cpu": found.cpu,
        "memory": found.memory,
        "gpu": found.gpu,
        "labels": dict(found.labels) or None,
        "same_node_as": wanted.same_node_as,
        "spread": wanted.is_spread or None,
        "wait": False if wanted.is_refused else None,
    }
    return {name: value for name, value in members.items() if value is not None}


def placed(wanted: ForegroundOptions, client: Client) -> tuple[ForegroundOptions, bool]:
    """Return the options with the backend that the server would choose, and whether that is another
    machine.
    """
    if far_url() is not None:
        return wanted, True
    if wanted.backend is None and (backend := client.default_backend()) != LOCAL:
        wanted = wanted._replace(passed={**wanted.passed, "backend": backend})
    if wanted.is_placed and wanted.backend is None and client.nodes():
        wanted = wanted._replace(passed={**wanted.passed, "backend": ANY})
    return wanted, wanted.backend not in {None, LOCAL, DOCKER}


def say_waiting(info: ProcessInfo, client: Client) -> None:
    """Say what a command waits for that has not begun."""
    if info.hint is not None:
        say(f"outlive: {info.hint}")
    elif info.waits_for == "place" and info.process_id in client.fleet.list().get("unfit", ()):
        say("outlive: No machine that is known has what it needs: it waits for one (outlive node ls).")
    elif info.waits_for == "place":
        say("outlive: It waits until a machine has room for it.")
