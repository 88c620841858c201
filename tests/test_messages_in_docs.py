"""Messages that the documentation quotes are still those of the code.

A quote is a paragraph that begins with "> ". All words of it must be those of texts in the code
that match it, with anything in place of the values that they show; but for single words that the
code puts there, such as names, units, "more" and "less".
"""

import ast
import re
from pathlib import Path

import pytest

from motorcost import tasks

ROOT = Path(__file__).parent.parent
SOURCES = list((ROOT / "src" / "motorcost").rglob("*.py"))
PAGE = ROOT / "docs" / "when-it-does-not-fit.md"
# A text of the code with fewer characters than this besides its values matches almost anything.
FEWEST_CHARACTERS = 8


def texts_of_the_code():
    """Every text in the sources as a pattern, with anything in place of its values, and the longest
    part of it that is always there."""
    patterns = {}
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text())):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            constants = [part.value if isinstance(part, ast.Constant) else None for part in parts]
            texts = [text if isinstance(text, str) else None for text in constants]
            if sum(len(text.strip()) for text in texts if text) >= FEWEST_CHARACTERS:
                pattern = [".*?" if text is None else f"({re.escape(text)})" for text in texts]
                patterns["".join(pattern)] = max((text for text in texts if text), key=len)
    return [(part, re.compile(pattern)) for pattern, part in patterns.items()]


def single_words():
    """Words that the code puts into its texts: names, units, "more" or "less"."""
    found = set()
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= {node.value} if node.value.isidentifier() else set()
    return found | set(tasks.parameters(tasks.reaching))


def quotes(page):
    paragraphs = re.findall(r"(?:^> .*\n)+", page, re.MULTILINE)
    return [" ".join(line[2:] for line in text.splitlines()) for text in paragraphs]


def left_over(quote, patterns):
    """The words of a quote that no text of the code has."""
    covered = [False] * len(quote)
    for part, pattern in patterns:
        for match in pattern.finditer(quote) if part in quote else ():
            for start, end in match.regs[1:]:
                covered[start:end] = [True] * (end - start)
    rest = "".join(" " if c else letter for c, letter in zip(covered, quote, strict=True))
    return [word for word in re.findall(r"[A-Za-z_]{2,}", rest) if word not in WORDS]


PATTERNS = texts_of_the_code()
WORDS = single_words()


@pytest.mark.parametrize("quote", quotes(PAGE.read_text()), ids=lambda quote: quote[:40])
def test_quoted_messages_are_those_of_the_code(quote):
    assert left_over(quote, PATTERNS) == []


def test_a_changed_message_would_be_noticed():
    quote = "The search did not settle at a maximum: 1 of 4 searches came to that point"
    assert left_over(quote, PATTERNS)


def test_there_are_quotes():
    assert len(quotes(PAGE.read_text())) > 20
