"""The manual pages have every command and every option, and render without a warning."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from examples.debian import Unpacked
from relay.commands.app import cli
from relay.errors import ExitCode
from scripts import man


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """The name of the page of a command and of each command in it."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in command.list_commands(context):
            if (found := command.get_command(context, inner)) is not None:
                yield from commands(found, f"{name}-{inner}")


COMMANDS = dict(commands(cli, "relay"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages, as `make man` writes them."""
    made = tmp_path_factory.mktemp("man")
    (made / "relay-gone.1").touch()
    man.main(made)
    return made


@pytest.fixture(scope="module")
def mandoc() -> list[str]:
    """The program that renders pages and finds mistakes in them."""
    packages = Unpacked("mandoc", "mandoc", "bookworm", ("mandoc",), print)
    with packages.lock():
        packages.fetch()
    return packages.program("usr/bin/mandoc")


@pytest.fixture(scope="module")
def rendered(folder: Path, mandoc: list[str]) -> dict[str, str]:
    """The text of each page as a terminal shows it, with one blank between words."""
    texts = {}
    for page in folder.iterdir():
        text = subprocess.run([*mandoc, "-T", "utf8", page], check=True, capture_output=True, text=True).stdout
        texts[page.stem] = " ".join(re.sub(r".\x08", "", text).split())
    return texts


def test_each_command_has_a_page_and_an_earlier_command_has_none(folder: Path) -> None:
    assert {page.stem for page in folder.iterdir()} == set(COMMANDS)


def test_no_page_has_a_mistake(folder: Path, mandoc: list[str]) -> None:
    done = subprocess.run([*mandoc, "-T", "lint", "-W", "warning", *folder.iterdir()], capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if "missing date" not in line]  # a date would differ every day
    assert not lines


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_says_what_the_help_says(rendered: dict[str, str], name: str) -> None:
    text, command = rendered[name], COMMANDS[name]
    context = click.Context(command, info_name=name)
    for option in command.get_params(context):
        if isinstance(option, click.Option) and (record := option.get_help_record(context)) is not None:
            assert " ".join(record[0].split()) in text
            assert " ".join(record[1].split()) in text
    assert " ".join((command.help or "").replace("`", "").split()) in text


def test_the_first_page_has_environment_files_and_exit_codes(rendered: dict[str, str]) -> None:
    text = rendered["relay"]
    assert "ENVIRONMENT RELAY_SECTION_KEY Sets KEY in [SECTION]" in text
    assert "FILES relay.conf, replicaterelay.conf, relay-data/relay.conf, /etc/relay/relay.conf" in text
    codes = text.partition("EXIT STATUS")[2].partition("SEE ALSO")[0]
    assert all(re.search(rf"(^|\s){int(code)} [a-z`]", codes) for code in ExitCode)
