"""The guards of conftest.py guard: each of them catches what it is there for."""

from __future__ import annotations

import pathlib

import pytest

pytest_plugins = ["pytester"]

CONFTEST = pathlib.Path(__file__).with_name("conftest.py").read_text(encoding="utf-8")


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(pathlib.Path(__file__).parents[1]))
    pytester.makeconftest(CONFTEST + "\nHANG_GUARD_SECONDS = 0.05\n")
    pytester.makeini("[pytest]\ntrio_mode = true\nfilterwarnings = error\n")
    return pytester


@pytest.mark.parametrize("fixture", ["", "mock_clock", "autojump_clock"])
def test_a_hanging_test_fails_whatever_its_clock_does(suite: pytest.Pytester, fixture: str) -> None:
    suite.makepyfile(f"import trio\nasync def test_hang({fixture}): await trio.sleep_forever()\n")
    result = suite.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*TooSlowError: the test hung*"])


def test_a_hanging_hypothesis_test_fails(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        import trio
        from hypothesis import given, strategies as st, settings

        @settings(max_examples=1)
        @given(st.just(1))
        async def test_hang(n): await trio.sleep_forever()
        """
    )
    result = suite.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*TooSlowError: the test hung*"])


@pytest.mark.parametrize(
    ("leak", "named"),
    [
        ("import os; kept.append(os.pipe())", "descriptors"),
        ("import subprocess; kept.append(subprocess.Popen(['sleep', '5']))", "child processes"),
        ("import threading; kept.append(threading.Thread(target=gate.wait)); kept[-1].start()", "threads"),
    ],
)
def test_a_test_that_leaves_something_behind_fails(suite: pytest.Pytester, leak: str, named: str) -> None:
    suite.makepyfile(
        f"""
        import threading
        kept = []
        gate = threading.Event()
        def test_leak(): {leak}
        def teardown_module():
            gate.set()
            for thing in kept:
                if hasattr(thing, "kill"):
                    thing.kill()
                    thing.wait()
        """
    )
    result = suite.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([f"*left behind: *{named}*"])
