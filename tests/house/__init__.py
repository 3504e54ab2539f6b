"""Tests about the shape of the repository itself: size, names, imports, promises, cleanliness."""
