"""Questions to the broker: what they and their answers look like, for both sides."""
