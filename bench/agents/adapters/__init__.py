"""How an agent does with each server's tools what it wants to do: one thin adapter a tool set, no
decisions.
"""
