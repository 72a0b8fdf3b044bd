"""What holds for everything that an agent writes, whatever a check is about."""

from __future__ import annotations

import json
import os
from typing import Any, Final, final

from trio_acp.schema import AGENT_METHODS, CLIENT_METHODS, SchemaError, structure

from ._model import Broken, is_object, look_up

__all__ = ["Watch"]

NEEDED: Final = {
    "fs/read_text_file": "fs.readTextFile",
    "fs/write_text_file": "fs.writeTextFile",
    "terminal/create": "terminal",
    "terminal/output": "terminal",
    "terminal/wait_for_exit": "terminal",
    "terminal/kill": "terminal",
    "terminal/release": "terminal",
    "elicitation/create": "elicitation",
}
"""What a client has to advertise before an agent may ask for it."""


@final
class Watch:
    """Keeps the rules that an agent has broken."""

    def __init__(self) -> None:
        self.offered: dict[str, Any] = {}
        """The client capabilities that were advertised."""
        self.complaints: list[str] = []
        self._ids: set[tuple[str, Any]] = set()

    def complain(self, rule: str, message: str) -> None:
        """Keep what is wrong."""
        self.complaints.append(f"{rule}: {message}")

    def check(self) -> None:
        """Raise the first of what is wrong.

        Raises:
            Broken: there is something.
        """
        if self.complaints:
            raise Broken(self.complaints[0])

    def end(self, rest: bytes) -> None:
        """Take what stood behind the last end of a line."""
        if rest.strip():
            self.complain("W1", f"the output ends in the middle of a line: {rest!r:.200}")

    def line(self, line: bytes) -> dict[str, Any] | None:
        """Take a line, and return the message in it, None if there is none."""
        try:
            message = json.loads(line.decode("utf-8"), parse_constant=self._constant)
        except ValueError as error:
            self.complain("W2", f"a line on stdout is no JSON in UTF-8 ({error}): {line!r:.200}")
            return None
        if not is_object(message) or message.get("jsonrpc") != "2.0":
            self.complain("W1", f"a line is no JSON-RPC 2.0 message: {line!r:.200}")
            return None
        if not isinstance(message.get("method", ""), str):
            self.complain("W1", f"a method is no string: {line!r:.200}")
            return None
        if "method" in message:
            self._call(message)
        elif ("result" in message) == ("error" in message) or "id" not in message:
            self.complain("W1", f"a message is neither a call nor an answer: {line!r:.200}")
        elif "error" in message:
            self._error(message["error"])
        # A call whose parameters do not fit is not acted upon.
        return message if self._fits(message) else None

    def _constant(self, name: str) -> Any:
        raise ValueError(f"{name} is no JSON")

    def _fits(self, message: dict[str, Any]) -> bool:
        method = message.get("method")
        info = CLIENT_METHODS.get(method) if isinstance(method, str) else None
        if info is None:
            return True
        try:
            structure(info.params, message.get("params"))
        except SchemaError as error:
            self.complain("W4", f"{method}: {error}")
            return False
        return True

    def result(self, method: str, message: dict[str, Any]) -> None:
        """Take the answer to a request."""
        info = AGENT_METHODS.get(method)
        if info is not None and "result" in message:
            try:
                # Null is as good as an object without fields (W6).
                structure(info.result, {} if message["result"] is None else message["result"])
            except SchemaError as error:
                self.complain("W4", f"the answer to {method}: {error}")

    def _error(self, error: Any) -> None:
        told = error if is_object(error) else {}
        code = told.get("code")
        if not isinstance(code, int) or isinstance(code, bool) or not isinstance(told.get("message"), str):
            self.complain("W10", f"an error without a code that is an integer and a message: {error!r:.200}")
        elif "Traceback (most recent call last)" in json.dumps(error):
            self.complain("W4", "an error tells a traceback")

    def _call(self, message: dict[str, Any]) -> None:
        method = message["method"]
        capability = NEEDED.get(method)
        if capability is not None and not look_up(self.offered, capability):
            self.complain("I3", f"{method} was called, but {capability} was not advertised")
        if "id" in message:
            self._own_id(message["id"])
        params = message.get("params")
        path = params.get("path") if is_object(params) and method.startswith("fs/") else None
        if isinstance(path, str) and not os.path.isabs(path):
            self.complain("F1", f"{method} with a path that is not absolute: {path!r:.200}")

    def _own_id(self, id: Any) -> None:
        if isinstance(id, bool) or not isinstance(id, (str, int)):
            self.complain("W3", f"a request has the id {id!r:.100}")
            return
        key = (type(id).__name__, id)
        if key in self._ids:
            self.complain("W3", f"two requests have the id {id!r:.100}")
        self._ids.add(key)
