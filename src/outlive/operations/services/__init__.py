"""Services: processes that a project wants to run.

What is declared, what is asked for, and how their life goes on. Pure.
"""
