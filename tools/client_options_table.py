"""The options of the client: writes docs/guide/client-uris.md from their declarations, or checks that it is current.

python tools/client_options_table.py           write it
python tools/client_options_table.py --check   exit 1 if it is out of date
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from ackwire.client.option_rules import Option, Section, options_of
from ackwire.client.options import SECTIONS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "guide" / "client-uris.md"

INTRODUCTION = """\
# Broker URLs of the client

Made from `src/ackwire/client/options.py` by `tools/client_options_table.py`; change it there. Everything on this page
is read and checked by `ackwire.client.uri`; the rest of the client is being built on it.

```
tcp://broker:61616                         nio, ssl, nio+ssl, auto, auto+nio, auto+ssl, auto+nio+ssl alike
tcp://broker:61616/10.0.0.5:0              connect from this local address
failover:(tcp://a:61616,ssl://b:61617?verifyHostName=false)?randomize=false&jms.useAsyncSend=true
failover:(tcp://a,tcp://b)?nested.keepAlive=true&nested.wireFormat.maxInactivityDuration=10000
failover:tcp://a:61616                     the same with one URI or several, and without options of failover
vm://name?broker.persistent=false          a broker in this process
orders?consumer.prefetchSize=1&consumer.exclusive=true     options in a destination's name
```

- Names are ActiveMQ's, and so are defaults and units. Names are case-sensitive, but the first letter of the last part
  may be a capital. An unknown name is an error that tells the nearest known one.
- Where an option stands decides whose it is: behind the parentheses of `failover:(…)` those of failover and of the
  connection (`jms.`), inside them those of one URI. `nested.` before an option of a URI gives it to every URI of the
  list that can have it, over the URI's own.
- Values are form-encoded: `%20` or `+` is a space, `%2B` a plus, `%26` an ampersand, and inside a list `%2C` a comma.
- The port is 61616 if none is given, and 61617 with TLS. IPv6 addresses stand in brackets: `tcp://[::1]:61616`.
- Given twice, the last one counts, with a warning. `prefetchPolicy.all` gives way to the kinds given by name.
- Passwords appear neither in `str` and `repr` nor in messages.

Different from ActiveMQ, which accepts in silence what these refuse: `true` and `false` are the only values of a switch;
a wrong number, an unknown `socket.` option and an unknown option in a destination's name are errors; a user before the
host (`tcp://user:password@host`) is one too, because ActiveMQ ignores it. ActiveMQ decodes the query of a URI that is
no composite twice, so that `%2B` is a space there; here it is a plus everywhere.

Refused with a sentence that says what to use: `static:`, `discovery:`, `fanout:`, `masterslave:`, `multicast:`,
`peer:`, `udp:`, `http:`, `https:`, `ws:`, `wss:`, `amqp:`, `stomp:`, `mqtt:`, `vm:(broker:…)` and a failover list
inside another.
"""


def page() -> str:
    lines = [INTRODUCTION]
    for section in SECTIONS:
        lines += [f"## {section.title}", "", *_table(section), ""]
    lines += ["## Accepted and without effect", "", "Each is answered with a line in the log.", ""]
    lines += ["| option | reason |", "|---|---|", *_ignored()]
    return "\n".join(lines) + "\n"


def _table(section: Section) -> Iterator[str]:
    plain = section.group()
    yield "| option | takes | default | meaning |"
    yield "|---|---|---|---|"
    for key, option in options_of(section.group).items():
        default = _default(option, getattr(plain, key))
        yield f"| {_names(section, option)} | {option.takes} | {default} | {option.meaning} |"


def _names(section: Section, option: Option) -> str:
    names = ", ".join(f"`{section.prefix}{name}`" for name in (option.name, *option.aliases))
    return names + (" (Ackwire's own)" if option.name in section.own else "")


def _default(option: Option, value: object) -> str:
    return f"`{option.write(value)}`" if value is not None and value != () else ""


def _ignored() -> Iterator[str]:
    for section in SECTIONS:
        for name, reason in section.ignored.items():
            yield f"| `{section.prefix}{name}` | {reason} |"


def main() -> int:
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page()
    if not current:
        print(f"{PAGE.name} is out of date: run python tools/client_options_table.py", file=sys.stderr)
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main())
