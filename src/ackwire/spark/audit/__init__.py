"""The audit pipeline: what the broker wrote about its messages becomes lives, tables, sums that add up, and advice.

`job.run_job` is the batch job behind `ackwire audit run`. One day of events goes through these steps, each a module:
`counting` (what the files hold) → `cleaning` (events once each, in order) → `lifecycles` with `folding` and `judging`
(a row per message copy) → `tables` (per minute), `reconciliation` (what must be equal), `problems` (the ids of what is
not) and `advice` (prefetch and optimizeAcknowledge). `runs` and `books` keep what one day must know of those before it.

`follow` is the stream behind `ackwire audit follow`, with `watch` (what is known, and alerts) and `hourly` (counts as
files). `report` reads finished tables, without Spark; `page` and `plots` make them one HTML page.
"""
