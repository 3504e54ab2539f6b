"""Options about Ray (`RayOptions`)."""

from outlive.config.options import option, parse_text
from outlive.core.values import dataclass


@dataclass(frozen=True, kw_only=True)
class RayOptions:
    """Where Ray is; `--placement ray` itself is an option of the core."""

    # Ray's own variable, which its other programs read, too.
    ray_address: str = option(
        "address",
        parse_text,
        "auto",
        "Where Ray's control server is, with --placement ray; auto is the one that this machine has joined.",
        flag="--ray-address",
        env=("RAY_ADDRESS",),
        example="10.0.0.1:6379",
    )
