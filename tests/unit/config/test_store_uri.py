"""URIs of databases: passwords from where they may come from, and never shown."""

from pathlib import Path

import pytest

from ackwire.config.store_uri import PASSWORD_VARIABLE, check_store, database_password, mask_store, parse_store_uri
from ackwire.errors import ConfigError
from ackwire.store.sql.drivers import driver_for

SECRET = "s3cr3t"


def test_a_password_in_the_uri_is_taken_and_warned_of_and_never_shown() -> None:
    uri = parse_store_uri(f"postgresql://ann:{SECRET}%40@db:5433/broker?sslmode=require")
    assert database_password(uri, "", {}) == f"{SECRET}@"
    assert uri.warning is not None
    assert "?password_file=" in uri.warning
    assert SECRET not in f"{uri} {uri!r} {uri.warning} {driver_for(uri, uri.password).description}"


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (f"postgresql://ann:{SECRET}@db/broker", "postgresql://ann:***@db/broker"),
        (f"mariadb://ann:{SECRET}@{SECRET}@db/broker?ssl_ca=x", "mariadb://ann:***@db/broker?ssl_ca=x"),
        (f"mariadb://:{SECRET}@db/broker", "mariadb://:***@db/broker"),
        ("postgresql://ann@db:5432/broker", "postgresql://ann@db:5432/broker"),
        ("sqlite:///some/file@home", "sqlite:///some/file@home"),
        ("journal", "journal"),
    ],
)
def test_a_password_is_masked_for_people(kind: str, shown: str) -> None:
    assert mask_store(kind) == shown


@pytest.mark.parametrize("ending", ["db:x/broker", "db", "db/", "db:99999/broker", "db/broker?password=s3cr3t"])
def test_no_refusal_shows_the_password(ending: str) -> None:
    for password in (SECRET, f"{SECRET}/x", f"{SECRET}#x", f"{SECRET}?x", f"12/{SECRET}"):
        with pytest.raises(ConfigError) as refused:
            check_store(f"postgresql://ann:{password}@{ending}")
        assert SECRET not in str(refused.value)


def test_the_password_comes_from_the_uri_then_files_then_the_environment(tmp_path: Path) -> None:
    for name in ("named", "set"):
        (tmp_path / name).write_text(f"{name}\r\nmore\n")
    environment = {PASSWORD_VARIABLE: "of the environment"}
    named = f"password_file={tmp_path / 'named'}"
    setting = str(tmp_path / "set")

    def password(uri: str, file: str) -> str | None:
        return database_password(parse_store_uri(uri), file, environment)

    assert password(f"mariadb://u:own@h/d?{named}", setting) == "own"
    assert password(f"mariadb://u@h/d?{named}", setting) == "named"
    assert password("mariadb://u@h/d", setting) == "set"
    assert password("mariadb://u@h/d", "") == "of the environment"
    assert database_password(parse_store_uri("mariadb://u@h/d"), "", {}) is None
    with pytest.raises(ConfigError, match="password_file: /nowhere cannot be read: no such file"):
        password("mariadb://u@h/d?password_file=/nowhere", setting)


@pytest.mark.parametrize(
    ("options", "said"),
    [("ssl_verify_identity=maybe", "must be true or false"), ("ssl_verify_identity=true", "needs ssl_ca")],
)
def test_options_of_tls_are_checked(options: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        driver_for(parse_store_uri(f"mariadb://u@h/d?{options}"), None)
