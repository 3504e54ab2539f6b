"""The processes that must not lose anything: guardian, supervisor and shims. Standard library only.

They outlive the server. Nothing here imports asyncio, a third-party package, or anything of ours above `core`
and the two standard-library modules of `protocols`.
"""
