"""The texts for people hold what they say: tables are compared with the code, examples are executed."""
