"""A MariaDB with an account that logs in by mysql_clear_password, the plugin for tokens of managed servers.

It is the server's own PAM plugin. PAM asks pam_matrix, a module for tests, which compares the password with a file. PAM
reads its services from /etc/pam.d; the server gets a copy of the library that reads them from a folder of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from examples.dbserver import KINDS, DatabaseServer, Packages, say
from examples.debian import Unpacked

TOKEN_USER = "token"
_PACKAGES = ("mariadb-server", "libpam0g", "libaudit1", "libcap-ng0", "libpam-wrapper")
_SERVICES, _OURS = b"/etc/pam.d", b"..///pam.d"  # of the same length; the server's working folder is its data folder


class _WithPam(Packages):
    """The server's packages, with libraries that its PAM plugin needs."""

    def __init__(self, kind: str, libraries: list[Path]) -> None:
        super().__init__(kind)
        self._libraries = libraries

    def program(self, path: str) -> list[str]:
        linker, *rest = super().program(path)
        return [linker, "--preload", ":".join(map(str, self._libraries)), *rest]


class PamServer(DatabaseServer):
    """The server; `accept` says which password the account has from now on."""

    def accept(self, password: str) -> None:
        """Let the account log in with this password only."""
        (self.folder / "passwords").write_text(f"{TOKEN_USER}:{password}:relay\n")


@contextmanager
def pam_server(kind: str, *options: str) -> Iterator[PamServer]:
    """A MariaDB with `TOKEN_USER`, who has every right."""
    title = f"{KINDS[kind].title}'s PAM plugin"
    packages = Unpacked(f"{kind}-pam", title, KINDS[kind].suite, _PACKAGES, say, alone=True)
    with packages.lock():
        packages.fetch()
    usr = packages.root / "usr/lib"
    (wrapper,) = usr.glob("*/pam_wrapper")
    plugins = (f"--plugin-dir={usr / 'mysql/plugin'}", "--plugin-load-add=auth_pam_v1", "--pam-use-cleartext-plugin=ON")
    server = PamServer(kind, options=(*plugins, *options))
    library = server.folder / "libpam.so.0"
    library.write_bytes((wrapper.parent / library.name).read_bytes().replace(_SERVICES, _OURS))
    libraries = [*(wrapper.parent / name for name in ("libcap-ng.so.0", "libaudit.so.1")), library]
    server.packages = _WithPam(kind, libraries)
    services = server.folder / "pam.d"
    services.mkdir()
    module = f"required {wrapper}/pam_matrix.so passdb={server.folder}/passwords\n"
    (services / "relay").write_text(f"auth {module}account {module}")
    server.accept("")
    with server:
        server.execute(
            f"CREATE USER {TOKEN_USER}@'%' IDENTIFIED VIA pam USING 'relay'", f"GRANT ALL ON *.* TO {TOKEN_USER}@'%'"
        )
        yield server
