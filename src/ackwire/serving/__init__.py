"""Serves clients: one term as master, and what a slave answers meanwhile."""
