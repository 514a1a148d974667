"""The recipes, and the pages for those who come from other relays, name settings and commands that are there."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from relay.commands.app import cli
from relay.config.keys import CLIENT_KEYS, KEYS
from tests.support import ROOT

PAGES = [*sorted((ROOT / "docs").glob("from-*.md")), *sorted((ROOT / "docs" / "recipes").glob("*.md"))]
SETTINGS = {name for key in (*KEYS, *CLIENT_KEYS) for name in (key.name, *key.aliases)}
OF_THE_SERVER = {"gtid_mode", "binlog_row_image", "binlog_row_metadata", "sql_log_bin"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_setting_of_the_page_is_there(page: Path) -> None:
    text = page.read_text()
    named = re.findall(r"`(?:\[\w+\] )?(\w+) = [^`]+`|--set \w+\.(\w+)=", text)
    assert not {first or second for first, second in named} - SETTINGS - OF_THE_SERVER


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_the_page_is_there(page: Path) -> None:
    for name, inner in re.findall(r"(?:`|^ *)relay ([a-z]+)(?: ([a-z-]+))?", page.read_text(), re.MULTILINE):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, name
        if isinstance(command, click.Group):
            assert command.get_command(click.Context(command), inner) is not None, f"{name} {inner}"
