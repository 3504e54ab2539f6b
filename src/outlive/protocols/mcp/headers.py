"""The first line of a lean answer: what has become of a process, in as few words as a model needs.

Pure (promise S4.13.answers).

A complete answer says `[exit 0]` and nothing else. The short id stands there only where a later call may need
it; what is as the caller asked (folder, backend) is not repeated.
"""

from outlive.core.command import Profile
from outlive.core.hints import elapsed
from outlive.core.lifecycle import Cause, State, signal_name
from outlive.core.location import HERE
from outlive.core.printable import hidden_words
from outlive.core.process import ProcessRecord, Waiting
from outlive.core.values import dataclass

STOPPED_NOTE = "Stopped by the agent."  # of what a model has ended by name (`stop`)
_BY_CLIENT = (
    "Cancelled by the client"  # how the notes of cancelled calls begin: a person's Esc (`http.calls`)
)
_SHOWN_PORTS = 5
_WAITS = {
    "approval": "waits for a person's approval",
    "group": "waits for its turn in its group",
    "place": "waits for a machine that has room",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is known of a process beside its record.

    Attributes:
        duration_s: How long it has run.
        name: By which a later call may name it; its short id where empty.
        shows_id: Whether a later call may need its id.
        ports: What its tree listens on.
        waiting: Whether it waits for input.
        workspace: The name of its workspace, and what it has left there.
        redacted: How many secrets in the shown output are redacted.
        remark: One more fact that the caller should know first, in a few words.
        end: How that part of it has ended which the answer shows; empty where it shows the whole.
        command: What it runs, where the answer has to stand alone: its caller has waited for long.
    """

    duration_s: float
    name: str = ""
    shows_id: bool = True
    ports: tuple[int, ...] = ()
    waiting: Waiting = "no"
    workspace: str | None = None
    redacted: int = 0
    remark: str = ""
    end: str = ""
    command: str = ""


def header(record: ProcessRecord, now: Circumstances) -> str:
    """Return the line; a second one says what a person has to do where one has to."""
    state = now.end or (_end(record) if record.is_complete else _life(record, now))
    # The state first: a model that reads one word knows whether to go on. Rare facts follow in the order of
    # their weight.
    parts = [f"{now.name or record.short_id} {state}" if now.shows_id else state]
    parts += _alone(record, now)
    if now.remark:
        parts.append(now.remark)
    if record.sandbox.profile is not Profile.OPEN:
        parts.append(f"sandbox {record.sandbox.profile}")
    elif record.sandbox.features:  # limits alone, by what holds them
        parts.append(f"limited by {', '.join(record.sandbox.features)}")
    if record.location != HERE:
        parts.append(f"on {record.location.backend}")
    if record.output_lost:
        parts.append(
            "output lost" if record.lost_bytes is None else f"{record.lost_bytes} bytes of output lost"
        )
    if not record.is_reachable:
        parts.append("reachable=false (its node is away: this is what was known last)")
    elif record.is_unknown:
        parts.append("not found again yet: this is what was known last")
    if now.workspace is not None:
        parts.append(f"workspace {now.workspace}")
    if now.ports:
        parts.append(f"listens on {', '.join(map(str, now.ports[:_SHOWN_PORTS]))}")
    if record.is_complete and record.descendants:
        parts.append(f"{record.descendants} of its processes still run")
    if now.redacted:
        parts.append(hidden_words(now.redacted))
    text = f"[{', '.join(parts)}]"
    return text if record.hint is None else f"{text}\n[{record.hint}]"


def _alone(record: ProcessRecord, now: Circumstances) -> list[str]:
    if not now.command:
        return []
    return [*([f"after {elapsed(now.duration_s)}"] if record.is_complete else []), repr(now.command)]


def before_words(failure: int | None) -> str:
    """Return what a header says of the exit code before a final filter; empty for none."""
    return "" if failure is None else f"but exit {failure} before the last |"


def _life(record: ProcessRecord, now: Circumstances) -> str:
    """Return what a process does now.

    One that has ended counts as running until all of its output was read.
    """
    match record.state:
        case State.QUEUED:
            return _WAITS[record.waits_for or "group"]
        case State.PAUSED:
            return "paused"
        case State.STOPPING:
            return "is being stopped"
        case _:
            pass
    if now.waiting != "no":
        what = "a password" if now.waiting == "password" else "input"
        return f"waiting for {what}" + (", a person was asked" if record.is_person_asked else "")
    return f"running, {elapsed(now.duration_s)}"


def _end(record: ProcessRecord) -> str:
    """Return how a process has ended, and by which of several possible hands."""
    error = (record.error or "").rstrip(".")
    code = f" (exit {record.exit_code})" if record.exit_code else ""
    match record.cause:
        # "by you": the note is this door's own. An operator, a group or another client says its own words.
        case Cause.CANCEL if record.error == STOPPED_NOTE:
            return f"stopped by you{code}"
        case Cause.CANCEL if error.startswith(_BY_CLIENT):
            return f"the user cancelled{code}"
        case Cause.CANCEL:
            return f"stopped: {error}{code}"
        case Cause.TIMEOUT:
            return f"timed out after {record.timeout_s or 0:g} s, killed{code}"
        case Cause.OOM:
            return "killed: out of memory"
        case Cause.OUTPUT_LIMIT:
            return "killed: more output than its limit"
        case _:
            pass
    if record.state is State.EXITED:
        return (
            f"exit {record.exit_code}"
            if record.error is None or record.output_lost
            else f"exit {record.exit_code}, {error}"
        )
    if record.state is State.SIGNALED:
        return f"killed by {signal_name(record.exit_signal)}" + (f": {error}" if error else "")
    return error or str(record.state.value)
