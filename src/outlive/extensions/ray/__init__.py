"""Places that a Ray cluster leases to several servers together (`--placement ray`, decision 213).

`ray_placement` starts a driver, a process of its own (`driver`), the only one that imports `ray`. What is
decided is in `leased`, how both talk in `leases`.
"""
