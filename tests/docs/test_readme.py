"""The README says what is so: its code is that of the examples, its words those of the demo agent."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def without_docstring(source: str) -> str:
    found = re.match(r'""".*?"""\n+', source, re.DOTALL)
    assert found, "an example begins with a docstring"
    return source[found.end() :]


SNIPPETS = re.findall(r"<!-- (examples/\w+\.py) -->\n```python\n(.*?)```", README, re.DOTALL)


def test_every_python_block_names_the_example_that_it_is() -> None:
    assert len(SNIPPETS) == README.count("```python") == 2


@pytest.mark.parametrize(("path", "code"), SNIPPETS, ids=[path for path, _ in SNIPPETS])
def test_a_python_block_is_its_example_to_the_letter(path: str, code: str) -> None:
    assert code == without_docstring((ROOT / path).read_text(encoding="utf-8"))


def test_there_is_one_command_to_try_it_and_one_to_test_it() -> None:
    commands = re.findall(r"^python -m venv .*$", README, re.MULTILINE)
    assert len(commands) == 2
    assert commands[0].endswith('.venv/bin/trio-acp prompt "list the files"')
    assert commands[1].endswith(".venv/bin/python -m pytest")


def test_every_link_into_the_tree_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https?://)([^)]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def words_in_a_table(text: str, row: str) -> set[str]:
    return set(re.findall(row, text, re.MULTILINE))


def test_the_words_of_the_demo_agent_are_those_that_it_tells_itself() -> None:
    from trio_acp.demo import HELP

    told = words_in_a_table(HELP, r"^- `([^`]+)`")
    assert told
    assert words_in_a_table(README, r"^\| `([^`]+)` \|") == told
    page = (ROOT / "docs" / "demo_words.rst").read_text(encoding="utf-8")
    assert words_in_a_table(page, r"^   \* - ``([^`]+)``") == told
