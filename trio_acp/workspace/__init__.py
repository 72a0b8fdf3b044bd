"""Ready-made services for a host: files, terminals, permission policies, forms and addresses to open."""

from ._files import Codec as Codec
from ._files import Overlay as Overlay
from ._files import Utf8 as Utf8
from ._files import Workspace as Workspace
from ._files import cut_lines as cut_lines
from ._manager import CommandLinePolicy as CommandLinePolicy
from ._manager import TerminalManager as TerminalManager
from ._manager import in_shell as in_shell
from ._manager import split_words as split_words
from ._terminal import Terminal as Terminal

__all__ = [
    "Codec",
    "CommandLinePolicy",
    "Overlay",
    "Terminal",
    "TerminalManager",
    "Utf8",
    "Workspace",
    "cut_lines",
    "in_shell",
    "split_words",
]
