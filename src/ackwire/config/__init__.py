"""Every setting and the TOML file they are read from.

`load` reads a file, `problems` names everything wrong with a text, `render` writes a complete file that explains
itself. What settings there are: `settings.py` and, for `[[policy]]`, `ackwire/policy.py`. What a value may be:
`ackwire/rules.py`.
"""

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
    StoreSettings,
    WireSettings,
)
from ackwire.config.writing import render
from ackwire.rules import GIB, KIB, MIB, Kind, Rule
from ackwire.settings_file import Problem, read_text

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
    "Kind",
    "LimitSettings",
    "ListenSettings",
    "LogSettings",
    "Problem",
    "Reload",
    "Rule",
    "Settings",
    "ShutdownSettings",
    "StoreSettings",
    "WireSettings",
    "load",
    "plan_reload",
    "problems",
    "read_text",
    "render",
    "with_setting",
]
