"""What a prompt handler works with: `PromptContext`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, final

import trio

from trio_acp._errors import RequestError
from trio_acp.schema import (
    Content,
    ContentBlock,
    CreateElicitationFormRequest,
    CreateElicitationUrlRequest,
    ElicitationAcceptAction,
    ElicitationContentValue,
    ElicitationPropertySchema,
    ElicitationSchema,
    PermissionOption,
    ReadTextFileRequest,
    TextContent,
    ToolCallContent,
    ToolCallLocation,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
    WriteTextFileRequest,
)

from ._asking import ask, check_answers, choice_options, decide_permission
from ._terminals import (
    DEFAULT_OUTPUT_BYTE_LIMIT,
    CommandResult,
    TerminalHandle,
    build_request,
    run_command,
)
from ._tool_calls import ToolCallContext
from ._updates import Emitter, UpdateSender

if TYPE_CHECKING:
    from ._client import ConnectedClient
    from ._sessions import AgentSession
    from ._turns import Turn

__all__ = ["PromptContext"]

NOT_FOUND_CODES: Final = (-32002, -32001)
"""What clients answer when a file is not there: the protocol's code, and one that is often taken for it."""

NOT_FOUND_WORDS: Final = ("not found", "no such file", "enoent", "does not exist")
"""What clients say in errors with other codes when they mean that a file is not there."""


@final
class PromptContext(UpdateSender):
    """One turn of a session: the prompt, and everything that can be told and asked while it is answered.

    Its methods may be used from several tasks of the handler's at a time. All of them are cancelled when the
    client cancels the turn; requests that wait for the client are then withdrawn (X5). When the turn has
    been answered they raise `trio_acp.LocalProtocolError`.
    """

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._live = turn.live
        self._emitter: Emitter = turn.emitter

    # What the turn is about --------------------------------------------------------------------------

    @property
    def client(self) -> ConnectedClient:
        """The client, with all of its methods in full."""
        return self._live.client

    @property
    def session(self) -> AgentSession[Any]:
        """The session that the turn belongs to."""
        return self._turn.session

    @property
    def cwd(self) -> str:
        """The session's working directory, absolute."""
        return self._live.cwd

    @property
    def prompt(self) -> list[ContentBlock]:
        """What the user said, block by block."""
        return self._turn.request.prompt

    @property
    def text(self) -> str:
        """The text of what the user said; blocks of other kinds are left out."""
        return "\n".join(block.text for block in self.prompt if isinstance(block, TextContent))

    @property
    def meta(self) -> dict[str, Any] | None:
        """The ``_meta`` of the prompt (W7)."""
        return self._turn.request.meta

    @property
    def cancel_requested(self) -> bool:
        """The client has cancelled the turn: the next checkpoint that is not shielded raises."""
        return self._turn.cancel_requested

    # Tool calls (T4) ---------------------------------------------------------------------------------

    def tool_call(
        self,
        title: str,
        *,
        kind: ToolKind | str = ToolKind.OTHER,
        content: Sequence[ToolCallContent | str] = (),
        locations: Sequence[ToolCallLocation | str] = (),
        raw_input: Any = None,
        name: str | None = None,
        start: bool = True,
    ) -> ToolCallContext:
        """Return a tool call, for an ``async with`` block that does what it says.

        Args:
            title: what it does, for people.
            kind: what sort of thing it does.
            content: what there is to show from the beginning; a string is text.
            locations: files that it touches; a string is a path, a relative one starts at the session's
                directory.
            raw_input: what the tool is given, JSON values.
            name: the tool's programmatic name.
            start: go on to ``in_progress`` at once; if not, `ToolCallContext.start` does, or a
                permission that is granted.
        """
        return ToolCallContext(
            self._emitter,
            title,
            kind=kind,
            content=[Content(TextContent(each)) if isinstance(each, str) else each for each in content],
            locations=[
                ToolCallLocation(self._live.resolve(each)) if isinstance(each, str) else each
                for each in locations
            ],
            raw_input=raw_input,
            name=name,
            start=start,
        )

    # Files (F1) --------------------------------------------------------------------------------------

    async def read_file(
        self, path: str | os.PathLike[str], *, line: int | None = None, limit: int | None = None
    ) -> str:
        """Return the text of a file of the client's, its line ends as they are.

        Args:
            path: the file; a relative path starts at the session's directory.
            line: the first line to read, counted from 1.
            limit: how many lines to read at most.

        Raises:
            CapabilityError: the client does not offer ``fs.readTextFile``; nothing was sent.
            ResourceNotFound: there is no such file.
            RequestError: the client refused for another reason.
            ValueError: ``line`` is less than 1, or ``limit`` negative.
        """
        if line is not None and line < 1:
            raise ValueError("lines are counted from 1")
        if limit is not None and limit < 0:
            raise ValueError("limit must not be negative")
        self._emitter.check_open()
        request = ReadTextFileRequest(self._live.id, self._live.resolve(path), line, limit)
        return (await self.client.read_text_file(request)).content

    async def try_read_file(
        self, path: str | os.PathLike[str], *, line: int | None = None, limit: int | None = None
    ) -> str | None:
        """Return the text of a file as `read_file` does, or None if there is no such file.

        Args:
            path: the file; a relative path starts at the session's directory.
            line: the first line to read, counted from 1.
            limit: how many lines to read at most.

        Raises:
            CapabilityError, RequestError, ValueError: as for `read_file`, but for a file that is not there.
        """
        try:
            return await self.read_file(path, line=line, limit=limit)
        except RequestError as error:
            if says_not_found(error):
                return None
            raise

    async def write_file(self, path: str | os.PathLike[str], content: str) -> None:
        """Write a file of the client's; it is made if it is not there.

        Args:
            path: the file; a relative path starts at the session's directory.
            content: its whole new text.

        Raises:
            CapabilityError: the client does not offer ``fs.writeTextFile``; nothing was sent.
            RequestError: the client refused.
        """
        self._emitter.check_open()
        await self.client.write_text_file(
            WriteTextFileRequest(self._live.id, self._live.resolve(path), content)
        )

    # Commands (F2 to F4) -----------------------------------------------------------------------------

    def terminal(
        self,
        *argv: str,
        shell: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        output_byte_limit: int | None = DEFAULT_OUTPUT_BYTE_LIMIT,
    ) -> TerminalHandle:
        """Return a terminal of the client's, for an ``async with`` block in which its command runs.

        Args:
            argv: the program and its arguments, as they are.
            shell: a line for ``/bin/sh`` instead.
            cwd: where it runs; a relative path starts at the session's directory, which is the default.
            env: variables to set for it.
            output_byte_limit: bytes of output that are kept, the newest; None for no limit.

        Raises:
            CapabilityError: on entering, if the client does not offer ``terminal``; nothing was sent.
            ValueError: neither ``argv`` nor ``shell``, or both.
        """
        self._emitter.check_open()
        request = build_request(
            self._live, argv, shell=shell, cwd=cwd, env=env, output_byte_limit=output_byte_limit
        )
        return TerminalHandle(self._live, request)

    async def execute(
        self,
        *argv: str,
        shell: str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        output_byte_limit: int | None = DEFAULT_OUTPUT_BYTE_LIMIT,
        timeout: float | None = None,  # noqa: ASYNC109 - kills and reads: more than a scope can
    ) -> CommandResult:
        """Run a command in a terminal of the client's to its end, and return what it did.

        The terminal is released on every path, once.

        Args:
            argv: the program and its arguments, as they are.
            shell: a line for ``/bin/sh`` instead.
            cwd: where it runs; a relative path starts at the session's directory, which is the default.
            env: variables to set for it.
            output_byte_limit: bytes of output that are kept, the newest; None for no limit.
            timeout: seconds after which the command is killed; what it wrote until then is the result.

        Raises:
            CapabilityError: the client does not offer ``terminal``; nothing was sent.
            RequestError: the client could not run it.
            ValueError: neither ``argv`` nor ``shell``, or both.
        """
        handle = self.terminal(*argv, shell=shell, cwd=cwd, env=env, output_byte_limit=output_byte_limit)
        return await run_command(handle, timeout)

    # Questions (P1, E1) ------------------------------------------------------------------------------

    async def ask_permission(
        self,
        action: str,
        *,
        kind: ToolKind | str = ToolKind.OTHER,
        options: Sequence[PermissionOption] | None = None,
        remember: str | None = None,
    ) -> bool:
        """Ask the user whether something may be done; it is shown as a tool call of its own.

        Args:
            action: what is to be done, for people.
            kind: what sort of thing that is.
            options: what is offered; None for "allow" and "reject". Only an option of a kind that allows is
                consent.
            remember: offer "always" too, and do not ask again about this word in this session once
                the user has chosen that.

        Returns:
            Whether the user consented. A refusal, a cancelled question and an option of unknown kind are
            none.

        Raises:
            InternalError: the client answered with an option that was not offered.
            ValueError: no options, or two with the same id.
        """
        if remember is not None and remember in self._live.remembered:
            await trio.lowlevel.checkpoint()
            return self._live.remembered[remember]
        async with self.tool_call(action, kind=kind, start=False) as call:
            subject = ToolCallUpdate(call.id, title=action, kind=kind, status=ToolCallStatus.PENDING)
            decision = await decide_permission(self._live, subject, options=options, remember=remember)
            if decision.cancelled:
                await call.fail()
            return decision.allowed

    async def ask_choice(self, question: str, *choices: str) -> str | None:
        """Let the user choose; it is shown as a tool call of its own.

        The question travels as a permission request, which every client has, so the words must not make
        consent out of it: ask with `ask_permission` before anything is done.

        Args:
            question: what is asked, for people.
            choices: what there is to choose from.

        Returns:
            What was chosen, or None if the question was cancelled.

        Raises:
            InternalError: the client answered with something that was not offered.
            ValueError: nothing to choose from.
        """
        options = choice_options(choices)
        async with self.tool_call(question, start=False) as call:
            subject = ToolCallUpdate(
                call.id, title=question, kind=ToolKind.OTHER, status=ToolCallStatus.PENDING
            )
            chosen = await ask(self._live, subject, options)
            if chosen is None:
                await call.fail()
                return None
            return chosen.name

    async def elicit(
        self,
        message: str,
        properties: Mapping[str, ElicitationPropertySchema] | ElicitationSchema,
        *,
        required: Sequence[str] | None = None,
        tool_call: ToolCallContext | None = None,
    ) -> dict[str, ElicitationContentValue] | None:
        """Let the user fill in a form (``elicitation/create``, E1, E2).

        Never for passwords and the like: those belong at a URL, see `elicit_url`.

        Args:
            message: what is asked, for people.
            properties: the fields by name, or the whole form.
            required: names of the fields that have to be filled in; None for all. Not with a whole form.
            tool_call: the tool call that this belongs to.

        Returns:
            What was filled in, checked against the form; None if the user declined or did not choose.

        Raises:
            CapabilityError: the client does not offer ``elicitation.form``; nothing was sent.
            InvalidResponse: what was filled in does not fit the form.
        """
        if isinstance(properties, ElicitationSchema):
            schema = properties
        else:
            names = list(properties) if required is None else list(required)
            schema = ElicitationSchema(properties=dict(properties), required=names)
        self._emitter.check_open()
        response = await self.client.create_elicitation(
            CreateElicitationFormRequest(
                message,
                schema,
                session_id=self._live.id,
                tool_call_id=None if tool_call is None else tool_call.id,
            )
        )
        if isinstance(response, ElicitationAcceptAction):
            return check_answers(schema, response.content or {})
        return None

    async def elicit_url(self, message: str, url: str, *, elicitation_id: str | None = None) -> bool:
        """Ask the user to go to a URL (``elicitation/create``, E3).

        Consent to open it says nothing about what happens there; when that is over, tell the client with
        `ConnectedClient.complete_elicitation`.

        Args:
            message: what for, for people.
            url: where to; no credentials in it.
            elicitation_id: names it to the client, and later in ``complete_elicitation``; None for a new
                id, where no end will be told.

        Returns:
            Whether the user agreed to open it.

        Raises:
            CapabilityError: the client does not offer ``elicitation.url``; nothing was sent.
        """
        self._emitter.check_open()
        response = await self.client.create_elicitation(
            CreateElicitationUrlRequest(
                message,
                self._live.new_id("elicitation") if elicitation_id is None else elicitation_id,
                url,
                session_id=self._live.id,
            )
        )
        return isinstance(response, ElicitationAcceptAction)


def says_not_found(error: RequestError) -> bool:
    """Tell whether an error of a client's means that a file is not there; the code alone does not always
    say."""
    if error.code in NOT_FOUND_CODES:
        return True
    words = f"{error.message} {error.data}".lower()
    return any(word in words for word in NOT_FOUND_WORDS)
