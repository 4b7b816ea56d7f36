"""Opens the store that the settings name, and closes it again: one module for each kind."""
