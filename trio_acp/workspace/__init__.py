"""Ready-made services for a host: files, terminals, permission policies, forms and addresses to open."""

from ._addresses import AskToOpen as AskToOpen
from ._addresses import UrlQuestion as UrlQuestion
from ._addresses import UrlWarning as UrlWarning
from ._addresses import inspect_url as inspect_url
from ._addresses import open_in_browser as open_in_browser
from ._addresses import url_handler as url_handler
from ._files import Codec as Codec
from ._files import Overlay as Overlay
from ._files import Utf8 as Utf8
from ._files import Workspace as Workspace
from ._files import cut_lines as cut_lines
from ._forms import FillForm as FillForm
from ._forms import FormProblem as FormProblem
from ._forms import check_form as check_form
from ._forms import form_defaults as form_defaults
from ._forms import form_handler as form_handler
from ._manager import CommandLinePolicy as CommandLinePolicy
from ._manager import TerminalManager as TerminalManager
from ._manager import in_shell as in_shell
from ._manager import split_words as split_words
from ._policies import READING_KINDS as READING_KINDS
from ._policies import PermissionPolicy as PermissionPolicy
from ._policies import Remember as Remember
from ._policies import allow_once as allow_once
from ._policies import ask as ask
from ._policies import attended as attended
from ._policies import decide_by as decide_by
from ._policies import first_of as first_of
from ._policies import on_kinds as on_kinds
from ._policies import on_title as on_title
from ._policies import plan_mode as plan_mode
from ._policies import read_only as read_only
from ._policies import reject as reject
from ._policies import unattended as unattended
from ._policies import under as under
from ._policies import what_was_asked as what_was_asked
from ._terminal import Terminal as Terminal

__all__ = [
    "READING_KINDS",
    "AskToOpen",
    "Codec",
    "CommandLinePolicy",
    "FillForm",
    "FormProblem",
    "Overlay",
    "PermissionPolicy",
    "Remember",
    "Terminal",
    "TerminalManager",
    "UrlQuestion",
    "UrlWarning",
    "Utf8",
    "Workspace",
    "allow_once",
    "ask",
    "attended",
    "check_form",
    "cut_lines",
    "decide_by",
    "first_of",
    "form_defaults",
    "form_handler",
    "in_shell",
    "inspect_url",
    "on_kinds",
    "on_title",
    "open_in_browser",
    "plan_mode",
    "read_only",
    "reject",
    "split_words",
    "unattended",
    "under",
    "url_handler",
    "what_was_asked",
]
