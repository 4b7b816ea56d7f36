"""Numbers with their nouns in messages to people: `1 message`, `3 messages`, `2 batches`."""


def counted(count: int, noun: str, grouping: str = "") -> str:
    """*count* and *noun*, in the plural unless it is one; *grouping* is `,` for 12,345."""
    return f"{count:{grouping}} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """The plural of a noun or of a phrase like `part of a batch`, whose first noun changes."""
    head, of, rest = noun.partition(" of ")
    if head.endswith(("s", "x", "ch", "sh")):
        return f"{head}es{of}{rest}"
    if head.endswith("y") and head[-2:-1] not in "aeiou":
        return f"{head[:-1]}ies{of}{rest}"
    return f"{head}s{of}{rest}"


def agree(count: int, one: str, many: str) -> str:
    """The verb or pronoun that goes with *count*: `agree(n, "is", "are")`."""
    return one if count == 1 else many
