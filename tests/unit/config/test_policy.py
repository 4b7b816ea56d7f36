"""Which policy applies to a destination."""

import random
from itertools import permutations

import pytest

from ackwire.config.policy import DEFAULT_POLICY, DestinationPolicy, Policies, check_match
from ackwire.errors import ConfigError
from ackwire.jms.destinations import parse_destination


def chosen(name: str, *matches: str) -> str | None:
    """The pattern of the policy that applies; None where it is the default."""
    policy = Policies([DestinationPolicy(match=match) for match in matches]).for_destination(parse_destination(name))
    return None if policy is DEFAULT_POLICY else policy.match


def test_default_applies_where_no_policy_matches() -> None:
    assert Policies().for_destination(parse_destination("queue://a")) is DEFAULT_POLICY
    assert chosen("queue://a", "b", "topic://a", "a.*") is None


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("queue://a.b", "a.b"),
        ("queue://a.b", "queue://a.b"),
        ("topic://a.b", "a.*"),
        ("topic://a.b.c", "topic://a.>"),
        ("queue://a", "a.>"),
        ("temp-queue://ID:x:1", "queue://>"),
        ("temp-topic://ID:x:1", "topic://*"),
    ],
)
def test_policy_applies_to_what_its_pattern_stands_for(name: str, match: str) -> None:
    assert chosen(name, match) == match


@pytest.mark.parametrize(
    ("name", "match"),
    [("queue://a.b", "a"), ("queue://a.b", "topic://a.b"), ("queue://a", "a.*"), ("temp-queue://x", "topic://x")],
)
def test_policy_does_not_apply_to_anything_else(name: str, match: str) -> None:
    assert chosen(name, match) is None


@pytest.mark.parametrize(
    ("name", "ordered"),
    [
        ("queue://a.b", ("queue://a.b", "a.b", "queue://a.*", "a.*", "a.>", "*.b", "*.*", "*.>", "queue://>", ">")),
        ("queue://a", ("a", "a.>", "*", ">")),
        ("topic://a.b.c", ("a.b.c", "a.b.*", "a.b.>", "a.*.c", "a.*.*", "a.>", "*.b.c", "*.*.>", ">")),
    ],
)
def test_most_specific_policy_applies_in_whatever_order_they_stand(name: str, ordered: tuple[str, ...]) -> None:
    for winner in range(len(ordered)):
        remaining = list(ordered[winner:])
        for _ in range(3):
            random.Random(winner).shuffle(remaining)
            assert chosen(name, *remaining) == ordered[winner]


def test_order_of_any_three_policies_does_not_matter() -> None:
    for order in permutations(("a.*", "a.>", "queue://>")):
        assert chosen("queue://a.b", *order) == "a.*"


def test_nothing_is_inherited_from_wider_policies() -> None:
    policies = Policies([DestinationPolicy(match=">", prefetch_max=5), DestinationPolicy(match="a", prioritized=True)])
    assert policies.for_destination(parse_destination("queue://a")).prefetch_max is None


@pytest.mark.parametrize("match", ["a*", "a.>.b", "queue://", "x://a", "a,b", ""])
def test_what_is_no_pattern_is_refused(match: str) -> None:
    with pytest.raises(ConfigError):
        check_match(match)
