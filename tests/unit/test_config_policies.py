"""`[[policy]]` tables: what they may say, what is said about their mistakes, and that they survive writing."""

from dataclasses import fields, replace
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackwire.config import Settings, load, problems, render
from ackwire.config.policy import DeadLetterPolicy, DestinationPolicy, Eviction


def loaded(tmp_path: Path, text: str) -> tuple[DestinationPolicy, ...]:
    (tmp_path / "ackwire.toml").write_text(text)
    return load(tmp_path / "ackwire.toml").policies


def only_message(text: str) -> str:
    (problem,) = problems(text)
    return problem.message


def test_there_are_no_policies_by_default() -> None:
    assert Settings().policies == ()


def test_each_table_is_a_policy_and_the_rest_of_it_is_at_defaults(tmp_path: Path) -> None:
    text = """\
[[policy]]
match = "queue://orders.>"
prefetch_max = 100
prioritized = true
dead_letters = "individual"
memory_bytes_max = "64 MiB"
broker_redelivery = true
redelivery_delay_seconds = "500 ms"
redelivery_back_off_multiplier = 2

[broker]
name = "x"

[[policy]]
match = "topic://prices.*"
eviction = "lowest-priority"
expiration_ceiling_seconds = "1 h"

[[policy]]
"""
    assert loaded(tmp_path, text) == (
        DestinationPolicy(
            match="queue://orders.>",
            prefetch_max=100,
            prioritized=True,
            dead_letters=DeadLetterPolicy.INDIVIDUAL,
            memory_bytes_max=64 * 1024 * 1024,
            broker_redelivery=True,
            redelivery_delay_seconds=0.5,
            redelivery_back_off_multiplier=2.0,
        ),
        DestinationPolicy(
            match="topic://prices.*", eviction=Eviction.LOWEST_PRIORITY, expiration_ceiling_seconds=3600.0
        ),
        DestinationPolicy(),
    )


def test_tables_may_also_be_written_inline(tmp_path: Path) -> None:
    policies = loaded(tmp_path, "policy = [{match = 'a'}, {match = 'b', groups_max = 5}]")
    assert policies == (DestinationPolicy(match="a"), DestinationPolicy(match="b", groups_max=5))


def test_every_problem_is_named_with_its_table_and_line() -> None:
    text = """\
[[policy]]
match = "queue://a"
prefetch_max = 0

[[policy]]
mtach = "queue://b"

[wire]
nesting_max = 0

[[policy]] # the third
match = "queue://c"
dead_letters = "none"
  dead_letter_expired = 1
[[ "policy" ]]
match = "queue://d.>.x"
redelivery_delay_seconds = "2 h"
"""
    assert [(problem.line, problem.key) for problem in problems(text)] == [
        (3, "policy[0].prefetch_max"),
        (6, "policy[1].mtach"),
        (9, "wire.nesting_max"),
        (13, "policy[2].dead_letters"),
        (14, "policy[2].dead_letter_expired"),
        (16, "policy[3].match"),
        (17, "policy[3].redelivery_delay_seconds"),
    ]


def test_lines_in_inline_tables_are_found_too() -> None:
    (problem,) = problems("policy = [\n  {match = 'a'},\n  {match = 'b', groups_max = 0},\n]\n")
    assert (problem.line, problem.key) == (3, "policy[1].groups_max")


def test_lines_below_nested_arrays_of_tables_are_found() -> None:
    text = "[[policy]]\n[[policy.deep]]\nx = 1\n[[policy]]\nmatch = 'a'\n[policy.deep.er]\ny = 1\n"
    assert [(problem.line, problem.key) for problem in problems(text)] == [
        (2, "policy[0].deep"),
        (6, "policy[1].deep"),
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[[policy]]\nmatch = 'a'\n[[policy]]\nmatch = 'b'\n[[policy]]\n\nmatch = 'a'\n", 7),
        ("[[policy]]\n[[policy]]\n", 2),
        ("[[policy]]\nmatch = '>'\n[[policy]]\n", 3),
    ],
)
def test_two_policies_for_the_same_pattern_are_a_problem(text: str, line: int) -> None:
    (problem,) = problems(text)
    assert problem.line == line
    assert problem.message.endswith('" is in line 1; there can be only one')


def test_policy_with_a_wrong_pattern_is_no_duplicate_of_another() -> None:
    text = "[[policy]]\nmatch = '>'\n[[policy]]\nmatch = 'a>'\n[[policy]]\nmatch = 'b>'\n"
    assert [problem.line for problem in problems(text)] == [4, 6]


def test_same_name_for_both_kinds_and_for_one_are_different_patterns() -> None:
    assert problems("".join(f"[[policy]]\nmatch = '{match}'\n" for match in ("a", "queue://a", "topic://a"))) == []


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("match = 'jms://a'", 'must begin with queue:// or topic:// or neither, not with "jms://"'),
        ("match = 'temp-queue://a'", "must begin with queue:// or topic:// or neither"),
        ("match = 'queue://'", "must be a name or a pattern"),
        ("match = ' a'", "no spaces around it"),
        ("match = ''", "must be printable text"),
        ("match = 1", "must be text, and is 1"),
        ("match = 'orders*'", 'a wildcard must be a whole level, as in orders.* or orders.>, not part of "orders*"'),
        ("match = 'a.>>'", 'not part of ">>"'),
        ("match = 'a.>.b'", "must be the last level"),
        ("match = 'a,b'", "write a table for each of several"),
        ("match = 'a?consumer.prefetchSize=1'", "without options"),
        pytest.param(f"match = '{'x' * 5000}'", "must have at most 4096 characters, and has 5000", id="long"),
        ("eviction = 'newest'", 'must be "oldest" or "lowest-priority", and is "newest"'),
        ("eviction = []", 'must be "oldest" or "lowest-priority", and is []'),
        ("prioritized = 'yes'", 'must be true or false, and is "yes"'),
        ("prefetch_max = 40000", "must be a whole number from 1 to 32767, and is 40000"),
        ("redeliveries_max = -2", "must be a whole number from -1 to 1000000, and is -2"),
        ("redelivery_back_off_multiplier = '2'", 'must be a number from 1.0 to 100.0, and is "2"'),
        ("redelivery_back_off_multiplier = 0.5", "must be a number from 1.0 to 100.0, and is 0.5"),
        ("memory_bytes_max = '20 %'", 'unknown unit "%" in "20 %"; known units: B, KB'),
        ("dead_letter_queue = 'queue://DLQ'", "must be a queue name without prefix, wildcards"),
        ("dead_letter_queue = 'A,B'", "must be a queue name without prefix, wildcards"),
        ("dead_letter_queue_prefix = 'DLQ.*.'", "must be a queue name without prefix, wildcards"),
        ("dead_letter_queue_prefix = ''", "must be printable text"),
        pytest.param(f"dead_letter_queue = '{'x' * 1025}'", "must have at most 1024 characters", id="long name"),
        ("redelivery_delay_seconds_max = '10 ms'", "must be at least redelivery_delay_seconds = 1 s"),
    ],
)
def test_wrong_values_are_told_what_they_must_be(setting: str, message: str) -> None:
    assert message in only_message(f"[[policy]]\n{setting}\n")


@pytest.mark.parametrize("match", [">", "*", "orders", "a.*.c", "a.b.>", "queue://a.*", "topic://>", "*.*.>", "ü x"])
def test_names_and_patterns_are_accepted(match: str) -> None:
    assert problems(f"[[policy]]\nmatch = '{match}'\n") == []


# --- writing -------------------------------------------------------------------------------------------


def test_rendered_policy_has_its_pattern_and_what_differs_from_the_defaults() -> None:
    policies = (DestinationPolicy(), DestinationPolicy(match="queue://a", prefetch_max=1, dead_letter_expired=False))
    assert render(replace(Settings(), policies=policies)).endswith(
        '\n\n[[policy]]\nmatch = ">"\n'
        '\n[[policy]]\nmatch = "queue://a"\nprefetch_max = 1\ndead_letter_expired = false\n'
    )


def test_rendered_file_explains_every_setting_of_a_policy_even_if_there_is_none() -> None:
    text = render(Settings())
    assert "\n# Default: shared; choices: shared, individual, discard.\n" in text
    assert "\n# Default: none; range: 1 to 32767; unit: count.\n# prefetch_max = …\n" in text
    for key in fields(DestinationPolicy):
        assert f"\n# {key.name} = " in text


POLICIES = st.builds(
    DestinationPolicy,
    prioritized=st.booleans(),
    prefetch_max=st.none() | st.integers(1, 32_767),
    dead_letters=st.sampled_from(DeadLetterPolicy),
    dead_letter_queue=st.sampled_from(["DLQ", 'a "b"', "ü"]),
    redeliveries_max=st.integers(-1, 100),
    redelivery_delay_seconds=st.floats(0.001, 3600),
    redelivery_back_off_multiplier=st.floats(1, 100),
    memory_bytes_max=st.none() | st.integers(65_536, 2**40),
    eviction=st.sampled_from(Eviction),
)


@hypothesis.settings(max_examples=20, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@given(policies=st.dictionaries(st.sampled_from([">", "a.*", "queue://b", 'topic://"c\\d"']), POLICIES))
def test_any_policies_survive_writing_and_reading(tmp_path: Path, policies: dict[str, DestinationPolicy]) -> None:
    named = tuple(replace(policy, match=match) for match, policy in policies.items())
    assert loaded(tmp_path, render(replace(Settings(), policies=named))) == named
