"""From settings to a TOML file that explains itself."""

import textwrap
from dataclasses import MISSING, Field, fields
from typing import Any, Final

from ackwire.config.fields import Option
from ackwire.config.policy import DEFAULT_POLICY, DestinationPolicy
from ackwire.config.settings import POLICY, TABLES, Settings
from ackwire.config.types import Bytes, Number, Share


def render(settings: Settings) -> str:
    """A complete TOML file: every setting with its unit, default, range and reason. `problems` likes it."""
    blocks = ['# Settings of Ackwire. Times and sizes: "30 s", "500 ms", "64 KiB", "1 GB", or plain numbers.']
    for table in TABLES:
        section = getattr(settings, table)
        blocks.append(f"{_comment(type(section).__doc__ or '')}\n[{table}]")
        blocks += [_explained(key, getattr(section, key.name)) for key in fields(section)]
    blocks += [_CLIENT_TABLES, _policy_introduction()]
    blocks += [_explained(key, None) for key in fields(DestinationPolicy)]
    blocks += [_policy(policy) for policy in settings.policies]
    return "\n\n".join(blocks) + "\n"


_CLIENT_TABLES: Final = """\
# What clients read in the same file, by name: ConnectionFactory.lookup("orders"), ackwire send orders …
# [client.factories.orders]
# url = "failover:(tcp://a:61616,tcp://b:61616)"
# user_name = "…"
# password_file = "…"
# [client.destinations]
# incoming = "queue://ORDERS?consumer.prefetchSize=1\""""


def _policy_introduction() -> str:
    introduction = _comment(
        f"{DestinationPolicy.__doc__} Write a [[{POLICY}]] table for each pattern, with match and what differs from "
        "the defaults. These are the settings it can have:"
    )
    return f"{introduction}\n# [[{POLICY}]]"


def _policy(policy: DestinationPolicy) -> str:
    """The table of one policy: its pattern, and what is not at its default."""
    lines = [f"[[{POLICY}]]"]
    for key in fields(policy):
        value = getattr(policy, key.name)
        if key.name == "match" or value != getattr(DEFAULT_POLICY, key.name):
            lines.append(f"{key.name} = {_option(key).type.toml(value)}")
    return "\n".join(lines)


def _explained(key: "Field[Any]", value: object) -> str:
    """The reason, the facts, and the setting; commented out if there is no *value*, for TOML has no word for None."""
    option = _option(key)
    if value is not None:
        line = f"{key.name} = {option.type.toml(value)}"
    elif key.default in (None, MISSING):
        line = f"# {key.name} = …" if isinstance(option.type, Number) else f'# {key.name} = "…"'
    else:
        line = f"# {key.name} = {option.type.toml(key.default)}"
    if isinstance(value, Share):
        line += f"  # {option.type.show(value)} ({value.explained()})"
    facts = f"Default: {_default(option, key.default)}; {option.type.facts}."
    return f"{_comment(option.reason)}\n{_comment(facts)}\n{line}"


def _option(key: "Field[Any]") -> Option:
    option = key.metadata["option"]
    assert isinstance(option, Option)
    return option


def _default(option: Option, default: object) -> str:
    if isinstance(option.type, Bytes) and option.type.percent:
        return f"{option.type.percent} %"
    return "none" if default is None else option.type.show(default) or "empty"


def _comment(text: str) -> str:
    text = " ".join(text.split())
    return textwrap.fill(text, 100, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
