"""Addresses that an agent asks to be opened: shown whole, judged, and opened on consent only (E3)."""

from __future__ import annotations

import ipaddress
import unicodedata
import webbrowser
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import attrs
import trio

from trio_acp._errors import InternalError, InvalidParams
from trio_acp.client import ElicitUrlHandler
from trio_acp.schema import (
    CreateElicitationResponse,
    CreateElicitationUrlRequest,
    ElicitationAcceptAction,
    ElicitationCancelAction,
    ElicitationDeclineAction,
)

__all__ = [
    "MAX_URL",
    "AskToOpen",
    "UrlQuestion",
    "UrlWarning",
    "inspect_url",
    "open_in_browser",
    "url_handler",
]

MAX_URL: Final = 8192
"""Characters of an address: people cannot look through more, and browsers do not take much more."""


@attrs.frozen
class UrlWarning:
    """Something about an address that a person should know before it is opened.

    Attributes:
        code: a word for programs: ``"not-https"``, ``"punycode"``, ``"not-ascii"``, ``"user-info"`` or
            ``"ip-address"``.
        message: the same for people.
    """

    code: str
    message: str


@attrs.frozen
class UrlQuestion:
    """The question whether an address may be opened. Show all of it.

    Attributes:
        message: what for, in the agent's words.
        url: the whole address.
        host: the host that it leads to, as the network knows it.
        warnings: what is odd about it.
        request: the agent's request.
    """

    message: str
    url: str
    host: str
    warnings: Sequence[UrlWarning]
    request: CreateElicitationUrlRequest


AskToOpen: TypeAlias = Callable[
    [UrlQuestion], Awaitable["bool | ElicitationDeclineAction | ElicitationCancelAction"]
]
"""Asks a person whether an address may be opened: true for yes, false or a decline for no, a cancel for no
choice. Anything else counts as no."""


def url_handler(
    ask: AskToOpen, open_url: Callable[[str], Awaitable[object]] | None = None
) -> ElicitUrlHandler:
    """Make a handler for ``AcpOptions(elicit_url=…)`` that opens an address only if a person agrees.

    Cancellation: reaches ``ask``. When the question was withdrawn meanwhile, or its turn cancelled, nothing
    is opened, whatever the answer.

    Args:
        ask: asks the person.
        open_url: opens the address; by default `open_in_browser`. What it raises is answered as an error.

    Raises, in the handler:
        InvalidParams: it is no address of a web page. It was not shown to anybody.
    """
    open_it = open_in_browser if open_url is None else open_url

    async def handler(request: CreateElicitationUrlRequest) -> CreateElicitationResponse:
        host, warnings = inspect_url(request.url)
        answer = await ask(UrlQuestion(request.message, request.url, host, warnings, request))
        if isinstance(answer, (ElicitationDeclineAction, ElicitationCancelAction)):
            return answer
        if answer is not True:
            return ElicitationDeclineAction()
        # A stale answer ends here: shielded code or a thread may have brought it.
        await trio.lowlevel.checkpoint_if_cancelled()
        await open_it(request.url)
        return ElicitationAcceptAction()

    return handler


def inspect_url(url: str) -> tuple[str, Sequence[UrlWarning]]:
    """Return the host of a web address, as the network knows it, and what is odd about the address.

    Args:
        url: the address.

    Raises:
        InvalidParams: it is no address of a web page, too long, or has characters that are not shown.
    """
    if len(url) > MAX_URL:
        raise InvalidParams(f"url: longer than {MAX_URL} characters")
    # What cannot be seen, spaces included, can hide where an address leads.
    if any(unicodedata.category(character)[0] in "CZ" for character in url) or "\\" in url:
        raise InvalidParams("url: it has characters that addresses do not have")
    try:
        parts = urlsplit(url)
        shown, _ = parts.hostname, parts.port
    except ValueError:
        raise InvalidParams("url: it is malformed") from None
    if parts.scheme not in ("http", "https") or not shown:
        raise InvalidParams("url: only addresses of web pages, http and https, are opened")
    host, warnings = _host(shown)
    if parts.scheme != "https":
        warnings.insert(0, UrlWarning("not-https", "The connection is not encrypted."))
    if parts.username is not None:
        warnings.append(
            UrlWarning("user-info", f"What stands before the @ is not the host; it leads to {host}.")
        )
    return host, warnings


def _host(shown: str) -> tuple[str, list[UrlWarning]]:
    try:
        return str(ipaddress.ip_address(shown)), [
            UrlWarning("ip-address", "It leads to a number, not a name.")
        ]
    except ValueError:
        pass
    warnings: list[UrlWarning] = []
    host = shown
    if not shown.isascii():
        try:
            host = shown.encode("idna").decode("ascii")
        except UnicodeError:
            raise InvalidParams("url: its host is malformed") from None
        warnings.append(
            UrlWarning("not-ascii", f"The host has letters that can look like others; it is {host}.")
        )
    if any(label.startswith("xn--") for label in host.lower().split(".")):
        warnings.append(UrlWarning("punycode", f"The host {host} stands for a name in other letters."))
    return host, warnings


async def open_in_browser(url: str) -> None:
    """Open an address in the user's web browser.

    Args:
        url: the address.

    Raises:
        InternalError: there is no browser that could be started.
    """
    if not await trio.to_thread.run_sync(webbrowser.open, url, abandon_on_cancel=True):
        raise InternalError("url: no web browser could be started")
