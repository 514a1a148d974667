"""The style of the prose that people read: the check finds what it is for, and finds nothing in what is committed."""

from __future__ import annotations

import pytest

from tests.docs.prose import WORDS, blocks, errors_of, faults, faults_in, sentences, words_in


def test_nothing_that_people_read_breaks_a_rule_of_style() -> None:
    found = faults()
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "sentence",
    [
        "The relay " + "very " * WORDS + "slowly stops.",
        "It is read, then it is cut, is sent and was kept.",
        "Shows what goes on.",
        "The exporter goes on after that.",
        "Of clients, those so named are listed.",
        "The file is written anew.",
        "The GTID stands in the COMMIT frame.",
        "Never does a client wait.",
        "So is the journal.",
    ],
)
def test_odd_prose_is_found(sentence: str) -> None:
    assert len([*faults_in(sentence)]) == 1


@pytest.mark.parametrize(
    "sentence",
    [
        "The relay " + "very " * (WORDS - 4) + "slowly stops (" + "very " * WORDS + "slowly).",
        "The relay reads " + "`a`, 1, " * WORDS + "and no more.",
        "It is read, is cut and is sent.",
        "A host that stands still loses nothing.",
        "So the journal is whole.",
        "The tests go on to the next server.",
    ],
)
def test_plain_prose_is_not_found(sentence: str) -> None:
    assert not [*faults_in(sentence)]


def test_a_page_is_read_by_paragraphs_items_and_cells() -> None:
    page = "# Title\n\nOne\ntwo. Three.\n\n- four\n  five\n- six\n\n```\ncode\n```\n\n| a | `b` |\n|---|---|\n"
    found = [(line, text) for line, text in blocks(page) if text.strip("-")]
    assert found == [(3, "One two. Three."), (6, "four five"), (8, "six"), (14, "a"), (14, "``")]


def test_a_sentence_ends_before_a_capital_or_a_file_name() -> None:
    assert sentences("It is so, e.g. here. [a.md] says it. Then **not**.") == [
        "It is so, e.g. here.",
        "a.md says it.",
        "Then not.",
    ]
    assert words_in("one `two` 3 (four) five's") == 2


def test_texts_of_errors_are_found_in_a_module() -> None:
    source = 'raise RelayError(C.X, "open it", f"no {name} here", hint="do `this`")\nlog("not an error")\n'
    assert list(errors_of(source)) == [(1, "open it"), (1, "no `` here"), (1, "do ``")]
