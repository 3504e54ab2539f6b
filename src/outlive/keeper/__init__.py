"""The processes that must not lose anything: guardian, supervisor and shims. Standard library only.

They outlive the server. Nothing here imports asyncio, a third-party package, or a package of this project
above `core`; of `protocols` only the two modules that need nothing but the standard library (`frames`,
`keeper`).
"""
