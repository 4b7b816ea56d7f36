"""Builds the package: pure Python, or with the modules compiled that every message passes through (ADR 7).

`pip install .` compiles nothing, needs no compiler, and takes seconds: that is what clients want. ACKWIRE_COMPILE=1
makes C of the hot modules with mypyc, for brokers: the same typed source, and nothing depends on it but speed. What
cannot be compiled is an error then, and mypy is a build requirement only then. `make wheel` builds both wheels.
"""

import os
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HOT_MODULES = [
    "audit/events",
    "audit/pending_records",
    "audit/records",
    "audit/spool",
    "broker/acknowledgement",
    "broker/advisory",
    "broker/attaching",
    "broker/auditing",
    "broker/broker",
    "broker/browse_snapshot",
    "broker/browsers",
    "broker/bulk_access",
    "broker/clients",
    "broker/committed_sends",
    "broker/connections",
    "broker/consumer_queues",
    "broker/cursors",
    "broker/dead_letters",
    "broker/destination_events",
    "broker/dispatch",
    "broker/dispatch_gate",
    "broker/duplicates",
    "broker/early_dispatch",
    "broker/fetching",
    "broker/in_flight",
    "broker/lanes",
    "broker/large_acks",
    "broker/large_commits",
    "broker/limits",
    "broker/live_settings",
    "broker/numbered_set",
    "broker/paging",
    "broker/patterns",
    "broker/pending",
    "broker/permissions",
    "broker/placing",
    "broker/publishing",
    "broker/pumping",
    "broker/queue",
    "broker/queue_consumers",
    "broker/queue_contents",
    "broker/queue_expiry",
    "broker/queue_removal",
    "broker/queue_restart",
    "broker/queue_view",
    "broker/receive_room",
    "broker/registry",
    "broker/reservations",
    "broker/router",
    "broker/routing",
    "broker/sending",
    "broker/session",
    "broker/slices",
    "broker/staged_part",
    "broker/staging",
    "broker/subscription",
    "broker/subscriptions",
    "broker/topic",
    "broker/transaction_manager",
    "broker/transactions",
    "jms/destinations",
    "jms/message",
    "replication/messages",
    "selector/conditions",
    "server/adapters/contract",
    "server/adapters/openwire",
    "server/adapters/openwire_client",
    "server/adapters/openwire_consuming",
    "server/adapters/openwire_login",
    "server/adapters/openwire_sending",
    "server/adapters/openwire_transactions",
    "server/deadline",
    "server/frame_room",
    "server/loop_monitor",
    "server/peer",
    "server/peer_output",
    "server/reading",
    "server/turn",
    "serving/ending_clock",
    "store/blocks",
    "store/catalog",
    "store/catalog_restore",
    "store/contract/durability",
    "store/files",
    "store/index",
    "store/journal/answers",
    "store/journal/checkpointing",
    "store/journal/failure",
    "store/journal/gradual_release",
    "store/journal/group_commit",
    "store/journal/journal_store",
    "store/journal/lazy_timer",
    "store/journal/opening",
    "store/journal/options",
    "store/journal/pending_records",
    "store/journal/portions",
    "store/journal/presence",
    "store/journal/reads",
    "store/journal/record",
    "store/journal/record_application",
    "store/journal/record_buffer",
    "store/journal/recorder",
    "store/journal/recovery",
    "store/journal/recovery_report",
    "store/journal/replay",
    "store/journal/replica/applying",
    "store/journal/replica/chunk_check",
    "store/journal/replica/log_map",
    "store/journal/replica/replica_journal",
    "store/journal/replica/syncing",
    "store/journal/replica/walk",
    "store/journal/segment",
    "store/journal/segment_files",
    "store/journal/space",
    "store/journal/state_recording",
    "store/journal/writer",
    "store/journal_sql/journal_sql_store",
    "store/journal_sql/journaled_commit",
    "store/journal_sql/journaled_message",
    "store/journal_sql/log",
    "store/journal_sql/log_recorder",
    "store/journal_sql/record_replay",
    "store/leveldb_index",
    "store/lmdb_index",
    "store/sql/catalog",
    "store/sql/changes",
    "store/sql/execution",
    "store/sql/frames",
    "store/sql/group_commit",
    "store/sql/memory",
    "store/sql/postgresql_pipeline",
    "store/sql/progress",
    "store/sql/reads",
    "store/sql/recorder",
    "store/sql/sequence_set",
    "store/sql/sql_store",
    "store/sql/statements",
    "store/sql/writer",
    "store/temp",
    "tabular/writing",
    "util/clock",
    "util/lru",
    "util/sequence_runs",
    "wire/buffer",
    "wire/inactivity",
    "wire/openwire/cache",
    "wire/openwire/cached_decode",
    "wire/openwire/cached_encode",
    "wire/openwire/client_decode",
    "wire/openwire/client_encode",
    "wire/openwire/client_protocol",
    "wire/openwire/codec_fast",
    "wire/openwire/columnar",
    "wire/openwire/frame_builder",
    "wire/openwire/jdbc_rows",
    "wire/openwire/layout",
    "wire/openwire/lookup",
    "wire/openwire/protocol",
    "wire/openwire/stored",
    "wire/openwire/text",
    "wire/openwire/walking",
    "wire/protocol",
]
"""Below src/ackwire. What keeps instances of int's subclasses where it says int cannot be among them."""

COMPILER = "mypy>=2.4,<2.5"
"""It brings mypyc. The version is that of the `dev` extra, which checks the same source."""

BUILDING = {"bdist_wheel", "build", "build_ext", "editable_wheel", "install"}
IS_COMPILED = os.environ.get("ACKWIRE_COMPILE", "0") not in ("", "0")


def extensions() -> list[Extension]:
    """C of the hot modules."""
    from mypyc.build import mypycify

    return mypycify(
        ["--config-file=", "--ignore-missing-imports", *(f"src/ackwire/{name}.py" for name in HOT_MODULES)],
        opt_level="2",
        debug_level="0",
        group_name="ackwire",
        multi_file=True,
    )


class ParallelBuild(build_ext):
    """Compiles on all processors; modules that are compiled together work together only."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        for old in Path(self.build_lib).rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"):
            old.unlink()  # of an earlier build, with other modules perhaps
        super().run()


setup(
    ext_modules=extensions() if IS_COMPILED and BUILDING & set(sys.argv) else [],
    cmdclass={"build_ext": ParallelBuild},
    setup_requires=[COMPILER] if IS_COMPILED else [],
)
