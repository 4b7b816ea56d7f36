"""Random verbs, promises and crashes: a new start finds the store where its history was, and not before its promises.

Crashes come at any moment, also in the middle of a write or of a recovery.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, ClassVar, TypeAlias

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from ackwire.jms.message import Message
from ackwire.store.contract import Place, Store
from tests.helpers.simulated_disk import Stopped
from tests.helpers.store_history import ALL_KINDS, PLACES, Happenings, History
from tests.helpers.stored import Kept, facts, kept
from tests.helpers.stores import Crash, StoreFactory

CRASHES = tuple(Crash)


class StoreModel(RuleBasedStateMachine):
    """One store through many lives. Subclasses say which."""

    make_factory: ClassVar[Callable[[int], StoreFactory]]

    @initialize(seed=st.integers(0, 2**16))
    def start(self, seed: int) -> None:
        self.factory = type(self).make_factory(seed)
        self.random = Random(seed)
        self.happenings = Happenings()
        self.history = History()
        self.store: Store
        self._open()

    # ---- what happens ------------------------------------------------------------------------------------------

    @rule(kinds=st.lists(st.sampled_from(ALL_KINDS), min_size=1, max_size=8), choice=st.integers(0, 2**16))
    def record(self, kinds: list[str], choice: int) -> None:
        random = Random(choice)
        for kind in kinds:
            verbs = self.happenings.make(kind, self.history.state, random)
            self._try(partial(self.history.record, self.store, verbs))
        if random.random() < 0.5:
            self.ask()

    @rule(kinds=st.lists(st.sampled_from(ALL_KINDS), min_size=2, max_size=6), choice=st.integers(0, 2**16))
    def group(self, kinds: list[str], choice: int) -> None:
        random = Random(choice)
        verbs = self.happenings.make_several(kinds, self.history.state, random)
        self._try(lambda: self.history.record(self.store, verbs, ask=random.random() < 0.3))

    # ---- promises ----------------------------------------------------------------------------------------------

    @rule()
    def ask(self) -> None:
        self._try(lambda: self.history.ask(self.store))

    @rule()
    def step(self) -> None:
        self._try(self.factory.step)

    @rule()
    def settle(self) -> None:
        if self._try(self.factory.settle):
            waiting = self.history.asked - self.history.told
            assert waiting == 0, f"{waiting} wait for ever"

    @rule(place=st.sampled_from(PLACES), choice=st.integers(0, 2**16))
    def load(self, place: Place, choice: int) -> None:
        state = self.history.state
        there = state.messages.get(place, {})
        random = Random(choice)
        wanted = [random.randrange(1, state.last_sequence + 2) for _ in range(5)]
        wanted += there
        found: list[Message | None] = []
        if self._try(lambda: found.extend(self.store.load(place, wanted))):
            expected = [there.get(sequence) for sequence in wanted]
            assert [it and facts(it) for it in found] == [it and facts(it) for it in expected]

    # ---- crashes -----------------------------------------------------------------------------------------------

    @rule(crash=st.sampled_from(CRASHES))
    def crash(self, crash: Crash) -> None:
        self.factory.stop(crash)
        self._open()

    @rule(nth=st.integers(1, 4))
    def stop_while_writing(self, nth: int) -> None:
        """Everything stops in the middle of a write or a sync, if there is anything to be written."""
        if self.factory.disk is not None:
            self.factory.disk.stop_at(nth)
        self.ask()
        self.settle()

    @rule(nth=st.integers(1, 30))
    def stop_later(self, nth: int) -> None:
        """Everything stops in the middle of a call of the disk, whatever that is for."""
        if self.factory.disk is not None:
            self.factory.disk.stop_at(nth)

    @rule()
    def close(self) -> None:
        if self._try(self.factory.close):
            self.history.close()
            self._open()

    def _try(self, action: Callable[[], Any]) -> bool:
        """Do it; if everything stops meanwhile, go on with a new start. False then."""
        try:
            action()
        except Stopped:
            self.factory.stop(self.random.choice(CRASHES))
            self._open()
            return False
        return True

    def _open(self) -> None:
        """A new start, which may be interrupted by another."""
        found = self._found()
        while found is None:
            self.factory.stop(self.random.choice(CRASHES))
            found = self._found()
        self.history.go_on_from(found)

    def _found(self) -> Kept | None:
        """What a new start finds; None if everything stops meanwhile."""
        if self.factory.disk is not None and self.random.random() < 0.2:
            self.factory.disk.stop_at(self.random.randrange(1, 30))
        try:
            self.store = self.factory.open()
            return kept(self.store)
        except Stopped:
            return None


def model_of(make: Callable[[int], StoreFactory]) -> type[StoreModel]:
    """The model for one store; *make* gets a seed."""
    return type("Model", (StoreModel,), {"make_factory": staticmethod(make)})


Action: TypeAlias = tuple[str, tuple[Any, ...]]
"""A rule of the model and what it is called with."""


def run_seed(make: Callable[[int], StoreFactory], seed: int, steps: int = 100) -> None:
    """The model without Hypothesis: evenly random, so there are more crashes in less time. A failure names the seed."""
    try:
        run_actions(make, seed, actions_of(seed, steps))
    except Exception as error:
        raise AssertionError(f"seed {seed}, {steps} steps: {error}") from error


def run_actions(make: Callable[[int], StoreFactory], seed: int, actions: list[Action]) -> None:
    """These actions, then a clean stop and a last start. Any of them can be left out, to see what a failure needs."""
    model = model_of(make)()
    model.start(seed)
    for name, arguments in actions:
        getattr(model, name)(*arguments)
    model.close()


def actions_of(seed: int, steps: int) -> list[Action]:
    """What a seed stands for."""
    random = Random(seed)
    return [_action(random) for _ in range(steps)]


def _action(random: Random) -> Action:
    kinds = random.choices(ALL_KINDS, k=random.randrange(1, 9))
    number = random.getrandbits(16)
    actions: list[Action] = [
        ("record", (kinds, number)),
        ("group", (kinds, number)),
        ("step", ()),
        ("settle", ()),
        ("load", (random.choice(PLACES), number)),
        ("crash", (random.choice(CRASHES),)),
        ("stop_while_writing", (random.randrange(1, 5),)),
        ("stop_later", (random.randrange(1, 30),)),
        ("close", ()),
    ]
    return random.choices(actions, (10, 5, 10, 3, 5, 2, 5, 2, 1))[0]
