"""Every setting and the TOML file they are read from.

`load` reads a file, `problems` names everything wrong with a text, `render` writes a complete file that explains
itself. What settings there are: `settings.py` and, for `[[policy]]`, `config/policy.py`. How they are
declared: `fields.py` and `types.py`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ackwire.config.reading import load, problems, with_setting
    from ackwire.config.reloading import Reload, plan_reload
    from ackwire.config.settings import (
        AuditSettings,
        BrokerSettings,
        ClockSettings,
        ConnectionSettings,
        DestinationSettings,
        HandshakeSettings,
        HttpSettings,
        LimitSettings,
        ListenSettings,
        LogSettings,
        Settings,
        ShutdownSettings,
        SqlSettings,
        StoreSettings,
        WireSettings,
    )
    from ackwire.config.settings_file import Problem, read_text
    from ackwire.config.types import GIB, KIB, MIB
    from ackwire.config.writing import render

__all__ = [
    "GIB",
    "KIB",
    "MIB",
    "AuditSettings",
    "BrokerSettings",
    "ClockSettings",
    "ConnectionSettings",
    "DestinationSettings",
    "HandshakeSettings",
    "HttpSettings",
    "LimitSettings",
    "ListenSettings",
    "LogSettings",
    "Problem",
    "Reload",
    "Settings",
    "ShutdownSettings",
    "SqlSettings",
    "StoreSettings",
    "WireSettings",
    "load",
    "plan_reload",
    "problems",
    "read_text",
    "render",
    "with_setting",
]


def __getattr__(name: str) -> Any:
    """Load the broker's settings when one of them is first asked for: clients use this package, too."""
    if name not in __all__:
        raise AttributeError(f"module 'ackwire.config' has no attribute {name!r}")
    from ackwire.config import reading, reloading, settings, settings_file, types, writing

    modules = (settings, reading, reloading, writing, types, settings_file)
    found = next(module for module in modules if hasattr(module, name))
    return globals().setdefault(name, getattr(found, name))
