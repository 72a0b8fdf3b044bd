"""Apps and stores for tests of sessions."""

from __future__ import annotations

from typing import Any

from tests.agent.scripted import agent
from trio_acp.agent import (
    AgentApp,
    AgentSession,
    PromptContext,
    SessionRecord,
)
from trio_acp.schema import (
    SessionConfigBoolean,
    SessionConfigSelect,
    SessionConfigSelectGroup,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)


async def echo(ctx: PromptContext) -> str:
    return f"you said {ctx.text}"


def modes() -> SessionModeState:
    return SessionModeState("ask", [SessionMode("ask", "Ask"), SessionMode("code", "Code")])


def options() -> list[Any]:
    return [
        SessionConfigSelect(
            "model",
            "Model",
            "small",
            [SessionConfigSelectOption("small", "S"), SessionConfigSelectOption("large", "L")],
        ),
        SessionConfigSelect(
            "mode",
            "Mode",
            "ask",
            [
                SessionConfigSelectGroup(
                    "g",
                    "G",
                    [SessionConfigSelectOption("ask", "A"), SessionConfigSelectOption("code", "C")],
                )
            ],
            category="mode",
        ),
        SessionConfigBoolean("loud", "Loud", False),
    ]


def with_choices(**kwargs: Any) -> AgentApp:
    """An app whose sessions have modes and options, however they are opened."""
    app = agent(echo, **kwargs)

    @app.on_new_session
    @app.on_load_session
    @app.on_resume_session
    async def opened(session: AgentSession[Any]) -> None:
        session.modes = modes()
        session.config_options = options()

    return app


class Store:
    """A store that keeps nothing; tests override what they need."""

    async def save(self, record: SessionRecord, updates: Any) -> None: ...

    async def load(self, session_id: str) -> Any: ...

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None) -> Any:
        return [], None

    async def delete(self, session_id: str) -> None: ...
