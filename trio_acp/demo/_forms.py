"""Questions to the user that are not about permission."""

from __future__ import annotations

from trio_acp import AcpError
from trio_acp.agent import PromptContext
from trio_acp.schema import (
    BooleanPropertySchema,
    ElicitationPropertySchema,
    IntegerPropertySchema,
    StringPropertySchema,
)

__all__ = ["choose", "fill_in_form"]


async def choose(ctx: PromptContext) -> str:
    """Let the user choose something, and return what there is to say about it."""
    choice = await ctx.ask_choice("Which format?", "JSON", "XML", "YAML")
    return "You did not choose anything." if choice is None else f"You chose {choice}."


async def fill_in_form(ctx: PromptContext) -> str:
    """Let the user fill in a form, and return what there is to say about it."""
    if not ctx.client.offers("elicitation.form"):
        return "Your client does not show forms."
    fields: dict[str, ElicitationPropertySchema] = {
        "name": StringPropertySchema("Name", "what to call you", min_length=1, max_length=50),
        "format": StringPropertySchema("Format", enum=["JSON", "XML", "YAML"], default="JSON"),
        "copies": IntegerPropertySchema("Copies", minimum=1, maximum=9, default=1),
        "urgent": BooleanPropertySchema("Urgent", default=False),
    }
    async with ctx.tool_call("Ask for the details") as call:
        try:
            answers = await ctx.elicit("Tell me the details", fields, required=["name"], tool_call=call)
        except AcpError as error:
            await call.fail(str(error))
            return f"The form did not work: {error}."
        if answers is None:
            await call.fail("declined")
            return "You did not fill in the form."
    return "You filled in:\n\n" + "\n".join(f"- {name}: {answer}" for name, answer in answers.items())
