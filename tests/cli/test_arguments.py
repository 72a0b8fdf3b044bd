"""Arguments that make no sense are status 2, with a message that says what would."""

from __future__ import annotations

import pathlib
import signal

import pytest

from tests.cli.terminals import agent
from trio_acp import __version__
from trio_acp.cli import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["prompt"], "the following arguments are required: TEXT"),
        (["prompt", "--permission", "maybe", "hi"], "argument --permission: invalid"),
        (["prompt", "--agent", "unclosed 'quote", "hi"], "is no command line: No closing quotation"),
        (["prompt", "--agent", " ", "hi"], "the command line is empty"),
        (["prompt", "--cwd", "/no/such/place", "hi"], "'/no/such/place' is not a directory"),
        (["prompt", "--startup-timeout", "0", "hi"], "'0' is not a number of seconds above 0"),
        (["prompt", "--startup-timeout", "soon", "hi"], "'soon' is not a number of seconds above 0"),
        (["prompt", "--startup-timeout", "nan", "hi"], "'nan' is not a number of seconds above 0"),
        (["inspect"], "the following arguments are required: --agent"),
        (["check", "--agent", "x", "--json", "/no/such/place/f"], "'/no/such/place/f' cannot be written"),
        (["fuzz", "--agent", "x", "--failure", "/"], "argument --failure: '/' is a directory"),
    ],
)
def test_wrong_usage_is_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--help"], ["prompt", "--help"], ["inspect", "--help"]])
def test_help_is_there(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 0
    assert "usage: trio-acp" in capsys.readouterr().out


def test_the_version_is_the_library_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"trio-acp {__version__}\n"


def test_it_can_be_called_from_python(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert main(["prompt", *agent(), "--cwd", str(tmp_path), "hello"]) == 0
    assert capsys.readouterr().out == "you said hello\n\nend of turn\n"
    assert signal.getsignal(signal.SIGINT) is before
