"""Text of a server as people are shown it: names of objects, databases, roles and tablespaces, statements, notes, messages.

Who may create a table chooses its name. What is in it must neither be taken for markup, nor reach a terminal or an editor as a
command: characters that are not seen, or that change how others are seen, are shown as escapes. Whatever prints text of a server
takes it through `visible` or `cell`, SQL for people through `identifier` and `literal`, and JSON through `json_text`.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from typing import Any

from rich.console import Console
from rich.text import Text

# Control characters, those of formats (among them those that change the direction of writing), separators of lines, surrogates.
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_MARKUP = re.compile(
    r"[\\`*\[\]<>&!|~]|(?<![^\W_])_|_(?![^\W_])"  # a _ within a word is none
    r"|(?<=[a-zA-Z]):(?=//)|(?<=www)\.|(?<=[\w.+-])@(?=[\w-]+\.)",  # addresses, which would be links by themselves
    re.IGNORECASE,
)
_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", ":": "&#58;", ".": "&#46;", "@": "&#64;"}
_STRANGE = re.compile(r"[^\x20-\x7e]")  # perhaps


def _unseen(char: str) -> bool:
    return unicodedata.category(char) in _UNSEEN


def _escape(char: str) -> str:
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def visible(text: str, *, lines: bool = False) -> str:
    """With escapes, as \\x1b, for what cannot be seen. `lines`: ends of lines stay what they are, for texts of several."""
    return _STRANGE.sub(lambda found: _escape(found[0]) if _unseen(found[0]) and not (lines and found[0] == "\n") else found[0], text)


WIDE = 100_000  # columns: more than any table has


def console() -> Console:
    """For standard output. A table is fitted to a terminal; in a pipe or a file it is whole, however wide it is."""
    return Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)


def cell(text: str) -> Text:
    """For tables and the console: no markup in it."""
    return Text(visible(text))


def in_markdown(text: str, *, code: bool = False) -> str:
    """In a line or a cell of Markdown: no code, emphasis, link, picture, HTML, or end of a cell. `code`: in a sentence of ours, which may
    have some."""

    def escaped(char: str) -> str:
        return char if code and char == "`" else _ENTITIES.get(char, f"\\{char}")

    return _MARKUP.sub(lambda found: escaped(found[0]), visible(text))


def in_template(value: Any) -> Any:
    """What a template of Jinja2 is to do with each value, but for what is known to be safe: its `finalize`."""
    return visible(value, lines=True) if type(value) is str else value


def json_text(value: Any, **options: Any) -> str:
    """JSON with the true names. What a terminal could take for a command is escaped as JSON does it."""
    text = json.dumps(value, ensure_ascii=False, **options)
    return _STRANGE.sub(lambda found: _in_json(found[0]) if found[0] != "\n" and _unseen(found[0]) else found[0], text)


def _in_json(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else json.dumps(char)[1:-1]


def identifier(name: str) -> str:
    """Quoted, as SQL for people to read and run."""
    return _quoted(name, '"')


def literal(text: str) -> str:
    return _quoted(text, "'")


def _quoted(text: str, quote: str) -> str:
    """U&"..." where something in it cannot be seen: this is the same name."""
    doubled = text.replace(quote, 2 * quote)
    if visible(text) == text and not (quote == "'" and "\\" in text):
        return f"{quote}{doubled}{quote}"
    body = "".join("\\\\" if char == "\\" else f"\\+{ord(char):06x}" if _unseen(char) else char for char in doubled)
    return f"U&{quote}{body}{quote}"
