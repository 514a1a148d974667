"""Writes the manual pages, one for each command, from what `--help` prints: `python -m scripts.man [FOLDER]`.

Environment, files and exit codes are in relay.1; the other pages refer to it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from relay import __version__
from relay.commands.app import cli
from relay.config.keys import KEYS
from relay.config.load import SEARCH_PATH

ROOT = Path(__file__).parents[1]
MAN = ROOT / "man"  # not in build/, which setuptools keeps out of the sdist
DOCS = "docs/README.md, docs/config.md, docs/operations.md and docs/failures.md in the sources"
DATA_DIR = next(key for key in KEYS if (key.section, key.name) == ("Relay", "DataDir"))
ENVIRONMENT = (
    ("RELAY_SECTION_KEY", "Sets KEY in [SECTION] of the configuration, for example `RELAY_SERVER_PASSWORD`. "
     "It overrides the configuration file; `--set` overrides both."),
    ("RELAY_PASSWORD", "Short for `RELAY_SERVER_PASSWORD`, the password of the account on the source."),
    ("NOTIFY_SOCKET, WATCHDOG_USEC", "systemd sets them: `relay start` reports its state and its health there."),
)  # fmt: skip
FILES = (
    (", ".join(SEARCH_PATH), "The configuration, if `-c` names none: the first of these files that exists."),
    ("DataDir", "The folder of journal, queues and state: a key of [Relay] in the configuration. "
     f"Default: {DATA_DIR.default}."),
)  # fmt: skip


def main(folder: Path) -> None:
    """Write all pages into this folder, and remove those of earlier commands."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("relay*.1"):
        old.unlink()
    for name, text in pages():
        (folder / f"{name}.1").write_text(text)


def pages() -> Iterator[tuple[str, str]]:
    """The name and the text of each page."""
    for context in contexts(click.Context(cli, info_name="relay", **cli.context_settings)):
        yield named(context), "\n".join(page(context)) + "\n"


def contexts(context: click.Context) -> Iterator[click.Context]:
    """The contexts of a command and of all commands in it."""
    yield context
    for child in children(context):
        yield from contexts(child)


def children(context: click.Context) -> list[click.Context]:
    """The contexts of the commands of a group."""
    group = context.command
    if not isinstance(group, click.Group):
        return []
    found = ((name, group.get_command(context, name)) for name in group.list_commands(context))
    return [click.Context(command, parent=context, info_name=name) for name, command in found if command]


def named(context: click.Context) -> str:
    """The name of a command's page."""
    return context.command_path.replace(" ", "-")


def summary(context: click.Context) -> str:
    """One sentence that says what a command does."""
    return context.command.get_short_help_str(limit=200)


def page(context: click.Context) -> Iterator[str]:
    """The lines of the page of a command."""
    name, root, short = named(context), context.find_root(), summary(context).rstrip(".")
    yield f'.TH {roff(name.upper())} 1 "" "relay {roff(__version__)}" "User Commands"'
    yield ".nh"  # a broken option cannot be copied
    yield from (".SH NAME", f"{roff(name)} \\- {roff(short[:1].lower() + short[1:])}", ".SH SYNOPSIS")
    yield f".B {roff(context.command_path)}"
    yield roff(" ".join(context.command.collect_usage_pieces(context)))
    yield ".SH DESCRIPTION"
    for number, paragraph in enumerate((context.command.help or "").strip().split("\n\n")):
        yield from [".PP"] * (number > 0)
        yield roff(" ".join(paragraph.split()))
    options = [each for each in context.command.get_params(context) if isinstance(each, click.Option)]
    yield from section("OPTIONS", filter(None, (option.get_help_record(context) for option in options)))
    inner = children(context)
    yield from section("COMMANDS", ((child.command_path, summary(child)) for child in inner))
    if context is root:
        yield from section("ENVIRONMENT", ENVIRONMENT)
        yield from section("FILES", FILES)
        yield from section("EXIT STATUS", exit_codes())
    above = [context.parent] if context.parent else []
    links = dict.fromkeys(map(named, [root, *above, *inner]))
    links.pop(name, None)
    yield ".SH SEE ALSO"
    yield " ,\n".join(f".BR {roff(link)} (1)" for link in links)
    yield from (".PP", roff(f"{DOCS}." if context is root else "relay(1) lists environment, files and exit codes."))


def section(title: str, entries: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A section of entries, each with its text behind it; nothing if there are none."""
    for number, (head, text) in enumerate(entries):
        yield from [f".SH {title}"] * (number == 0)
        words = re.sub(r"[^ ,]+", lambda word: f"\\f{'B' if word[0][0] in '-r' else 'I'}{word[0]}\\fR", head)
        yield from (".TP", words.replace("-", "\\-"), roff(text))


def exit_codes() -> list[tuple[str, str]]:
    """The exit codes and what they mean, as docs/exit-codes.md lists them."""
    text = (ROOT / "docs/exit-codes.md").read_text().replace(" (see below)", "")
    return re.findall(r"^\| (\d+) \| (.*) \|$", text, re.MULTILINE)


def roff(text: str) -> str:
    """The text as roff shows it; code between backticks is bold."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", text)
    return re.sub(r"^([.'])", r"\\&\1", text)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else MAN)
