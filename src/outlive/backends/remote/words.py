"""From a spec to what the node is asked to run: `execute_words`. Pure."""

from collections.abc import Mapping

from outlive.core.spec import Spec


def execute_words(spec: Spec, script: bytes, secrets: Mapping[str, str]) -> dict[str, object]:
    """Return the parameters of `execute`, by the names of the client's `StartOptions`.

    What only the caller knows stands in the spec's `meta` (`engine.elsewhere`). The process is detached there: whose it is, and
    what becomes of it when that client goes, is decided here.
    """
    asked = spec.meta.get("asked")
    words: dict[str, object] = dict(asked) if isinstance(asked, dict) else {"argv": list(spec.argv)}
    words |= {
        "detach": True,
        "pty": spec.stdio == "pty",
        "merge": spec.stdio == "merge",
        "stdin": spec.stdin,
        "rows": spec.rows,
        "cols": spec.cols,
        "timeout_s": spec.timeout_s,
        "grace_s": spec.grace_s,
        "output_limit": spec.output_limit,
        "on_limit": spec.on_limit,
        "after_exit": spec.after_exit,
    }
    if spec.umask is not None:
        words["umask"] = spec.umask
    if spec.nice is not None:
        words["nice"] = spec.nice
    if script:
        words["script"] = script.decode("utf-8", "surrogateescape")
    if secrets:
        words["env_secrets"] = dict(secrets)
    return words
