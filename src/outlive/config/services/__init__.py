"""The files in which a project declares its services: `outlive.processes.toml`, `Procfile`, and files of
variables. Pure.
"""
