"""What a running broker takes over from new settings."""

from dataclasses import replace

from ackwire.config import LimitSettings, LogSettings, Settings, StoreSettings, plan_reload
from ackwire.config.fields import options_of
from ackwire.config.policy import DestinationPolicy
from ackwire.config.reloading import RELOADABLE
from ackwire.config.settings import TABLES


def test_the_same_settings_change_nothing() -> None:
    done = plan_reload(Settings(), Settings())
    assert (done.settings, done.changed, done.waiting) == (Settings(), (), ())


def test_what_can_be_taken_over_is_and_the_rest_keeps_its_value() -> None:
    policies = (DestinationPolicy(match="a"),)
    new = Settings(
        limits=LimitSettings(when_full="fail", temp_bytes_max=7),
        log=LogSettings(level="debug"),
        store=StoreSettings(data="elsewhere", sync="never"),
        policies=policies,
    )
    done = plan_reload(Settings(), new)
    assert done.changed == ("limits.when_full", "log.level", "policy")
    assert done.waiting == ("store.data", "store.sync", "limits.temp_bytes_max")
    expected = Settings(limits=LimitSettings(when_full="fail"), log=LogSettings(level="debug"), policies=policies)
    assert done.settings == expected
    assert plan_reload(done.settings, new).changed == (), "once is enough"
    assert plan_reload(done.settings, new).waiting == done.waiting, "and what waits is told again"


def test_policies_that_are_gone_are_gone() -> None:
    old = replace(Settings(), policies=(DestinationPolicy(match="a"),))
    assert plan_reload(old, Settings()).settings.policies == ()


def test_the_list_names_settings_that_exist() -> None:
    for table, keys in RELOADABLE.items():
        assert keys <= set(options_of(TABLES[table])), table
