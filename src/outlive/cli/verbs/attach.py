"""`outlive attach`: how a process is brought to the foreground; what happens there is `outlive.cli.foreground`'s."""

from outlive.cli.foreground.attach import attach_command
from outlive.cli.parameters import DETACH_KEYS_DEFAULT, NO_START, STATE_DIR, option, place, switch, takes


@takes(
    place("name", "PROCESS", about="An id, the end of one, or a pid."),
    option(
        "--detach-keys",
        metavar="KEYS",
        about="Typed at a terminal, they leave it running: ctrl-<letter> or characters, separated by commas; "
        '"" for none.',
        default=DETACH_KEYS_DEFAULT,
    ),
    switch("--read-only", about="Look on: no keys, no input, no signals."),
    STATE_DIR,
    NO_START,
    more="outlive attach 3k9x2m     outlive attach --read-only 3k9x2m",
)
def attach(*, name: str, detach_keys: str, read_only: bool, state_dir: str | None, no_start: bool) -> int:
    """Bring the process to the foreground, and end as it did."""
    return attach_command(
        name, detach_keys=detach_keys, read_only=read_only, state_dir=state_dir, no_start=no_start
    )
