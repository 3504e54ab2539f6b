"""The verbs on processes and terminals, a file each: how the verb is called, and what it does."""
