"""The sweep for expired messages (SEMANTICS A6)."""

import pytest

from tests.unit.broker.test_page_in import LateRig

BROKEN, OTHER = "queue://broken", "queue://other"


def test_A6_sweeps_go_on_after_one_has_failed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    late = LateRig()
    soon = late.rig.clock.now_ms() + 1000
    late.fill(1, BROKEN, expiration=soon)
    late.fill(1, OTHER, expiration=soon)
    broken, other = late.queue(BROKEN), late.queue(OTHER)
    fetch = late.store.fetch

    def fail(place: object, *asked: object) -> None:
        if place == broken.place:
            raise RuntimeError("not readable now")
        fetch(place, *asked)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(late.store, "fetch", fail)
        late.rig.clock.advance(60)
        late.finish()
    assert "not readable now" in caplog.text
    assert (broken.contents.expired, other.contents.expired) == (0, 1), "other queues are swept"
    late.rig.clock.advance(60)
    late.finish()
    assert broken.contents.expired == 1
