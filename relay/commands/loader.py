"""Where a command gets its configuration from: a file, the environment, options, or the URL of a source.

With the URL of a source no file is necessary. `relay start` then keeps what it makes, such as the clients' secret, in a
configuration file in its folder for data, where other commands find it. The password is never kept.
"""

from __future__ import annotations

import os
import secrets
import shlex
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click

from relay.base.errors import ErrorCode, RelayError
from relay.commands import conf_file
from relay.config import load as configuration
from relay.config import source_url
from relay.config.keys import KEYS
from relay.config.load import DATA, ConfigWarning
from relay.config.tree import Config
from relay.runtime import privileges

LOOPBACK: Final = "127.0.0.1"
_NAME: Final = "relay.conf"
_PASSWORD: Final = "RELAY_SERVER_PASSWORD"
_PORTS: Final = ("ServerPort", "HTTPPort")


class Loader:
    """Load the configuration of one command. It is called again for each reload."""

    def __init__(
        self,
        path: str | None,
        folder: str | None,
        flags: Mapping[str, str],
        connects: bool,
        warn: Callable[[ConfigWarning], None],
    ) -> None:
        if path and folder:
            raise RelayError(ErrorCode.USAGE, "usage", "-c and --data each name a configuration: use one of them")
        self._path = path
        self._folder = folder
        self._flags = dict(flags)
        self._environment = dict(os.environ)
        self._connects = connects
        self._asks = False
        self._warn = warn
        self.file = path or configuration.find(None)
        """The configuration file, None if none is read."""
        if folder:
            self._read_in(folder)

    def __call__(self) -> Config:
        """Read the configuration. Raises `RelayError`."""
        if self._folder and not os.path.exists(self.file or ""):
            hint = f"`relay start mysql://LOGIN@HOST/ --data {shlex.quote(self._folder)}` makes it"
            raise RelayError(
                ErrorCode.CONFIG, "read config", "there is no such file", position=self.file or "", hint=hint
            )
        config, warnings = configuration.load(self.file, self._environment, self._flags)
        server = config.server
        if self._asks and not server.password and not self._has("password"):
            self._environment[_PASSWORD] = _ask_password(f"{server.login}@{server.ip_addr[0]}")
            config, warnings = configuration.load(self.file, self._environment, self._flags)
        for warning in warnings:
            self._warn(warning)
        return config

    def use(self, url: str) -> None:
        """Take the source from a URL, and all else from the file that an option names, or from none.

        Raises `RelayError`.
        """
        source = source_url.parse(url)
        self._flags |= source.settings
        self._asks = True
        if source.password is not None:
            self._environment.pop("RELAY_PASSWORD", None)
            self._environment[_PASSWORD] = source.password
        if not self._path and not self._folder:
            self.file = None
            if not self._has("auth_secret"):
                self._environment["RELAY_SERVER_AUTHSECRET"] = secrets.token_hex(16)

    def keep(self, url: str | None) -> str | None:
        """Return the folder for data of a relay that a URL or `--data` starts, None if a file was named instead.

        Its configuration is made if there is none. Raises `RelayError`.
        """
        if self._path is None and (url is not None or self._folder):
            folder = self._folder or DATA
            if url is not None and not os.path.exists(os.path.join(folder, _NAME)):
                self._make(Path(folder).absolute(), source_url.parse(url).settings)
            self._read_in(folder)
        if url is not None:
            self.use(url)
        return self._folder

    def _read_in(self, folder: str) -> None:
        self._folder, self.file = folder, os.path.join(folder, _NAME)
        self._asks = self._connects
        self._flags["Relay.DataDir"] = os.path.abspath(folder)

    def _make(self, folder: Path, settings: Mapping[str, str]) -> None:
        made = {
            **settings,
            "Server.AuthSecret": secrets.token_hex(16),
            "Server.BindAddress": LOOPBACK,
            **{f"Server.{name}": str(_free_port(name)) for name in _PORTS},
            "Relay.DataDir": str(folder),
        }
        # The relay becomes this user, who must be able to read the file at a reload.
        owner = privileges.owner(self._given("Relay", "user"))
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True)
            if owner is not None:
                os.chown(folder, *owner)
        conf_file.write(folder / _NAME, conf_file.content(configuration.given({}, made), "relay start"), owner)

    def _has(self, attribute: str) -> bool:
        """Whether the environment or a flag sets this key of [Server], also to nothing."""
        return self._given("Server", attribute) is not None

    def _given(self, section: str, attribute: str) -> str | None:
        """Return what the environment or a flag sets a key to, None if they do not."""
        given = configuration.given(self._environment, self._flags)
        found = (one.content for one in given if (one.key.section, one.key.attribute) == (section, attribute))
        return next(found, None)


def _free_port(name: str) -> int:
    """Return the default port of the key, or another one if it is in use."""
    usual = next(int(key.default) for key in KEYS if (key.section, key.name) == ("Server", name))
    for port in (usual, 0):
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((LOOPBACK, port))
            except OSError:
                continue
            return int(trial.getsockname()[1])
    return 0


def _ask_password(account: str) -> str:
    if not sys.stdin.isatty():
        hint = "set RELAY_PASSWORD, or write it into the URL; mysql://LOGIN:@HOST/ means that there is none"
        raise RelayError(ErrorCode.USAGE, "connect to the source", f"there is no password for {account}", hint=hint)
    return str(click.prompt(f"Password of {account}", "", hide_input=True, show_default=False, err=True))
