"""The kinds of values that requests are made of, each with its bounds: seconds, sizes, names, tags. Pure.

A bound stands here once. Every frontend checks it, and every published schema shows it.
"""

from typing import Annotated, Literal

from msgspec import Meta

from outlive.core.command import UMASK_PATTERN
from outlive.core.sandbox import MIN_CPUS
from outlive.core.tags import MAX_TAG_NAME, MAX_TAG_VALUE, MAX_TAGS

# Ten years, in seconds: beyond that, timers overflow. No caller means it.
MAX_S = 10 * 365 * 86400

Seconds = Annotated[float, Meta(ge=0, le=MAX_S)]
Timeout = Annotated[float, Meta(gt=0, le=MAX_S)]
# A timeout of the tools that promise whole seconds (promise S1.2).
WholeSeconds = Annotated[int, Meta(ge=1, le=MAX_S)]
# How long a call waits. A proxy on the way gives up long before an hour.
WaitSeconds = Annotated[float, Meta(ge=0, le=3600)]

# A terminal's rows or columns: struct winsize holds 16 bits (ioctl_tty(2)).
Cells = Annotated[int, Meta(ge=1, le=65535)]
# A size in bytes. The keeper's records hold 63 bits.
Bytes = Annotated[int, Meta(ge=1, le=2**62)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
# A resource limit (setrlimit(2)) is at most this where a C long has 32 bits.
LimitCount = Annotated[int, Meta(ge=1, le=2**31)]
Cpus = Annotated[float, Meta(ge=MIN_CPUS, le=2**20)]
Niceness = Annotated[int, Meta(ge=-20, le=19)]  # setpriority(2)
# Three octal digits, with or without a leading zero: "022".
Umask = Annotated[str, Meta(pattern=UMASK_PATTERN)]

Text = Annotated[str, Meta(min_length=1)]
Words = Annotated[tuple[str, ...], Meta(min_length=1)]
TagName = Annotated[str, Meta(min_length=1, max_length=MAX_TAG_NAME)]
TagValue = Annotated[str, Meta(max_length=MAX_TAG_VALUE)]
Tags = Annotated[dict[TagName, TagValue], Meta(max_length=MAX_TAGS)]
TagChanges = Annotated[dict[TagName, TagValue | None], Meta(max_length=MAX_TAGS)]
Group = Annotated[str, Meta(min_length=1, max_length=128)]
# "local", "docker", or a node's name, which is one label of a host's name (RFC 1035, section 2.3.4).
BackendName = Annotated[str, Meta(min_length=1, max_length=63)]
# The members of `core.sandbox.Profile`: as text, so that schemas list the words where they are used.
ProfileName = Literal["open", "guarded", "workspace", "offline", "sealed"]
GrantText = Annotated[str, Meta(max_length=40)]
# A workspace, shown in a line of words. Not "\\Z" at its end, which JSON Schema's dialect lacks: "$" alone takes a newline.
WorkspaceName = Annotated[str, Meta(pattern=r"^[\w.-]{1,100}(?!\n)$")]
