"""The pure nouns and rules: life of a process, cursors, ids."""
