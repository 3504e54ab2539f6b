"""The engine on a real keeper, and its link on a keeper that misbehaves to order."""
