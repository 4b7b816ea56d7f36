"""Which ack mode a session has, and what is said about one that it cannot have."""

import pytest

from ackwire.client.core.modes import AckMode, ack_mode_of, session_mode
from ackwire.client.errors import IllegalArgumentError


@pytest.mark.parametrize("mode", [AckMode.CLIENT, 2, "CLIENT", "client"])
def test_a_mode_may_be_given_by_member_number_or_name(mode: AckMode | int | str) -> None:
    assert ack_mode_of(mode) is AckMode.CLIENT


@pytest.mark.parametrize("mode", ["clinet", 7, -1, "", None])
def test_a_wrong_mode_is_refused_with_the_choices(mode: AckMode | int | str) -> None:
    with pytest.raises(IllegalArgumentError) as refused:
        ack_mode_of(mode)
    for known in AckMode:
        assert f"AckMode.{known.name} ({known.value})" in str(refused.value)


def test_a_name_that_is_nearly_right_gets_a_suggestion() -> None:
    with pytest.raises(IllegalArgumentError, match="did you mean CLIENT"):
        ack_mode_of("clinet")


@pytest.mark.parametrize("mode", [AckMode.AUTO, AckMode.SESSION_TRANSACTED])
def test_D5_a_transaction_acknowledges_by_itself(mode: AckMode) -> None:
    assert session_mode(mode, transacted=True) is AckMode.SESSION_TRANSACTED


@pytest.mark.parametrize("mode", [AckMode.CLIENT, AckMode.DUPS_OK, AckMode.INDIVIDUAL])
def test_D5_another_mode_beside_a_transaction_is_refused(mode: AckMode) -> None:
    with pytest.raises(IllegalArgumentError, match=f"cannot have AckMode.{mode.name}"):
        session_mode(mode, transacted=True)
