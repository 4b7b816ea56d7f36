"""The audit pipeline: from the broker's events to the life cycle of each message, tables, reconciliation and advice.

`job.run_job` is the batch job behind `ackwire audit run`. One day of events goes through these steps, each a module:
`counting` (what the files hold) → `cleaning` (events once each, in order) → `lifecycles` with `reduce` and `classify`
(a row per message copy) → `tables` (per minute), `reconciliation` (what must be equal), `problems` (the ids of what is
not) and `advice` (prefetch and optimizeAcknowledge). `runs` and `partitions` keep what one day must know of those
before it.

`follow` is the stream behind `ackwire audit follow`, with `alerts` (state and alerts) and `hourly` (counts as files).
`report` reads finished tables, without Spark; `page` and `plots` make them one HTML page.
"""
