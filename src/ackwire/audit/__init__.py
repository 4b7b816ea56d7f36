"""The life of every message as Parquet files (docs/guide/audit-events.md)."""
