"""What is done to a process that is there: signals, sizes, tags, answers to an approval. Pure.

How a process is named is each frontend's own: JSON-RPC by a member `process_id`, which its subclasses add, REST by the path.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from outlive.core.process import merge_tags
from outlive.operations.requests import Cells, Group, Seconds, TagChanges


class Control(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What to do with the whole tree."""

    grace: Annotated[Seconds | None, Meta(description="For cancel: seconds between TERM and KILL.")] = None


class ControlRequest(Control, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What to do with the whole tree."""

    action: Literal["pause", "resume", "cancel"]


class SignalRequest(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A signal by number or name."""

    signal: Annotated[int | str, Meta(description="A number, or a name like INT or SIGINT.")]
    whole_tree: Annotated[bool, Meta(description="Everything below the main process gets it, too.")] = False


class Resize(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A terminal's window size."""

    rows: Annotated[Cells, Meta(description="Character cells: height.")]
    cols: Annotated[Cells, Meta(description="Character cells: width.")]


class Changes(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What to change of a process (as in RFC 7396): absent members stay, null removes."""

    tags: Annotated[
        TagChanges | UnsetType | None,
        Meta(description="Tags to set; null removes one, and null for all of them removes all."),
    ] = UNSET
    group: Annotated[Group | UnsetType | None, Meta(description="Its group; null takes it out.")] = UNSET

    def applied(self, tags: Mapping[str, str], group: str | None) -> tuple[dict[str, str], str | None]:
        """Return tags and group as they are afterwards.

        Raises:
            InvalidRequest: There would be too many tags.
        """
        new_group = group if isinstance(self.group, UnsetType) else self.group
        if isinstance(self.tags, UnsetType):
            return dict(tags), new_group
        return {} if self.tags is None else merge_tags(tags, self.tags), new_group


class Approving(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What is approved."""

    digest: Annotated[
        str,
        Meta(
            pattern="^[0-9a-f]{64}$", description="As the list of approvals has shown it: all that would run."
        ),
    ]


class Denial(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Why a start is not approved."""

    reason: Annotated[str, Meta(max_length=500, description="One sentence for the caller.")] = ""
