"""Modes, models and config options: three ways to say the same, kept in step (S7, I6)."""

from __future__ import annotations

from typing import Any

import pytest
import trio.testing

from tests.client._scripted import Scene, Wire, notice
from trio_acp import LocalProtocolError, RequestError, Session
from trio_acp.client import ModelChoice
from trio_acp.schema import SessionConfigSelect

MODES = {
    "currentModeId": "ask",
    "availableModes": [
        {"id": "ask", "name": "Ask"},
        {"id": "code", "name": "Code"},
        {"id": "odd", "name": "Odd"},
    ],
}
MODELS = {
    "currentModelId": "small",
    "availableModels": [
        {"modelId": "small", "name": "Small", "description": "quick"},
        {"modelId": "large"},
        {"name": "nameless"},
        "nonsense",
    ],
}


def select(id: str, category: str, current: str, *values: str) -> dict[str, Any]:
    return {
        "id": id,
        "name": id.title(),
        "type": "select",
        "category": category,
        "currentValue": current,
        "options": [{"value": value, "name": value.title()} for value in values],
    }


MODE = select("m", "mode", "ask", "ask", "code")
MODEL = select("l", "model", "small", "small", "large")
OTHER = select("o", "thought_level", "low", "low", "high")
FLAG = {"id": "f", "name": "F", "type": "boolean", "currentValue": False, "category": "mode"}


def values(session: Session) -> dict[str, Any]:
    return {
        option.id: option.current_value
        for option in session.state.config_options
        if isinstance(option, SessionConfigSelect)
    }


def current(session: Session) -> tuple[Any, Any]:
    modes, models = session.state.modes, session.state.models
    return modes and modes.current_mode_id, models and models.current_model_id


async def test_config_options_win_over_modes_and_models(autojump_clock: trio.testing.MockClock) -> None:
    """S7, I6: the option of the category is set, and all three say so."""

    async def script(wire: Wire) -> None:
        await wire.new_session(modes=MODES, models=MODELS, configOptions=[FLAG, MODE, MODEL, OTHER])
        request = await wire.expect("session/set_config_option", configId="m", value="code")
        changed = [FLAG, {**MODE, "currentValue": "code"}, MODEL, OTHER]
        await wire.result(request, {"configOptions": changed})
        request = await wire.expect("session/set_config_option", configId="l", value="large")
        changed = [FLAG, {**MODE, "currentValue": "code"}, {**MODEL, "currentValue": "large"}, OTHER]
        await wire.result(request, {"configOptions": changed})
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        await session.set_mode("code")
        assert (current(session), values(session)["m"]) == (("code", "small"), "code")
        await session.set_model("large")
        assert (current(session), values(session)["l"]) == (("code", "large"), "large")
        # The mode "odd" is in the modes only, and the option is what counts.
        with pytest.raises(LocalProtocolError, match=r"no mode 'odd'; it has \['ask', 'code'\]"):
            await session.set_mode("odd")
        with pytest.raises(LocalProtocolError, match="no model 'huge'"):
            await session.set_model("huge")


async def test_modes_and_models_are_set_in_the_old_way_where_there_are_no_options(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session(modes=MODES, models=MODELS, configOptions=[OTHER])
        await wire.result(await wire.expect("session/set_mode", sessionId="s1", modeId="code"), {})
        await wire.result(await wire.expect("session/set_model", sessionId="s1", modelId="large"), {})
        await wire.error(await wire.expect("session/set_model"), -32601)
        await wire.new_session("s2")
        await wire.quiet()

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        models = session.state.models
        assert models is not None
        assert models.available_models == [
            ModelChoice("small", "Small", "quick"),
            ModelChoice("large", "large"),
        ]
        await session.set_mode("code")
        await session.set_model("large")
        assert current(session) == ("code", "large")
        with pytest.raises(RequestError):
            await session.set_model("small")
        assert current(session) == ("code", "large")
        with pytest.raises(LocalProtocolError, match="no model 'huge'"):
            await session.set_model("huge")
        bare = await agent.new_session()
        with pytest.raises(LocalProtocolError, match="none"):
            await bare.set_model("small")


async def test_what_one_of_them_tells_holds_for_the_others(autojump_clock: trio.testing.MockClock) -> None:
    """I6: a mode update changes the option of that category, and an option update the mode and the model."""

    async def script(wire: Wire) -> None:
        await wire.new_session(
            modes=MODES, models=MODELS, configOptions=[FLAG, {**MODE, "currentValue": "code"}, MODEL]
        )
        await step.wait()
        for mode in ("ask", "ask", "odd"):
            await wire.update("current_mode_update", currentModeId=mode)
        await next_step.wait()
        await wire.update(
            "config_option_update",
            configOptions=[{**MODE, "currentValue": "code"}, {**MODEL, "currentValue": "large"}],
        )
        await wire.update("config_option_update", configOptions=[select("m", "mode", "new", "new")])

    step, next_step = trio.Event(), trio.Event()
    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        # Where they differ from the beginning, the options are right.
        assert (current(session), values(session)) == (("code", "small"), {"m": "code", "l": "small"})
        updates = session.updates()
        before = session.state.config_options
        step.set()
        for _ in range(3):
            await anext(updates)
        # "odd" is none of the option's values.
        assert (current(session), values(session)) == (("odd", "small"), {"m": "ask", "l": "small"})
        # What the application may hold has not changed under it.
        assert before is not session.state.config_options
        next_step.set()
        told: Any = await anext(updates)
        assert (current(session)[1], told.config_options[1].current_value) == ("large", "large")
        await anext(updates)
        assert (current(session), values(session)) == (("code", "large"), {"m": "new"})


async def test_a_model_set_in_the_old_way_is_seen_by_an_option_that_comes_later(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session(models=MODELS)
        request = await wire.expect("session/set_model")
        await wire.burst(
            notice("s1", {"sessionUpdate": "config_option_update", "configOptions": [MODEL]}),
            wire.result_of(request, {}),
        )

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        await session.set_model("large")
        assert (current(session), values(session)) == ((None, "large"), {"l": "large"})


@pytest.mark.parametrize(
    "models",
    [
        5,
        None,
        {"currentModelId": 5, "availableModels": []},
        {"currentModelId": "x", "availableModels": {}},
        {"currentModelId": "x"},
    ],
)
async def test_models_that_do_not_fit_are_none(autojump_clock: trio.testing.MockClock, models: Any) -> None:
    async def script(wire: Wire) -> None:
        await wire.new_session(models=models)

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        assert session.state.models is None


async def test_the_answer_that_makes_a_session_does_not_overrule_updates_before_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """S4"""

    async def script(wire: Wire) -> None:
        new = await wire.expect("session/new")
        await wire.update("current_mode_update", currentModeId="code")
        await wire.update("config_option_update", configOptions=[OTHER])
        await wire.result(new, {"sessionId": "s1", "modes": MODES, "configOptions": [MODE], "models": MODELS})
        load = await wire.expect("session/load")
        await wire.result(load, {"modes": MODES, "configOptions": [], "models": MODELS})

    async with Scene(script) as (agent, _wire):
        session = await agent.new_session()
        assert (current(session), values(session)) == (("code", "small"), {"o": "low"})
        await agent.load_session("s1")
        assert (current(session), values(session)) == (("ask", "small"), {})
