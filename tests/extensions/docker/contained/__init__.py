"""The keeper's tests once more, on commands that a runner starts instead of a shim: the same test bodies.

The runner is an ordinary process here, with nothing of a container around it but its protocol;
tests/extensions/docker has the rest.
"""
