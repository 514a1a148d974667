"""URLs of a source: what they set, which are refused, and that no message shows a password."""

from __future__ import annotations

import pytest

from relay.config.source_url import is_source_url, parse, without_password
from relay.errors import ErrorCode, RelayError

URLS = {
    "mysql://u@h": (("h", "3306", "u"), None, "mysql://u@h"),
    "mysql://u@h/": (("h", "3306", "u"), None, "mysql://u@h/"),
    "MariaDB://u@db.example:3307/": (("db.example", "3307", "u"), None, "MariaDB://u@db.example:3307/"),
    "mysql://u@a,b/": (("a,b", "3306", "u"), None, "mysql://u@a,b/"),
    "mysql://u@[::1]:3307/": (("::1", "3307", "u"), None, "mysql://u@[::1]:3307/"),
    "mysql://u:p@h/": (("h", "3306", "u"), "p", "mysql://u@h/"),
    "mysql://u:@h/": (("h", "3306", "u"), "", "mysql://u:@h/"),
    "mysql://a%40b:p%25%40@h/": (("h", "3306", "a@b"), "p%@", "mysql://a%40b@h/"),
    "mysql://u::/?#@x@h/": (("h", "3306", "u"), ":/?#@x", "mysql://u@h/"),
    "mysql://u:pä\n@h:3307": (("h", "3307", "u"), "pä\n", "mysql://u@h:3307"),
}
REFUSED = {
    "mysql://": "it has no login",
    "mysql://h/": "it has no login",
    "mysql://:secret@h/": "it has no login",
    "mysql://u:secret@/": "it has no host",
    "mysql://u:secret@h:secret/": "its port is not a number",
    "mysql://u:secret@h:/": "its port is not a number",
    "mysql://u:secret@h/shop": "text follows the host",
    "mysql://u:secret@h?tls=on": "text follows the host",
    "mysql://u:secret@[::1": "its port is not a number",
    "shop.*": "it is not mysql://LOGIN@HOST/",
    "postgres://u:secret@h/": "it is not mysql://LOGIN@HOST/",
}


@pytest.mark.parametrize("url", URLS)
def test_a_url_sets_host_port_and_login_and_has_the_password_apart(url: str) -> None:
    (host, port, login), password, shown = URLS[url]
    settings = {"Server.IPAddr": host, "Server.Port": port, "Server.Login": login}
    assert is_source_url(url)
    assert parse(url) == (settings, password)
    assert without_password(url) == shown


@pytest.mark.parametrize("url", REFUSED)
def test_a_url_that_cannot_be_meant_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(RelayError) as refused:
        parse(url)
    assert refused.value.code == ErrorCode.USAGE
    assert refused.value.cause == REFUSED[url]
    assert "secret" not in refused.value.line()


@pytest.mark.parametrize("argument", ["shop.*", "*", "", "--set", "Lake.Path=s3://bucket/u:p@x", "a mysql://u:p@h"])
def test_other_arguments_are_no_urls_of_a_source(argument: str) -> None:
    assert not is_source_url(argument)
    assert without_password(argument) == argument
