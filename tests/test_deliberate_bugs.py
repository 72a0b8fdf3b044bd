"""The table of deliberate bugs is about the code as it is. Trying them takes long: `nox -s mutants` does."""

from __future__ import annotations

import pathlib

import pytest

from fuzz.mutants import FUZZERS_MUST_FIND, MUTANTS, SUITE, Mutant, part_of

ROOT = pathlib.Path(__file__).parents[1]


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_the_place_of_a_bug_is_there_and_a_part_of_the_suite_answers_for_it(mutant: Mutant) -> None:
    source = (ROOT / "trio_acp" / mutant.file).read_text(encoding="utf-8")
    assert mutant.old in source
    assert all((ROOT / path).exists() for path in SUITE[part_of(mutant)])


def test_there_are_enough_bugs_and_no_two_have_one_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= max(30, FUZZERS_MUST_FIND)
