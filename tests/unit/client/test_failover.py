"""Which broker next, after which delay, and when to give up (SEMANTICS J4); nothing is connected here."""

import random
from pathlib import Path

import pytest

from ackwire.client.failover import SHORTEST_DELAY_MS, BackOff, FailoverPlan, listed_uris
from ackwire.client.options import FailoverOptions
from ackwire.client.uri import TcpUri, VmUri, parse_broker_url
from ackwire.client.uri_file import read_uris
from ackwire.errors import ConfigError

A, B, C = "tcp://a:1", "tcp://b:2", "tcp://c:3"


def plan_for(url: str, seed: int = 1) -> FailoverPlan:
    return FailoverPlan(parse_broker_url(url), random.Random(seed))


def ordered(*uris: str, options: str = "") -> FailoverPlan:
    return plan_for(f"failover:({','.join(uris)})?randomize=false{options}")


def addresses(plan: FailoverPlan, count: int) -> list[str]:
    """Where the next *count* attempts go; `-` where it gives up."""
    attempts = [plan.next_attempt() for _ in range(count)]
    return [attempt.uri.address if attempt else "-" for attempt in attempts]


def delays_ms(plan: FailoverPlan, count: int) -> list[int]:
    attempts = [plan.next_attempt() for _ in range(count)]
    return [round(attempt.delay_seconds * 1000) for attempt in attempts if attempt]


# ---- without failover ------------------------------------------------------------------------------------------


def test_plain_uri_gets_one_attempt() -> None:
    assert addresses(plan_for(A), 2) == [A, "-"]


def test_plain_uri_is_not_tried_again_after_a_loss() -> None:
    plan = plan_for(A)
    assert addresses(plan, 1) == [A]
    plan.restored()
    assert addresses(plan, 1) == ["-"]


# ---- order -----------------------------------------------------------------------------------------------------


def test_ordered_list_is_tried_round_after_round() -> None:
    assert addresses(ordered(A, B, C), 7) == [A, B, C, A, B, C, A]


def test_random_order_follows_the_seed_and_each_round_is_complete() -> None:
    url = f"failover:({A},{B},{C})"
    orders = {tuple(addresses(plan_for(url, seed), 3)) for seed in range(50)}
    assert len(orders) == 6
    assert all(sorted(order) == [A, B, C] for order in orders)
    assert addresses(plan_for(url, 7), 30) == addresses(plan_for(url, 7), 30)


def test_what_ended_last_is_tried_last() -> None:
    plan = ordered(A, B, C)
    assert addresses(plan, 1) == [A]
    plan.restored()
    plan.ended(plan.uris[0])
    assert addresses(plan, 4) == [B, C, A, B]


def test_preferred_uris_come_first_in_random_order_too() -> None:
    url = f"failover:({A},{B},{C})?priorityBackup=true&priorityURIs={B},{C}"
    for seed in range(20):
        assert addresses(plan_for(url, seed), 3)[2] == A


def test_same_address_is_tried_once_in_a_round() -> None:
    assert addresses(ordered(A, f"{A}?trace=true", B), 3) == [A, B, A]


# ---- delays ----------------------------------------------------------------------------------------------------


def test_delay_grows_from_round_to_round_up_to_its_ceiling() -> None:
    plan = ordered(A, options="&initialReconnectDelay=100&maxReconnectDelay=1000")
    assert delays_ms(plan, 7) == [0, 100, 200, 400, 800, 1000, 1000]


def test_there_is_no_pause_within_a_round() -> None:
    assert delays_ms(ordered(A, B, options="&initialReconnectDelay=100"), 6) == [0, 0, 100, 0, 200, 0]


def test_first_attempt_after_a_loss_waits_for_the_initial_delay() -> None:
    plan = ordered(A, B, options="&initialReconnectDelay=100")
    delays_ms(plan, 9)
    plan.restored()
    assert delays_ms(plan, 3) == [100, 0, 200]


def test_delay_stays_without_exponential_back_off() -> None:
    options = "&initialReconnectDelay=50&useExponentialBackOff=false&reconnectDelayExponent=9"
    assert delays_ms(ordered(A, options=options), 4) == [0, 50, 50, 50]


def test_exponent_is_the_multiple() -> None:
    options = "&initialReconnectDelay=10&reconnectDelayExponent=3"
    assert delays_ms(ordered(A, options=options), 5) == [0, 10, 30, 90, 270]


@pytest.mark.parametrize(
    "options",
    [
        FailoverOptions(initial_reconnect_delay_ms=0),
        FailoverOptions(initial_reconnect_delay_ms=0, reconnect_delay_ms_max=0),
        FailoverOptions(initial_reconnect_delay_ms=-1, reconnect_delay_ms_max=-1),
        FailoverOptions(initial_reconnect_delay_ms=20, reconnect_delay_exponent=0.0),
        FailoverOptions(initial_reconnect_delay_ms=0, use_exponential_back_off=False),
        FailoverOptions(reconnect_delay_exponent=1e300),
    ],
)
def test_no_options_make_a_busy_loop(options: FailoverOptions) -> None:
    back_off = BackOff(options)
    back_off.next_seconds()
    delays = [back_off.next_seconds() * 1000 for _ in range(50)]
    assert all(SHORTEST_DELAY_MS <= delay <= 30_000 for delay in delays)


# ---- giving up -------------------------------------------------------------------------------------------------


def test_attempts_are_counted_in_rounds() -> None:
    assert addresses(ordered(A, B, options="&maxReconnectAttempts=2"), 6) == [A, B, A, B, "-", "-"]


def test_minus_one_is_for_ever() -> None:
    assert "-" not in addresses(ordered(A, options="&maxReconnectAttempts=-1"), 500)


def test_zero_is_one_attempt_and_none_after_a_loss() -> None:
    plan = ordered(A, B, options="&maxReconnectAttempts=0")
    assert addresses(plan, 3) == [A, B, "-"]
    plan = ordered(A, B, options="&maxReconnectAttempts=0")
    assert addresses(plan, 1) == [A]
    plan.restored()
    assert addresses(plan, 1) == ["-"]


def test_first_connection_may_have_another_limit() -> None:
    plan = ordered(A, options="&startupMaxReconnectAttempts=3&maxReconnectAttempts=1")
    assert addresses(plan, 4) == [A, A, A, "-"]
    plan = ordered(A, options="&startupMaxReconnectAttempts=3&maxReconnectAttempts=1")
    assert addresses(plan, 1) == [A]
    plan.restored()
    assert addresses(plan, 2) == [A, "-"]


def test_connection_that_was_never_usable_does_not_count_as_success() -> None:
    plan = ordered(A, options="&maxReconnectAttempts=2")
    assert addresses(plan, 1) == [A]
    plan.ended(plan.uris[0])  # the broker took it and dropped it, again and again
    assert addresses(plan, 2) == [A, "-"]


def test_empty_list_is_given_up_at_once() -> None:
    assert addresses(plan_for("failover:()?updateURIsURL=file:///x"), 1) == ["-"]


def test_warning_is_due_after_so_many_rounds() -> None:
    plan = ordered(A, B, options="&warnAfterReconnectAttempts=3")
    due = []
    for _ in range(12):
        plan.next_attempt()
        due.append(plan.is_worth_a_warning())
    assert [number for number, is_due in enumerate(due, 1) if is_due] == [6, 12]


@pytest.mark.parametrize("every", [0, -1])
def test_warnings_can_be_turned_off(every: int) -> None:
    plan = ordered(A, options=f"&warnAfterReconnectAttempts={every}")
    assert not any(plan.next_attempt() and plan.is_worth_a_warning() for _ in range(30))


# ---- better places ---------------------------------------------------------------------------------------------


def test_way_back_leads_to_the_first_or_to_those_that_are_named() -> None:
    a, b, c = (parse_broker_url(uri).uris[0] for uri in (A, B, C))
    plan = ordered(A, B, C, options="&priorityBackup=true")
    assert (plan.preferred_to(a), plan.preferred_to(b)) == ([], [a])
    plan = ordered(A, B, C, options=f"&priorityBackup=true&priorityURIs={B},{C}")
    assert (plan.preferred_to(a), plan.preferred_to(b)) == ([b, c], [])
    assert ordered(A, B, C).preferred_to(b) == []


def test_spares_are_held_elsewhere() -> None:
    plan = ordered(A, B, C)
    assert [uri.address for uri in plan.spares_for(plan.uris[0])] == [B, C]
    assert ordered(A).spares_for(plan.uris[0]) == []


def test_rebalance_goes_to_what_stands_before() -> None:
    plan = ordered(A, B)
    plan.update(plan.received(C))
    c, a, b = plan.uris
    assert plan.ahead_of(b) == [c, a]
    assert plan.ahead_of(c) == []


# ---- URIs from a broker ----------------------------------------------------------------------------------------


def received(url: str, text: str) -> list[str]:
    return [uri.address for uri in plan_for(url).received(text)]


def test_named_brokers_come_first_and_replace_those_named_before() -> None:
    plan = ordered(A)
    assert plan.update(plan.received(f"{B}, {C}"))
    assert addresses(plan, 3) == [B, C, A]
    assert not plan.update(plan.received(f"{C},{B}"))
    assert plan.update(plan.received(B))
    assert [uri.address for uri in plan.uris] == [B, A]


def test_received_uri_chooses_host_and_port_and_nothing_else() -> None:
    plan = plan_for(f"failover:({A}?soWriteTimeout=7&wireFormat.version=9)")
    (uri,) = plan.received("nio://b:2?soWriteTimeout=9&trace=true&wireFormat.version=1")
    assert (uri.scheme, uri.host, uri.port) == ("nio", "b", 2)
    assert uri.transport.so_write_timeout_ms == 7
    assert uri.wire_format.version == 9
    assert not uri.transport.trace


def test_received_uri_cannot_turn_checks_off_or_name_files() -> None:
    plan = plan_for("failover:(ssl://a:1?caFile=/ours.pem)")
    (uri,) = plan.received("ssl://b:2?verifyHostName=false&caFile=/theirs.pem&certFile=/etc/x")
    assert uri.tls is not None
    assert (uri.tls.verify_host_name, uri.tls.ca_file, uri.tls.cert_file) == (True, "/ours.pem", None)


def test_list_of_tls_addresses_is_not_left_for_plain_tcp() -> None:
    assert received("failover:(ssl://a:1)", "tcp://b:2,ssl://c:3") == ["ssl://c:3"]
    assert received("failover:(ssl://a:1,tcp://a:2)", "tcp://b:2,ssl://c:3") == ["tcp://b:2", "ssl://c:3"]


def test_tls_address_may_follow_plain_tcp() -> None:
    (uri,) = plan_for(f"failover:({A})").received("ssl://b:2")
    assert uri.tls is not None
    assert uri.tls.verify_host_name


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "vm://x",
        "failover:(tcp://b:2)",
        "tcp://",
        "nonsense",
        "plugin://x",
        "tcp://b:2/c",
        "http://b",
        "tcp://b\n:1",
    ],
)
def test_what_is_no_address_of_a_broker_is_left_out(text: str) -> None:
    assert received(f"failover:({A})", text) == []


def test_local_address_is_ours() -> None:
    plan = plan_for(f"failover:({A}/127.0.0.1:0)")
    (uri,) = plan.received("tcp://b:2/10.0.0.1:9")
    assert uri.local == ("127.0.0.1", 0)


def test_nothing_is_followed_from_a_broker_in_this_process() -> None:
    assert received("failover:(vm://x)", f"{A},ssl://b:2") == []


# ---- URIs from a file ------------------------------------------------------------------------------------------


def test_file_lists_uris_by_commas_and_lines() -> None:
    uris = listed_uris(f"# ours\n{A}?trace=true, {B}\n\nvm://x\n")
    assert [uri.address for uri in uris] == [A, B, "vm://x"]
    assert isinstance(uris[0], TcpUri)
    assert uris[0].transport.trace
    assert isinstance(uris[2], VmUri)


def test_uris_of_the_file_join_those_of_the_url() -> None:
    plan = ordered(A, B)
    plan.add_listed(listed_uris(f"{B},{C}"))
    assert [uri.address for uri in plan.uris] == [A, B, C]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "holds no URI"),
        (f"failover:({A})", "cannot hold failover:"),
        ("tpc://x", "unknown scheme"),
        ("x" * 70_000, "is the limit"),
    ],
)
def test_bad_file_is_an_error_only_where_it_is_needed(
    content: str, words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "uris"
    path.write_text(content)
    with pytest.raises(ConfigError, match=words):
        read_uris(str(path), needed=True)
    assert read_uris(f"file://{path}", needed=False) == []
    assert words in caplog.text


@pytest.mark.parametrize("location", ["http://x/uris", "file://elsewhere/uris", "/no/such/file"])
def test_only_files_of_this_machine_are_read(location: str) -> None:
    with pytest.raises(ConfigError, match="updateURIsURL"):
        read_uris(location, needed=True)
