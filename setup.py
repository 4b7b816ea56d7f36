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
    "audit/records",
    "audit/spool",
    "audit/unwritten",
    "broker/acks",
    "broker/auditing",
    "broker/bets",
    "broker/broker",
    "broker/bulk_access",
    "broker/clients",
    "broker/committed_sends",
    "broker/connections",
    "broker/consumption",
    "broker/cursors",
    "broker/dead_letters",
    "broker/destination_events",
    "broker/dispatch",
    "broker/handover",
    "broker/held",
    "broker/intake",
    "broker/large_commits",
    "broker/limits",
    "broker/live_settings",
    "broker/paging",
    "broker/parts",
    "broker/patterns",
    "broker/pending",
    "broker/permissions",
    "broker/placing",
    "broker/publishing",
    "broker/queue",
    "broker/receive_room",
    "broker/registry",
    "broker/repetitions",
    "broker/rolls",
    "broker/router",
    "broker/routing",
    "broker/session",
    "broker/slices",
    "broker/staging",
    "broker/subscription",
    "broker/topic",
    "broker/transactions",
    "broker/transactor",
    "clock",
    "destinations",
    "heartbeat",
    "message",
    "recent",
    "runs",
    "selector/conditions",
    "server/adapters/openwire",
    "server/loop_monitor",
    "server/peer",
    "server/turn",
    "store/blocks",
    "store/catalog",
    "store/engine",
    "store/index",
    "store/journal/presence",
    "store/journal/record",
    "store/journal/recovery",
    "store/journal/segment",
    "store/journal/unwritten",
    "store/journal/writer",
    "store/temp",
    "tabular/writing",
    "wire/buffer",
    "wire/openwire/cache",
    "wire/openwire/client_protocol",
    "wire/openwire/dispatches",
    "wire/openwire/fast",
    "wire/openwire/incoming",
    "wire/openwire/lookup",
    "wire/openwire/outgoing",
    "wire/openwire/protocol",
    "wire/openwire/rows",
    "wire/openwire/slots",
    "wire/openwire/stored",
    "wire/openwire/text",
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
