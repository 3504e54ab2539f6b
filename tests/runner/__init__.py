"""The runner for containers, its real binary on real processes: the tests play the supervisor.

No Docker is needed.
"""
