"""Small things with no better home that any layer may use: time, logs, bounded memories, certificates, plurals."""
