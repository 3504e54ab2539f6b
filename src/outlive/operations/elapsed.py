"""Times as people say them, and what is said of a start that an earlier process has answered. Pure."""


def elapsed(seconds: float) -> str:
    """Return a time as people say it: "0.4 s", "45 s", "12 min", "3 h", "2 days"."""
    if seconds < 9.95:  # "10.0 s" is one digit too many
        return f"{seconds:.1f} s"
    for unit, size in (("days", 172_800), ("h", 7200), ("min", 180)):
        if seconds >= size:
            return f"{seconds / {'days': 86_400, 'h': 3600, 'min': 60}[unit]:.0f} {unit}"
    return f"{seconds:.0f} s"


def ran_before(ended_s_ago: float | None) -> str:
    """Return when the process of a key ran, since its result may be old; None: it has not ended."""
    if ended_s_ago is None:
        return "started before with this key, not again"
    return f"ran {elapsed(max(0.0, ended_s_ago))} ago with this key, not again"
