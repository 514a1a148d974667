"""What pages say to type works: the commands and options of `relay` exist, and the targets of make, and the files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import click
import pytest

from relay.commands.app import cli
from tests.docs.test_links import PAGES
from tests.support import ROOT

MADE: Final = {"build", "dist"}
"""Folders that only a build makes."""


def shown(page: Path) -> str:
    """The page as tests name it."""
    return page.relative_to(ROOT).as_posix()


def spans(text: str) -> list[str]:
    """The spans of code between the blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def typed(text: str) -> Iterator[str]:
    """The commands of `relay` and make in a page: spans that begin with one, and lines of blocks that do."""
    blocks = re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    for line in [*spans(text), *lines]:
        for found in re.finditer(r"(?:^ *(?:[$#] )?|&& |-- )(?:\S*/)?((?:relay|make) .*?)(?= +&& |$)", line):
            yield found[1]


def alternatives(command: str) -> list[str]:
    """`relay pause | resume` is two commands; what stands behind other bars and signs is for the shell."""
    if found := re.fullmatch(r"((?:[a-z-]+ )*)([a-z-]+(?: \| [a-z-]+)+)", command):
        return [found[1] + word for word in found[2].split(" | ")]
    return [re.split(r" [|;>&<] ?|  +", command)[0]]


@cache
def commands_in(group: click.Group) -> dict[str, click.Command]:
    """The commands of a group, by name."""
    context = click.Context(group)
    return {name: found for name in group.list_commands(context) if (found := group.get_command(context, name))}


def options(command: click.Command) -> dict[str, bool]:
    """The options of a command, and whether a value follows."""
    context = click.Context(command, **command.context_settings)
    found = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    return {name: not option.is_flag for option in found for name in (*option.opts, *option.secondary_opts)}


def wrong_in_relay(command: str) -> str | None:
    """What a command of `relay` names that does not exist. A word in capitals stands for every command of its group."""
    words = iter(shlex.split(re.sub(r"[\[\]]|\.\.\.", " ", command), comments=True)[1:])
    candidates: list[click.Command] = [cli]
    for word in words:
        if word.startswith("-"):
            name, has_value, _ = word.partition("=")
            known = [options(candidate) for candidate in candidates]
            if not all(name in each for each in known):
                return f"no option {name}"
            if not has_value and known[0][name]:
                next(words, None)
        elif isinstance(group := candidates[0], click.Group):
            inner = commands_in(group)
            if not word.isupper() and word not in inner:
                return f"no command {word}"
            candidates = [*inner.values()] if word.isupper() else [inner[word]]
    return None


@cache
def targets() -> frozenset[str]:
    """The targets of the Makefile that a person may name."""
    return frozenset(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def wrong_in_make(command: str) -> str | None:
    """What a call of make names that is no target."""
    words = [word for word in shlex.split(command, comments=True)[1:] if "=" not in word and not word.startswith("-")]
    return next((f"no target {word}" for word in words if word not in targets()), None)


def wrong(command: str) -> str | None:
    """What is wrong in a command of a page."""
    found = map(wrong_in_make if command.startswith("make ") else wrong_in_relay, alternatives(command))
    return next(filter(None, found), None)


def is_there(path: str) -> bool:
    """Whether a path from the root exists; it may be a pattern."""
    return (ROOT / path).exists() or ("*" in path and any(ROOT.glob(path)))


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    found = [f"{command}: {why}" for command in typed(page.read_text()) if (why := wrong(command))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    folders = "|".join(path.name for path in ROOT.iterdir() if path.is_dir() and path.name not in MADE)
    paths = [
        found[0] for span in spans(page.read_text()) if (found := re.match(rf"(?:{folders})/[\w./*-]*(?=$|::)", span))
    ]
    assert not [path for path in paths if not is_there(path)]


@pytest.mark.parametrize(
    "text",
    ["`relay stat --json --watch`", "`relay client list | kick`", "`relay -h`", "`relay spark JOB [--lake PATH]...`",
     "```sh\n$ .venv/bin/relay tail 'shop.*' | head   # rows\n```", "the relay runs; make it",
     "`make test-faults RELAY_FAULTS=0.1`"],
)  # fmt: skip
def test_commands_that_exist_are_not_found(text: str) -> None:
    assert not [*filter(None, map(wrong, typed(text)))]


@pytest.mark.parametrize(
    "text",
    ["`relay stats`", "`relay stat --jsn`", "`relay client list | kic`", "`relay -c FILE`",
     "`relay spark JOB --lak PATH`",
     "```\ncd x && relay start --daemon\n```", "```sh\nkubectl exec relay-0 -- relay stats\n```", "`make tests`"],
)  # fmt: skip
def test_commands_that_do_not_exist_are_found(text: str) -> None:
    assert len([*filter(None, map(wrong, typed(text)))]) == 1
