"""The prose that people read: pages, helps, errors, log texts. `python -m tests.docs.prose` checks its style.

`make lint` runs it. A program decides the rules: short sentences, no chain of passives, no odd turns.
test_glossary.py checks the words of docs/glossary.md and docs/internals/glossary.md.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import click

from relay.base.log_events import EVENTS
from relay.commands.app import cli
from relay.config.keys import CLIENT_KEYS, KEYS
from relay.errors import MEANINGS
from tests.support import ROOT

GLOSSARIES: Final = (ROOT / "docs/glossary.md", ROOT / "docs/internals/glossary.md")
WORDS: Final = 36
"""The largest number of words in a sentence; code, numbers, and what is in parentheses do not count."""
PASSIVES: Final = 3
"""The largest number of verbs in the passive voice in a sentence."""
ODD: Final[Mapping[str, str]] = {
    r"go(?:es)? on(?! to)": "continue",
    r"mend(?:s|ed|ing)?": "repair, or fix",
    r"anew": "again, or new",
    r"(?:every )?now and then": "how often it happens",
    r"for those who|those so \w+|of \w+, (?:those|the ones)": "the noun that is meant",
    r"(?:stand|stands|stood) (?:in|at|there|between|before|behind|on) (?:a|an|the|its|no|one)": "be",
    r"(?:is|are) due": "when it happens",
    r"(?:is|are) not (?:its|their) own": "what differs from what",
    r"the document itself|the answer itself": "JSON",
    r"vouch(?:es)? for|believe[sd]?": "verify, trust",
    r"of (?:his|her) own": "separate",
}
"""Turns that a reader stumbles over, each with what to write instead."""
INVERTED: Final = (
    r"(?:Never|Nowhere|Nor|Not only|Not even|Only (?:then|so|there|now)|So|Such) "
    r"(?:is|are|was|were|does|do|did|has|have|can|may|will|must) (?:a|an|the|it|they|no|one|every|each)\b"
)
PASSIVE: Final = (
    r"\b(?:is|are|was|were|be|been|being)(?: not| never| also| only| then| \w+ly)? "
    r"(?:\w{2,}ed|read|sent|kept|lost|made|written|taken|given|known|found|held|put|cut|shown|done|begun|said)\b"
)


class Banned(NamedTuple):
    """A word that the glossaries replace; INSTEAD has the word to write.

    `prose` is a pattern for text that people read. `names` are words that no identifier contains, in the files that
    `where` matches. An identifier's words are what stands between underscores and before capitals; a word with a
    capital is one of types only.
    """

    prose: str = ""
    names: tuple[str, ...] = ()
    where: str = r"(relay|native)/"


BANNED: Final[Mapping[str, Banned]] = {
    "named stop": Banned(
        r"named stops?|(stop|stops|stopped|stopping|refused) by name|(?<!`)stop `[a-z]+_[a-z_]+`|stops? for an? error"
    ),
    "verb": Banned(
        r"verbs?", ("verb", "verbs"), r"relay/(commands|cli)"
    ),  # in relay/ddl it is a statement's first word
    "family": Banned(r"(?<!metric )famil(y|ies)", ("family",), r"relay/(runtime|processes|supervisor)"),
    "board": Banned(r"(?<!on )boards?", ("board", "boards")),
    "lookout": Banned(r"lookouts?", ("lookout", "lookouts")),
    "narrow": Banned("", ("narrow", "narrowed"), r"relay/(commands|monitoring)/"),
    "desk": Banned(r"desks?", ("desk", "desks")),
    "door": Banned(r"doors?", ("door", "doors")),
    "peer": Banned(r"peers?", ("peer", "peers"), r"relay/"),
    "keeper": Banned(r"keepers?", ("keeper", "keepers")),
    "answers": Banned("", ("answers",), r"relay/(ingest|reader|repair)"),
    "refusals": Banned("", ("refusals",)),
    "catalogue": Banned(r"catalogues?", ("catalog", "catalogue"), r"relay/(ingest|cdc|reader|repair|queues)"),
    "misfit": Banned(r"misfits?", ("misfit", "misfits")),
    "gathering": Banned(r"gatherings?", ("gathering", "gatherings")),
    "place": Banned(
        r"places? in (the|a|its) (source's )?binlog|binlog places?",
        ("Place", "Places", "places"),
        r"relay/(binlog|ingest|lake|linelog|monitoring|reader|repair|schema|spark|verify)",
    ),
    "witness": Banned(r"witness(es)?", ("witness", "witnesses")),
    "brake": Banned(r"brakes?", ("brake", "brakes")),
    "room": Banned("", ("Room",), r"relay/.*\.py"),
    "level": Banned(r"(is|was|are|be|been|keeps? \w+ \w+) level( with)?"),
    "lives": Banned(
        r"(random|table's|tables') (life|lives)|lives of (a )?tables?", ("lives",), r"tests/(names|schema|cdc)/"
    ),
    "tell": Banned(r"(tells?|told|telling)(?! apart)", ("told", "tells", "telling")),
    "held": Banned(
        r"(held|holds?|holding) (up|back)|held (request|poll|connection|row|byte)s?",
        ("held",),
        r"native/|relay/(?!supervisor|runtime/(child_group|restarts))",
    ),
    "hidden": Banned(
        r"hidden (types?|columns?|metadata)", ("hidden",), r"native/|relay/(binlog|ingest|lake|repair|schema|verify)"
    ),
    "aside": Banned(r"aside", ("aside",)),
    "lane": Banned(r"lanes?", ("lane", "lanes"), r"native/(formats|python)|relay/"),  # processors have lanes, too
    "words": Banned("", ("Words",), r"relay/.*\.py"),
    "look": Banned(r"(take|takes|took|taking) a look", ("look", "looks", "looked"), r"relay/(?!commands/run)"),
    "bury": Banned("", ("bury", "buries", "buried")),
    "gently": Banned("", ("gently",)),
    "takes rows": Banned(r"statements? (that )?(takes?|took) rows"),
}

INSTEAD: Final[Mapping[str, str]] = {
    "named stop": "fatal error, with its code; states, codes and the JSON key `stop` keep their names",
    "verb": "command",
    "family": "shared state; or processes",
    "board": "process status, status page",
    "lookout": "collector",
    "narrow": "select, of the stat document",
    "desk": "connection; the class that owns it",
    "door": "listener",
    "peer": "connection; the other side is the client; the log field `peer` keeps its name",
    "keeper": "maintenance thread",
    "answers": "definitions, replies",
    "refusals": "rejections, rejection log",
    "catalogue": "reader state; table versions of the CDC port",
    "misfit": "mismatch",
    "gathering": "pending commit, buffer",
    "place": "position, in the binlog",
    "witness": "reference reader",
    "brake": "login throttle",
    "room": "admission, in a server",
    "level": "caught up",
    "lives": "workload",
    "tell": "report, state, log, send, say",
    "held": "of a process: stopped with a fatal error, shown as the status `held`; else kept, pending, open, waiting",
    "hidden": "incomplete metadata, of types that a table map does not describe",
    "aside": "renamed, of a damaged file",
    "lane": "column buffer",
    "words": "messages, of the CDC protocol; words of shared memory keep the name",
    "look": "query, of the source's tables; the option `--look` keeps its name",
    "bury": "child ended",
    "gently": "schedule as batch",
    "takes rows": "deletes rows, of a statement",
}
"""What to write for each banned word."""

ELSEWHERE: Final[Mapping[str, frozenset[str]]] = {
    "peer": frozenset({"docs/performance.md", "README.md"}),
}
"""Pages where the word means another thing: programs that the relay is compared with."""

PAGES: Final = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if path not in (*GLOSSARIES, ROOT / "CHANGELOG.md")
)


def shown(path: Path) -> str:
    """The path as tests name it."""
    return path.relative_to(ROOT).as_posix()


def found_in(text: str, page: str = "") -> list[str]:
    """The banned words in a text of prose, each with what stands around it."""
    found = []
    for word, banned in BANNED.items():
        if banned.prose and page not in ELSEWHERE.get(word, ()):
            for hit in re.finditer(rf"\b(?:{banned.prose})(?!\w)", text, re.IGNORECASE):
                around = text[max(0, hit.start() - 30) : hit.end() + 30].replace("\n", " ")
                line = text.count("\n", 0, hit.start()) + 1
                found.append(f"{f'{page}:{line}: ' if page else ''}'{word}', write {INSTEAD[word]}: ...{around}...")
    return found


def prose_of(page: str) -> str:
    """A page without its blocks of code, spans of code and targets of links; its lines keep their numbers."""
    page = re.sub(r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), page, flags=re.MULTILINE | re.DOTALL)
    page = re.sub(r"(?<=\])\([^)\s]*\)", "", page)
    return re.sub(r"(?<!stop )`[^`\n]*`", "``", page)


def help_texts(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """What `--help` prints of a command, of its options and of the commands in it."""
    yield name, " ".join(filter(None, (command.help, command.short_help, command.epilog)))
    for option in command.params:
        if isinstance(option, click.Option):
            yield f"{name} {option.opts[0]}", option.help or ""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in command.list_commands(context):
            if (found := command.get_command(context, inner)) is not None:
                yield from help_texts(found, f"{name} {inner}")


def blocks(page: str) -> Iterator[tuple[int, str]]:
    """The paragraphs, items of lists and cells of tables of a page, each with its first line."""
    page = re.sub(r"<!--.*?-->", lambda note: "\n" * note[0].count("\n"), prose_of(page), flags=re.DOTALL)
    page = re.sub(r"^\[\w+\]: \S+$", "", page, flags=re.MULTILINE)
    kept: list[str] = []
    first = 0
    for number, line in enumerate([*page.splitlines(), ""], 1):
        text = line.strip()
        item = re.match(r"(?:[-*]|\d+\.) ", text)
        if kept and (not text or item or text.startswith(("|", "#", "![", "    "))):
            yield first, " ".join(kept)
            kept = []
        if text.startswith("|"):
            yield from ((number, cell.strip()) for cell in re.split(r"(?<!\\)\|", text.strip("|")))
        elif text and not text.startswith(("#", "![")):
            first = first if kept else number
            kept.append(text[item.end() :] if item else text)


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph, without marks of emphasis and links."""
    text = re.sub(r"\*\*|(?<!\w)\*(?=\w)|(?<=\w)\*(?!\w)|\[|\]", "", text)
    return re.split(r"(?<=[.!?])\s+(?=[^a-z]|[\w/-]+\.md )", text)


def words_in(sentence: str) -> int:
    """How many words a reader has to keep until the end of a sentence."""
    sentence = re.sub(r"`[^`]*`", "", sentence)
    while (shorter := re.sub(r"\([^()]*\)", "", sentence)) != sentence:
        sentence = shorter
    return len(re.findall(r"\b[^\W\d][\w'-]*", sentence))


def faults_in(sentence: str) -> Iterator[str]:
    """What the rules of style find in a sentence."""
    if (count := words_in(sentence)) > WORDS:
        yield f"{count} words, at most {WORDS}"
    if len(passives := re.findall(PASSIVE, sentence)) > PASSIVES:
        yield f"{len(passives)} passives ({', '.join(passives)}), at most {PASSIVES}"
    for odd, better in ODD.items():
        if found := re.search(rf"\b(?:{odd})\b", sentence, re.IGNORECASE):
            yield f"'{found[0]}': write {better}"
    if found := re.match(INVERTED, sentence):
        yield f"'{found[0]}': the subject comes first"


def errors_of(source: str) -> Iterator[tuple[int, str]]:
    """The literal texts of the errors that a module raises, and of their hints."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        error = name.endswith(("Error", "Misuse"))
        given = [*(node.args if error else ()), *(word.value for word in node.keywords if error or word.arg == "hint")]
        for value in given:
            parts = value.values if isinstance(value, ast.JoinedStr) else [value]
            texts = [part.value if isinstance(part, ast.Constant) else "``" for part in parts]
            if all(isinstance(text, str) for text in texts) and any(" " in str(text) for text in texts):
                yield value.lineno, re.sub(r"`[^`]+`", "``", "".join(map(str, texts)))


def texts() -> Iterator[tuple[str, str]]:
    """Every text that people read, in paragraphs, each with its place."""
    for page in [*PAGES, ROOT / "CHANGELOG.md"]:
        yield from ((f"{shown(page)}:{line}", text) for line, text in blocks(page.read_text()))
    yield from help_texts(cli, "relay")
    yield from ((f"[{key.section}] {key.name}", key.doc) for key in (*KEYS, *CLIENT_KEYS))
    yield from ((f"log event {name}", event.meaning) for name, event in EVENTS.items())
    yield from ((f"code {code}", meaning.hint) for code, meaning in MEANINGS.items())
    for module in sorted((ROOT / "relay").rglob("*.py")):
        yield from ((f"{shown(module)}:{line}", text) for line, text in errors_of(module.read_text()))


def faults() -> list[str]:
    """What breaks a rule, a line each."""
    return [
        f"{place}: {fault}: {sentence}"
        for place, text in texts()
        for sentence in sentences(text)
        for fault in faults_in(sentence)
    ]


def main() -> int:
    """Prints what breaks a rule; 1 if anything does."""
    found = faults()
    print("\n".join(found) or "prose: no fault found")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
