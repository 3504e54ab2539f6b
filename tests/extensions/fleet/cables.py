"""Two networks of a test's own, and a cable between them that is pulled (needs root)."""

import os
import subprocess


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=10)


class Cable:
    """Two ends: `here`, and `there` in a namespace of its own."""

    def __init__(self) -> None:
        tag = f"{os.getpid() % 10_000}"
        self.space, self._near, self._far = f"outlive{tag}", f"ol{tag}n", f"ol{tag}f"
        net = f"10.213.{os.getpid() % 250}"
        self.here, self.there = f"{net}.1", f"{net}.2"

    def lay(self) -> None:
        """Lay it."""
        _ip("netns", "add", self.space)
        _ip("link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self.space)
        _ip("addr", "add", f"{self.here}/24", "dev", self._near)
        _ip("link", "set", self._near, "up")
        _ip("-n", self.space, "addr", "add", f"{self.there}/24", "dev", self._far)
        _ip("-n", self.space, "link", "set", self._far, "up")
        _ip("-n", self.space, "link", "set", "lo", "up")

    def pull(self) -> None:
        """Cut the link without a word."""
        _ip("link", "set", self._near, "down")

    def plug(self) -> None:
        """Make it whole again."""
        _ip("link", "set", self._near, "up")

    def remove(self) -> None:
        """Remove everything."""
        subprocess.run(["ip", "link", "del", self._near], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", self.space], capture_output=True, check=False)
