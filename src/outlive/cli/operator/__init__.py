"""The verbs of a person that answers for outlive: rules and approvals, tokens, the audit log, settings,
containers.
"""
