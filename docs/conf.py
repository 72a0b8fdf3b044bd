"""How the documentation is built: `nox -s docs`."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import itertools
import pathlib
import pkgutil
import sys
from typing import Any

import attrs
from sphinx.ext.napoleon import GoogleDocstring

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

import trio_acp

project = "trio_acp"
author = "The trio_acp authors"
copyright = "the trio_acp authors"
version = release = trio_acp.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinxcontrib_trio"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {
    "description": "The Agent Client Protocol for Trio",
    "fixed_sidebar": True,
    "page_width": "1100px",
}
html_static_path: list[str] = []

# Single backquotes in docstrings name Python objects; what is not documented here stays plain code.
default_role = "py:obj"
highlight_language = "python"
add_module_names = False
python_use_unqualified_type_names = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = [("Raises on entering", "params_style"), ("Raises from the block", "params_style")]


def find_by_last_name(app: Any, env: Any, node: Any, content: Any) -> Any:
    """Resolve a name that a docstring uses as its module does, wherever the name is documented."""
    if node.get("refdomain") != "py":
        return None
    from sphinx.util.nodes import make_refnode

    domain = env.get_domain("py")
    target = node.get("reftarget", "").removesuffix("()").lstrip("~.")
    found = [name for name in domain.objects if name == target or name.endswith("." + target)]
    preferred = sorted(found, key=lambda name: (name.count("."), name))
    if not target or not preferred:
        return None
    entry = domain.objects[preferred[0]]
    return make_refnode(app.builder, node.get("refdoc"), entry.docname, entry.node_id, content, preferred[0])


def shorten_signature(app: Any, what: str, name: str, obj: Any, options: Any, args: Any, returns: Any) -> Any:
    """Show constructors as they are used.

    The classes of plain data have many fields with long types: names and defaults are enough, the types stand
    in their lists of attributes. A class that the library makes shows no arguments.
    """
    if what not in ("class", "exception") or not inspect.isclass(obj):
        return None
    if attrs.has(obj):
        shown: list[str] = []
        star = False
        for field in sorted(attrs.fields(obj), key=lambda field: field.kw_only):
            if not field.init:
                continue
            if field.kw_only and not star:
                shown.append("*")
                star = True
            shown.append(field.name + _default(field.default))
        return f"({', '.join(shown)})", None
    documented = f"{obj.__doc__}{obj.__init__.__doc__}"
    if what == "class" and "Args:" not in documented and obj.__module__.startswith("trio_acp"):
        return "()", None
    return None


def _default(default: Any) -> str:
    if default is attrs.NOTHING:
        return ""
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        default = default.factory()
        return f"={default!r}" if default in ([], {}) else "=..."
    return f"={default.value!r}" if hasattr(default, "value") else f"={default!r}"


def constant_docstrings() -> dict[str, str]:
    """The docstrings below assignments, by name: Sphinx does not see those of names that are re-exported."""
    found: dict[str, str] = {}
    for info in pkgutil.walk_packages(trio_acp.__path__, "trio_acp."):
        spec = importlib.util.find_spec(info.name)
        assert spec is not None
        assert spec.origin is not None
        body = ast.parse(pathlib.Path(spec.origin).read_text(encoding="utf-8")).body
        for statement, below in itertools.pairwise(body):
            target = getattr(statement, "target", None) or getattr(statement, "targets", [None])[0]
            if isinstance(target, ast.Name) and isinstance(below, ast.Expr):
                text = getattr(below.value, "value", None)
                if isinstance(text, str):
                    found[f"{info.name}.{target.id}"] = inspect.cleandoc(text)
    return found


CONSTANTS = constant_docstrings()


def describe_constant(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Give a constant or a type alias its own docstring, not that of its type."""
    if what != "data":
        return
    module, _, last = name.rpartition(".")
    mine = [text for path, text in CONSTANTS.items() if path.startswith(module) and path.endswith(f".{last}")]
    if mine:
        lines[:] = mine[0].splitlines()


def whole_description(self: Any) -> tuple[str, list[str]]:
    """Take a property's docstring as it is: a colon in its first line does not set off a type."""
    return "", self.__class__(self._dedent(self._consume_to_end()), self._config).lines()


GoogleDocstring._consume_inline_attribute = whole_description


def setup(app: Any) -> None:
    """Register what this file adds to Sphinx."""
    app.connect("missing-reference", find_by_last_name)
    app.connect("autodoc-process-signature", shorten_signature)
    app.connect("autodoc-process-docstring", describe_constant, priority=400)
