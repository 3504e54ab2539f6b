"""Copies by the client: their words, and what is kept, sent again, and left out."""
