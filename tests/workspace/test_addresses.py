"""Addresses to open: shown whole, judged, opened on consent only (E3)."""

from __future__ import annotations

import webbrowser
from typing import Any

import pytest
import trio

from trio_acp import InternalError, InvalidParams
from trio_acp.schema import (
    CreateElicitationUrlRequest,
    ElicitationAcceptAction,
    ElicitationCancelAction,
    ElicitationDeclineAction,
)
from trio_acp.workspace import UrlQuestion, _addresses, inspect_url, open_in_browser, url_handler


def request(url: str) -> CreateElicitationUrlRequest:
    return CreateElicitationUrlRequest("Sign in", "e1", url, session_id="s1")


@pytest.mark.parametrize(
    ("url", "host", "codes"),
    [
        ("https://login.example/path?x=1#y", "login.example", []),
        ("HTTPS://Login.Example", "login.example", []),
        ("https://login.example:8443/", "login.example", []),
        ("http://login.example/", "login.example", ["not-https"]),
        ("https://xn--exmple-cua.example/", "xn--exmple-cua.example", ["punycode"]),
        ("https://sub.XN--exmple-cua.example/", "sub.xn--exmple-cua.example", ["punycode"]),
        ("https://аpple.example/", "xn--pple-43d.example", ["not-ascii", "punycode"]),
        ("https://good.example@evil.example/", "evil.example", ["user-info"]),
        ("https://user:secret@evil.example/", "evil.example", ["user-info"]),
        ("https://10.0.0.1/", "10.0.0.1", ["ip-address"]),
        ("http://[::1]:80/", "::1", ["not-https", "ip-address"]),
    ],
)
def test_an_address_tells_its_host_and_what_is_odd_about_it(url: str, host: str, codes: list[str]) -> None:
    found, warnings = inspect_url(url)
    assert found == host
    assert [warning.code for warning in warnings] == codes
    assert all(warning.message for warning in warnings)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "login.example",
        "//login.example",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "https:///path",
        "https://",
        "https://[::1",
        "https://a.example:99999999/",
        "https://a.example:port/",
        "https://a.example/ b",
        "https://a.example\\@evil.example/",
        "https://a.example/\u202egpj",
        "https://a.example/\u200b",
        "https://a.example/\n",
        "https://a.example/\x00",
        "https://é..example/",
        "https://" + "é" * 70 + ".example/",
        "https://a.example/" + "x" * 9000,
    ],
)
async def test_what_is_no_address_of_a_web_page_is_refused_and_shown_to_nobody(url: str) -> None:
    async def never(question: Any) -> bool:
        raise AssertionError("shown")

    with pytest.raises(InvalidParams, match="url: "):
        await url_handler(never, never)(request(url))


class Browser:
    def __init__(self) -> None:
        self.opened: list[str] = []

    async def open(self, url: str) -> None:
        self.opened.append(url)


async def test_an_address_is_shown_whole_and_opened_when_a_person_agrees() -> None:
    browser, questions = Browser(), list[UrlQuestion]()
    asked = request("http://login.example/very/long?token=1#x")

    async def agree(question: UrlQuestion) -> bool:
        questions.append(question)
        assert browser.opened == []
        return True

    answer = await url_handler(agree, browser.open)(asked)
    assert isinstance(answer, ElicitationAcceptAction)
    assert answer.content is None
    (question,) = questions
    assert (question.url, question.host, question.message) == (asked.url, "login.example", "Sign in")
    assert question.request is asked
    assert [warning.code for warning in question.warnings] == ["not-https"]
    assert browser.opened == [asked.url]


@pytest.mark.parametrize(
    ("said", "action"),
    [
        (False, ElicitationDeclineAction),
        (ElicitationDeclineAction(), ElicitationDeclineAction),
        (ElicitationCancelAction(), ElicitationCancelAction),
        (None, ElicitationDeclineAction),
        ("yes", ElicitationDeclineAction),
    ],
)
async def test_without_a_clear_yes_nothing_is_opened(said: Any, action: type) -> None:
    browser = Browser()

    async def say(question: UrlQuestion) -> Any:
        return said

    assert type(await url_handler(say, browser.open)(request("https://a.example"))) is action
    assert browser.opened == []


async def test_a_yes_that_comes_when_the_question_is_gone_opens_nothing() -> None:
    """Stale answers are fenced."""
    browser = Browser()

    async def late(question: UrlQuestion) -> bool:
        with trio.CancelScope(shield=True):
            scope.cancel()
            await trio.lowlevel.checkpoint()
        return True

    with trio.CancelScope() as scope:
        await url_handler(late, browser.open)(request("https://a.example"))
    assert scope.cancelled_caught
    assert browser.opened == []


async def test_the_browser_of_the_user_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    works = True

    def start(url: str) -> bool:
        opened.append(url)
        return works

    async def agree(question: UrlQuestion) -> bool:
        return True

    monkeypatch.setattr(webbrowser, "open", start)
    await url_handler(agree)(request("https://a.example"))
    assert opened == ["https://a.example"]
    works = False
    with pytest.raises(InternalError, match="no web browser"):
        await open_in_browser("https://b.example")
    assert _addresses.MAX_URL == 8192
