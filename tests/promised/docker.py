"""The promises of Docker mode."""

from collections.abc import Mapping

SENTENCES: Mapping[str, str] = {
    "S4.9.docker": "USE_DOCKER is read from the environment.",
    "S4.12.docker": "Docker mode does what local mode does, streaming included.",
}
