"""The arguments of ``trio-acp``, and what becomes of errors: a short message and an exit status."""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import shlex
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

import trio

from trio_acp import AcpError, AuthRequired, __version__

from ._display import Display
from ._inspect import run_inspect
from ._json import JsonLines
from ._plain import PlainOutput
from ._prompt import CANCELLED, FAILED, OK, Policy, PromptSettings, run_prompt
from ._screen import Screen
from ._sessions import run_sessions
from ._text import clean, one_line, plural

if TYPE_CHECKING:
    from ._rich import RichOutput

__all__ = ["main"]

MAX_WARNINGS: Final = 5
"""Warnings that are told: an agent with a cause for one has often many."""

PROMPTS: Final = {
    "slow": "work for a minute or more, with a message or a thought at once",
    "write": "ask for permission, and then write a file",
    "command": "run a command, after it has asked for permission",
    "read": "read the file notes.txt",
    "form": "ask for something with a form",
    "link": "ask to open an address",
}
"""What else can be said to an agent that is checked, and what for."""

DEMO: Final = (
    "import sys; sys.path.append(sys.argv.pop(1)); from trio_acp.demo import main; raise SystemExit(main())"
)
"""Starts the demo agent of this very package: `-m` would look into the session's directory first."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status: 0 fine, 1 error, 2 usage, 130 cancelled.

    Args:
        argv: the arguments, without the program's name; None for those of the process.

    Raises:
        SystemExit: with status 2 when the arguments make no sense, with 0 after ``--help``.
    """
    arguments = _parser().parse_args(argv)
    trouble = _Trouble(sys.stderr)
    logger = logging.getLogger("trio_acp")
    logger.addHandler(trouble)
    try:
        status: int = arguments.run(arguments, trouble)
        return status
    except KeyboardInterrupt:
        trouble.tell("interrupted")
        return CANCELLED
    finally:
        logger.removeHandler(trouble)
        trouble.sum_up()


# Arguments -----------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trio-acp",
        description="Talk to coding agents by the Agent Client Protocol.",
        epilog="Exit status: 0 end of turn, 1 error, 2 usage, 130 cancelled.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    prompt = commands.add_parser(
        "prompt",
        help="run one prompt and show the turn",
        description="Run one prompt and show the turn as it happens. Ctrl-C cancels the turn, twice leaves.",
        allow_abbrev=False,
    )
    prompt.add_argument("text", metavar="TEXT", help="what to tell the agent")
    _add_agent(prompt, required=False)
    prompt.add_argument(
        "--permission",
        type=Policy,
        choices=list(Policy),
        default=Policy.ASK,
        metavar="{ask,allow,reject}",
        help="who decides when the agent asks for permission (default: ask, at the terminal)",
    )
    prompt.add_argument(
        "--files", action="store_true", help="let the agent read and write the directory's files through me"
    )
    prompt.add_argument(
        "--terminal", action="store_true", help="let the agent run commands through me, in the directory"
    )
    prompt.add_argument("--resume", metavar="SESSION", help="go on with a saved session; see `sessions`")
    prompt.add_argument("--mode", metavar="MODE", help="put the session into this mode first")
    prompt.add_argument(
        "--set",
        metavar="OPTION=VALUE",
        type=_option,
        action="append",
        default=[],
        help="set a config option first; may be given several times",
    )
    prompt.add_argument("--json", action="store_true", help="write one JSON event a line")
    prompt.set_defaults(run=_prompt)

    inspect = commands.add_parser(
        "inspect",
        help="show what an agent offers",
        description="Show an agent's version, capabilities, auth methods, modes and config options.",
        allow_abbrev=False,
    )
    _add_agent(inspect, required=True)
    inspect.set_defaults(run=_inspect)

    sessions = commands.add_parser(
        "sessions",
        help="list or delete an agent's saved sessions",
        description="List the sessions that an agent has saved, or delete some of them.",
        allow_abbrev=False,
    )
    _add_agent(sessions, required=True)
    sessions.add_argument(
        "--here", action="store_true", help="list only those whose directory is this one, or that of --cwd"
    )
    sessions.add_argument(
        "--delete",
        metavar="SESSION",
        action="append",
        default=[],
        help="delete this session for good, instead of listing; may be given several times",
    )
    sessions.set_defaults(run=_sessions)

    check = commands.add_parser(
        "check",
        help="check what an agent owes its clients",
        description="Check what an agent owes its clients, each thing in a run of its own. "
        "Exit status 1 if a check fails that the protocol demands.",
        epilog="An agent that nobody here knows has to be told in its own words what to do. Checks that need "
        "words that are not given are not applicable.",
        allow_abbrev=False,
    )
    _add_trial(check, required=False)
    for name, what in PROMPTS.items():
        check.add_argument(f"--prompt-{name}", metavar="TEXT", help=f"a prompt that has the agent {what}")
    check.add_argument("--written", metavar="FILE", help="the name of the file that --prompt-write writes")
    check.add_argument("--login", metavar="ID", help="log in this way, which has to need nobody's help")
    check.add_argument(
        "--only",
        metavar="CHECK",
        action="append",
        default=[],
        help="only this check, or those of a rule (W3) or a subject (W); may be given several times",
    )
    check.add_argument("--list", action="store_true", help="list the checks, and run none")
    check.add_argument(
        "--strict", action="store_true", help="fail for what the protocol does not demand as well"
    )
    check.set_defaults(run=_check, parser=check)

    fuzz = commands.add_parser(
        "fuzz",
        help="look for something that breaks an agent",
        description="Do random things to an agent until it breaks a rule of the protocol, then find the "
        "smallest such program. Exit status 1 if there is one.",
        allow_abbrev=False,
    )
    _add_trial(fuzz, required=True)
    fuzz.add_argument(
        "--seconds", metavar="N", type=_seconds, default=60.0, help="how long to look (default: 60)"
    )
    fuzz.add_argument("--seed", metavar="S", type=int, help="repeat an earlier run (default: by chance)")
    fuzz.add_argument(
        "--failure",
        metavar="FILE",
        type=_report_file,
        default="acp-fuzz-failure.json",
        help="where to keep a failure (default: acp-fuzz-failure.json)",
    )
    fuzz.add_argument(
        "--ignore",
        metavar="RULE",
        action="append",
        default=[],
        help="look for something else than breaches of this rule (W4); may be given several times",
    )
    fuzz.add_argument("--replay", metavar="FILE", help="play a failure again, and nothing else")
    fuzz.set_defaults(run=_fuzz)
    return parser


def _add_agent(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--agent",
        metavar="COMMAND",
        type=_command,
        required=required,
        help="command line that starts the agent" + ("" if required else " (default: the demo agent)"),
    )
    parser.add_argument(
        "--cwd",
        metavar="DIR",
        type=_directory,
        default=".",
        help="directory to work in (default: this one)",
    )
    parser.add_argument(
        "--startup-timeout",
        metavar="SECONDS",
        type=_seconds,
        default=60.0,
        help="how long the agent may take to start (default: 60)",
    )


def _add_trial(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument(
        "--agent",
        metavar="COMMAND",
        type=_command,
        required=required,
        help="command line that starts the agent",
    )
    parser.add_argument(
        "--cwd",
        metavar="DIR",
        type=_directory,
        help="directory to start the agent in (default: an empty one of its own)",
    )
    parser.add_argument(
        "--prompt", metavar="TEXT", default="hello", help="what turns are started with (default: hello)"
    )
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=_seconds,
        default=30.0,
        help="how long the agent may take to answer (default: 30)",
    )
    parser.add_argument("--json", metavar="FILE", type=_report_file, help="write a report in JSON")


def _command(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no command line: {error}") from None
    if not words:
        raise argparse.ArgumentTypeError("the command line is empty")
    return words


def _option(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not OPTION=VALUE")
    return name, value


def _directory(text: str) -> str:
    if not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a directory")
    return os.path.abspath(text)


def _report_file(text: str) -> str:
    # Before minutes of work whose result would be lost.
    if os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"{text!r} is a directory; name a file in it")
    if not os.path.isdir(os.path.dirname(os.path.abspath(text))):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written: there is no such directory")
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


# Commands ------------------------------------------------------------------------------------------------


def _prompt(arguments: argparse.Namespace, trouble: _Trouble) -> int:
    settings = PromptSettings(
        command=arguments.agent or demo_command(),
        cwd=arguments.cwd,
        text=arguments.text,
        policy=arguments.permission,
        startup_timeout=arguments.startup_timeout,
        files=arguments.files,
        terminal=arguments.terminal,
        resume=arguments.resume,
        mode=arguments.mode,
        options=arguments.set,
    )
    display = JsonLines(sys.stdout) if arguments.json else Screen(_output(sys.stdout, trouble))

    async def run() -> int:
        return await run_prompt(settings, display, trouble.tell)

    return _run(run, trouble, settings.command, display)


def _inspect(arguments: argparse.Namespace, trouble: _Trouble) -> int:
    async def run() -> int:
        await run_inspect(arguments.agent, arguments.cwd, arguments.startup_timeout, sys.stdout)
        sys.stdout.flush()
        return OK

    return _run(run, trouble, arguments.agent, None)


def _sessions(arguments: argparse.Namespace, trouble: _Trouble) -> int:
    async def run() -> int:
        await run_sessions(
            arguments.agent,
            arguments.cwd,
            arguments.startup_timeout,
            sys.stdout,
            here=arguments.here,
            delete=arguments.delete,
        )
        sys.stdout.flush()
        return OK

    return _run(run, trouble, arguments.agent, None)


def _check(arguments: argparse.Namespace, trouble: _Trouble) -> int:
    # Not needed by the other commands, and not cheap.
    from trio_acp.testing.conformance import Prompts

    from ._check import CheckSettings, choose_checks, list_checks, run_check

    parser: argparse.ArgumentParser = arguments.parser
    try:
        checks = choose_checks(arguments.only)
    except ValueError as error:
        parser.error(str(error))
    if arguments.list:
        list_checks(checks, sys.stdout)
        return OK
    if arguments.agent is None:
        parser.error("the following arguments are required: --agent")
    prompts = Prompts(
        hello=arguments.prompt,
        slow=arguments.prompt_slow,
        write=arguments.prompt_write,
        written=arguments.written,
        command=arguments.prompt_command,
        read=arguments.prompt_read,
        elicit=arguments.prompt_form,
        link=arguments.prompt_link,
        login=arguments.login,
    )
    settings = CheckSettings(
        _from_here(arguments.agent),
        prompts,
        checks,
        arguments.cwd,
        arguments.patience,
        arguments.strict,
        arguments.json,
    )

    async def run() -> int:
        return OK if await run_check(settings, sys.stdout) else FAILED

    return _run_till_terminated(run, trouble, settings.command)


def _fuzz(arguments: argparse.Namespace, trouble: _Trouble) -> int:
    from ._fuzz import FuzzSettings, run_fuzz

    settings = FuzzSettings(
        _from_here(arguments.agent),
        arguments.cwd,
        arguments.prompt,
        arguments.patience,
        arguments.json,
        seed=secrets.randbelow(2**31) if arguments.seed is None else arguments.seed,
        duration=arguments.seconds,
        failure=arguments.failure,
        replay=arguments.replay,
        ignore=arguments.ignore,
    )

    async def run() -> int:
        return OK if await run_fuzz(settings, sys.stdout) else FAILED

    return _run_till_terminated(run, trouble, settings.command)


def _run_till_terminated(
    function: Callable[[], Coroutine[Any, Any, int]], trouble: _Trouble, command: Sequence[str]
) -> int:
    """Run a trial; SIGTERM, by which continuous integration ends what takes too long, is a Ctrl-C.

    Or agents would be left that do not end with their input.
    """

    def interrupt(number: int, frame: object) -> None:
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        return _run(function, trouble, command, None)
    finally:
        signal.signal(signal.SIGTERM, before)


def _from_here(words: Sequence[str]) -> list[str]:
    """Make the names of files in a command absolute: it is run in another directory."""
    program, *rest = words
    found = [os.path.abspath(word) if os.path.isfile(word) else word for word in rest]
    return [os.path.abspath(program) if os.path.dirname(program) else program, *found]


def demo_command() -> list[str]:
    """Return the command line of the demo agent."""
    root = str(Path(__file__).parents[2])
    return [sys.executable, "-P", "-c", DEMO, root]


# Where it goes, and what becomes of errors ---------------------------------------------------------------


def _output(stream: TextIO, trouble: _Trouble) -> PlainOutput | RichOutput:
    """Choose how to write: in colours to a terminal, plain to all else."""
    to_terminal = stream.isatty()
    if to_terminal and os.environ.get("TERM") != "dumb":
        try:
            from ._rich import RichOutput
        except ModuleNotFoundError:
            trouble.tell("no colours without rich; to have them, pip install 'trio-acp[cli]'")
        else:
            return RichOutput(stream)
    return PlainOutput(stream, to_terminal=to_terminal)


def _run(
    function: Callable[[], Coroutine[Any, Any, int]],
    trouble: _Trouble,
    command: Sequence[str],
    display: Display | None,
) -> int:
    """Run the command under Trio, tell what went wrong, and return its exit status."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        # What cannot be encoded is no reason to fail.
        reconfigure(errors="replace")
    try:
        return _run_and_tell(function, trouble, command, display)
    except OSError:
        # Nobody takes what is written to stdout, and all that there is to tell on stderr has been told.
        _give_up_stdout()
        return FAILED


def _run_and_tell(
    function: Callable[[], Coroutine[Any, Any, int]],
    trouble: _Trouble,
    command: Sequence[str],
    display: Display | None,
) -> int:
    try:
        return trio.run(function)
    except BrokenPipeError:
        raise  # whoever read has seen enough: that needs no words
    except KeyboardInterrupt as error:
        if display is not None:
            display.failed(error, "interrupted")
        raise
    except Exception as error:
        leaf = _leaf(error)
        message = _explain(leaf, command)
        try:
            if display is not None:
                display.failed(leaf, message)
        finally:
            trouble.tell(message)
        return FAILED
    except BaseExceptionGroup as error:
        # What is no error comes out of a nursery in a group: it is the Ctrl-C.
        raise KeyboardInterrupt from error
    finally:
        if display is not None:
            display.close()


def _leaf(error: Exception) -> Exception:
    """Return the first error of a group: one is enough to know what to do."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error


def _explain(error: Exception, command: Sequence[str]) -> str:
    if isinstance(error, AuthRequired):
        # What the agent said, without what a program could do about it.
        said = error.__cause__ if isinstance(error.__cause__, AuthRequired) else error
        return (
            f"{said}\nlog in with the agent's own program first; "
            f"`trio-acp inspect --agent {shlex.quote(shlex.join(command))}` shows how"
        )
    if isinstance(error, AcpError):
        return str(error)
    if isinstance(error, OSError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _give_up_stdout() -> None:
    """Nobody reads any more: let the interpreter's last flush go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    finally:
        os.close(nowhere)


class _Trouble(logging.Handler):
    """Tells on stderr, in single messages, what is wrong; takes the library's warnings as well.

    Args:
        stream: where to.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(logging.WARNING)
        self._stream = stream
        self._warnings = 0

    def tell(self, message: str) -> None:
        """Write a message."""
        self._stream.write(f"trio-acp: {clean(message)}\n")
        self._stream.flush()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a warning of the library, if there were not too many already."""
        self._warnings += 1
        if self._warnings <= MAX_WARNINGS:
            self.tell(one_line(f"warning: {record.getMessage()}"))

    def sum_up(self) -> None:
        """Tell how many warnings were left out."""
        more = self._warnings - MAX_WARNINGS
        if more > 0:
            self.tell(f"and {plural(more, 'more warning')}")
