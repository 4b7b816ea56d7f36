"""Tables of options in the guides: writes them from the declarations, or checks that they are current.

    python tools/option_tables.py           write them
    python tools/option_tables.py --check   exit 1 if one is out of date

docs/guide/client-uris.md is written as a whole; in other pages a table stands between two comments.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from ackwire.client.options import SECTIONS
from ackwire.config import listener_uri
from ackwire.config.fields import Option, options_of
from ackwire.config.queries import Section
from ackwire.spark import options as spark

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "guide"
CLIENT = GUIDE / "client-uris.md"
LISTENERS = GUIDE / "operations.md"
SPARK = GUIDE / "spark.md"

INTRODUCTION = """\
# Broker URLs of the client

`tools/option_tables.py` writes the tables from `src/ackwire/client/options.py`; change them there.
`ackwire.client.uri` parses and checks everything on this page.

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
  may be a capital. An unknown name is an error that suggests the nearest known one.
- The position of an option decides what it applies to: behind the parentheses of `failover:(…)` to failover and the
  connection (`jms.`), inside them to one URI. `nested.` before an option of a URI gives it to every URI of the
  list that can have it, over the URI's own.
- Values are form-encoded: `%20` or `+` is a space, `%2B` a plus, `%26` an ampersand, and inside a list `%2C` a comma.
- The port is 61616 if none is given, and 61617 with TLS. IPv6 addresses stand in brackets: `tcp://[::1]:61616`.
- If an option is given twice, the last one counts, with a warning. `prefetchPolicy.all` applies to the kinds that are
  not given by name.
- Passwords appear neither in `str` and `repr` nor in messages.

Stricter than ActiveMQ, which silently accepts these mistakes: `true` and `false` are the only values of a switch;
a wrong number, an unknown `socket.` option and an unknown option in a destination's name are errors; a user before the
host (`tcp://user:password@host`) is one too, because ActiveMQ ignores it. ActiveMQ decodes the query of a URI that is
no composite twice, so that `%2B` is a space there; here it is a plus everywhere.

Refused, with an error that says what to use instead: `static:`, `discovery:`, `fanout:`, `masterslave:`, `multicast:`,
`peer:`, `udp:`, `http:`, `https:`, `ws:`, `wss:`, `amqp:`, `stomp:`, `mqtt:`, `vm:(broker:…)` and a failover list
inside another.
"""


def pages() -> dict[Path, str]:
    """Each page as it should be."""
    return {
        CLIENT: client_page(),
        LISTENERS: _with_table(LISTENERS, list(_listener_table())),
        SPARK: _with_table(SPARK, list(_spark_table())),
    }


def client_page() -> str:
    lines = [INTRODUCTION]
    for section in SECTIONS:
        lines += [f"## {section.title}", "", *_client_table(section), ""]
    lines += ["## Accepted and without effect", "", "Each is answered with a line in the log.", ""]
    lines += ["| option | reason |", "|---|---|", *_ignored()]
    return "\n".join(lines) + "\n"


def _client_table(section: Section) -> Iterator[str]:
    yield "| option | takes | default | meaning |"
    yield "|---|---|---|---|"
    plain = section.group()
    for key, option in options_of(section.group).items():
        own = " (Ackwire's own)" if option.name in section.own else ""
        default = _default(option, getattr(plain, key))
        yield f"| {_names(section, option)}{own} | {option.type.takes} | {default} | {option.reason} |"


def _ignored() -> Iterator[str]:
    for section in SECTIONS:
        for name, reason in section.ignored.items():
            yield f"| `{section.prefix}{name}` | {reason} |"


def _listener_table() -> Iterator[str]:
    yield "| option | takes | meaning |"
    yield "|---|---|---|"
    for section in listener_uri.SECTIONS:
        for option in options_of(section.group).values():
            yield f"| {_names(section, option)} | {option.type.takes} | {option.reason} |"


def _spark_table() -> Iterator[str]:
    yield "| option | for | takes | default | |"
    yield "|---|---|---|---|---|"
    plain = spark.Options()
    for key, option in options_of(spark.Options).items():
        uses = ", ".join(use.value for use in spark.Use if use in option.uses) or "all"
        default = _default(option, getattr(plain, key))
        yield f"| {_names(spark.SECTION, option)} | {uses} | {option.type.takes} | {default} | {option.reason} |"


def _names(section: Section, option: Option) -> str:
    return ", ".join(f"`{section.prefix}{name}`" for name in option.names)


def _default(option: Option, value: object) -> str:
    return f"`{option.type.show(value)}`" if value is not None and value != () else ""


def _with_table(page: Path, table: list[str]) -> str:
    """*page* with *table* between its two comments."""
    text = page.read_text(encoding="utf-8")
    begin = "<!-- This table is written by tools/option_tables.py. -->\n"
    before, _, rest = text.partition(begin)
    after = rest[rest.index("<!-- end of the table -->") :]
    return before + begin + "\n" + "\n".join(table) + "\n\n" + after


def main() -> int:
    wanted = pages()
    if "--check" not in sys.argv[1:]:
        for page, text in wanted.items():
            page.write_text(text, encoding="utf-8")
        return 0
    stale = [page.name for page, text in wanted.items() if page.read_text(encoding="utf-8") != text]
    if stale:
        print(f"{', '.join(stale)}: out of date: run python tools/option_tables.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
