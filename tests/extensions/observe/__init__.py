"""The extension `observe`: notices."""
