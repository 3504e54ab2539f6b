"""What a command waits for that policy asks a person about: `ApprovalState`."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalState:
    """An approval that a start needs: why, until when, and by whom it was given (None: nobody yet).

    `variables` are the names that the caller set in the environment, for whoever decides.
    """

    reason: str
    expires_at: datetime
    variables: tuple[str, ...] = ()
    approved_by: str | None = None
