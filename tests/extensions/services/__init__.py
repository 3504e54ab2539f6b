"""Services: declaration, life, files, doors and verbs."""
