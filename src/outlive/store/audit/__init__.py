"""The audit log on disk: chained lines (`audit_chain`), and the files that hold them (`audit_trail`)."""
