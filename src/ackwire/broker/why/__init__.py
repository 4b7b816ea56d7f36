"""Why nothing moves: the broker explains itself."""
