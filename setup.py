"""Builds the package, and compiles the modules that every message passes through (the rest is in pyproject.toml).

mypyc makes C of the same typed source that runs without it, so that nothing depends on it but speed. By default it is
done where it can be: without a C compiler, or if anything goes wrong, the package is pure Python, and says so
(`ackwire version -v`). ACKWIRE_COMPILE=0 leaves it out, ACKWIRE_COMPILE=1 makes a failure an error. An editable
installation is for people who change the source: it is compiled only if asked for.
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
    "broker/consumption",
    "broker/cursors",
    "broker/dispatch",
    "broker/handover",
    "broker/held",
    "broker/intake",
    "broker/limits",
    "broker/paging",
    "broker/patterns",
    "broker/pending",
    "broker/placing",
    "broker/queue",
    "broker/registry",
    "broker/repetitions",
    "broker/router",
    "broker/session",
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
    "server/peer",
    "server/turn",
    "store/blocks",
    "store/catalog",
    "store/engine",
    "store/index",
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

BUILDING = {"bdist_wheel", "build", "build_ext", "install"}
WISH = os.environ.get("ACKWIRE_COMPILE", "auto")


def is_wanted() -> bool:
    if WISH == "1":
        return bool((BUILDING | {"editable_wheel"}) & set(sys.argv))
    return WISH != "0" and bool(BUILDING & set(sys.argv))


def extensions() -> list[Extension]:
    """C of the hot modules; none if it cannot be made."""
    try:
        from mypyc.build import mypycify

        return mypycify(
            ["--config-file=", "--ignore-missing-imports", *(f"src/ackwire/{name}.py" for name in HOT_MODULES)],
            opt_level="2",
            debug_level="0",
            group_name="ackwire",
            multi_file=True,
        )
    except (Exception, SystemExit) as error:  # whatever it is: there is a way without
        give_up(error)
        return []


def give_up(error: BaseException) -> None:
    if WISH == "1":
        raise error
    print(f"not compiled, the package will be pure Python: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201


class AllOrNone(build_ext):
    """Modules that are compiled together work together only."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        for old in Path(self.build_lib).rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"):
            old.unlink()  # of an earlier build, with other modules perhaps
        try:
            super().run()
        except Exception as error:
            give_up(error)
            for extension in self.extensions:
                Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)


setup(ext_modules=extensions() if is_wanted() else [], cmdclass={"build_ext": AllOrNone})
