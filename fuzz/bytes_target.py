"""A coverage-guided target: ``python -m fuzz.bytes_target fuzz/corpus -max_total_time=60``.

Needs atheris (dependency group ``bytes``). What it checks needs nothing, and runs on the corpus with every
change.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any, cast

from trio_acp._core import (
    Connection,
    ConnectionFailed,
    EndOfInput,
    InboundRequest,
    InvalidResponse,
    JunkLine,
    LineFramer,
    MessageRefused,
    RequestReceived,
    ResponseReceived,
    decode,
    decode_leniently,
    encode,
)
from trio_acp.schema import METHODS, SchemaError, structure, unstructure

__all__ = ["check_bytes"]

LIMIT = 4096
"""Longest message that the connections of this target accept."""


def check_bytes(data: bytes) -> None:
    """Check what must hold for any bytes; the first one says how they are cut.

    Raises:
        AssertionError: it does not hold.
    """
    size = 1 + (data[0] % 32 if data else 0)
    data = data[1:]
    _check_framing(data, size)
    whole = _events([data] if data else [])
    assert _events([data[i : i + size] for i in range(0, len(data), size)]) == whole
    for line in data.split(b"\n"):
        _check_line(line)
        _check_classification(line)


def _check_framing(data: bytes, size: int) -> None:
    """Framing agrees with splitting, however the bytes are cut (W1)."""
    framer = LineFramer(LIMIT)
    framed = [bytes(line) for i in range(0, len(data), size) for line in framer.feed(data[i : i + size])]
    last = framer.end()
    framed += [] if last is None else [bytes(last)]
    assert all(line.endswith(b"\n") for line in framed)
    lines = [line[:-1] for line in framed]
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    if framer.overflowed:
        assert any(len(line) > LIMIT for line in expected)
        assert lines == expected[: len(lines)]
    else:
        assert lines == expected


def _events(chunks: list[bytes]) -> list[Any]:
    """What a connection with two open requests makes of the bytes: no exception, and each answer once."""
    core = Connection(answer_junk=True, max_junk_lines=None, max_message_bytes=LIMIT)
    core.request("a", {})
    core.give_up(core.request("b", {})[0])
    seen: list[Any] = []
    answered: list[InboundRequest] = []
    for chunk in [*chunks, b""]:
        for event in core.receive(chunk):
            seen.append(type(event).__name__)
            match event:
                case RequestReceived(request=request):
                    if len(answered) % 2:
                        assert core.answer(request, None).count(b"\n") == 1
                    answered.append(request)
                case MessageRefused(reply=reply) | JunkLine(reply=reply) if reply is not None:
                    assert json.loads(reply)["error"]["code"] in (-32700, -32600, -32602, -32603)
                case ResponseReceived() | EndOfInput() | ConnectionFailed():
                    pass
                case _:
                    pass
    assert core.inbound_count == core.outbound_count == 0
    assert seen[-1] in ("EndOfInput", "ConnectionFailed")
    return seen


def _check_line(line: bytes) -> None:
    """What both decoders take they take alike; what is taken can be sent; what fits a type survives it."""
    try:
        lenient: Any = decode_leniently(line)
    except ValueError:
        return
    assert encode({"value": lenient}).endswith(b"\n")
    try:
        assert decode(line) == lenient or "\ufeff" in line.decode("utf-8", "replace")
    except ValueError:
        pass
    message = cast("dict[str, Any]", lenient) if isinstance(lenient, dict) else {}
    method = message.get("method")
    if isinstance(method, str) and method in METHODS:
        info = METHODS[method]
        try:
            value = structure(info.params, message.get("params"))
        except SchemaError:
            return
        assert structure(info.params, unstructure(value, info.params)) == value


def _check_classification(line: bytes) -> None:
    """A message is what a naive reading of it says (W3, W4, W6)."""
    try:
        message: Any = decode(line)
    except ValueError:
        return
    core = Connection(max_junk_lines=None)
    core.request("a", {})
    (event,) = core.receive(line + b"\n")
    if not isinstance(message, dict):
        assert isinstance(event, MessageRefused)
        assert json.loads(event.reply)["id"] is None
        return
    fields: dict[str, Any] = {**message}
    id, params = fields.get("id"), fields.get("params")
    if isinstance(fields.get("method"), str) and "id" in fields:
        good_id = type(id) in (str, int, type(None))
        assert isinstance(event, RequestReceived) == (good_id and isinstance(params, dict | None))
        if isinstance(event, RequestReceived):
            reply = json.loads(core.answer(event.request, None))
        else:
            assert isinstance(event, MessageRefused)
            reply = json.loads(event.reply)
        expected = id if good_id else None
        assert (type(reply["id"]), reply["id"]) == (type(expected), expected)
    is_answer = "method" not in fields and type(id) is int and id == 1
    assert isinstance(event, ResponseReceived) == is_answer
    if isinstance(event, ResponseReceived):
        result, error = fields.get("result"), fields.get("error")
        both = "result" in fields and "error" in fields and error is not None and result is not None
        neither = "result" not in fields and "error" not in fields
        assert isinstance(event.error, InvalidResponse) or not (both or neither)
        assert event.error is not None or "result" in fields


def main() -> None:  # pragma: no cover - atheris never returns
    """Hand the target to atheris, with the arguments of libFuzzer."""
    atheris: Any = importlib.import_module("atheris")
    for name in [each for each in sys.modules if each.startswith("trio_acp")]:
        del sys.modules[name]  # to be imported again, with counters in it
    with atheris.instrument_imports(include=["trio_acp"]):
        from fuzz.bytes_target import check_bytes as target
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
