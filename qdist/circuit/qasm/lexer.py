"""Tokens of OpenQASM 2 and 3, read on demand from any offset of the text.

Reading on demand is what lets the reader take most statements with one regular expression (see `reader.py`)
and hand only the unusual ones to the parser: both work on offsets into the same text, so positions in errors
agree.
"""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

from .errors import QasmError, Source

# Possessive quantifiers (`*+`) throughout: the time is linear in the text, whatever the text.
_TOKEN = re.compile(
    r"""
    (?:[ \t\r\n\f]++|//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/)*+     # space and comments
    (?:
        (?P<name>[^\W\d]\w*)
      | (?P<float>(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9_]+)?|[0-9][0-9_]*[eE][-+]?[0-9_]+)
      | (?P<int>0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|[0-9][0-9_]*)
      | (?P<string>"[^"\r\n]*"|'[^'\r\n]*')
      | (?P<hardware>\$[0-9]+)
      | (?P<symbol>->|==|!=|<=|>=|&&|\|\||\+\+|(?:\*\*|<<|>>|[-+*%&|^~]|/(?!\*))=|\*\*|<<|>>
                  |[-+*%^=<>!&|~@;,:(){}\[\]\#.]|/(?!\*))
      | (?P<end>\Z)
      | (?P<wrong>.)
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_WORD = re.compile(r"\w+")

# Python refuses to convert longer decimal literals, to keep the conversion from taking quadratic time.
_MAX_INT_DIGITS = 2400


class Token(NamedTuple):
    """A piece of the program. `kind` is name, int, float, string, hardware, symbol or end."""

    kind: str
    text: str
    start: int
    end: int

    def __str__(self) -> str:
        return "the end of the program" if self.kind == "end" else f"'{self.text}'"


class Cursor:
    """A place in a program: the token there, and the steps from it to the next."""

    __slots__ = ("previous_end", "source", "text", "token")

    def __init__(self, source: Source, start: int = 0) -> None:
        self.source = source
        self.text = source.text
        self.seek(start)

    def seek(self, offset: int) -> None:
        """Go to the first token at or after `offset`."""
        self.previous_end = offset
        self.token = self._scan(offset)

    def _scan(self, offset: int) -> Token:
        match = _TOKEN.match(self.text, offset)
        assert match is not None
        kind = match.lastgroup
        assert kind is not None
        start, end = match.span(kind)
        if kind == "wrong":
            self._fail_at(start)
        if kind in ("int", "float") and (word := _WORD.match(self.text, end)):
            raise self.source.error(
                f"'{self.text[start : word.end()]}' is not a number; durations and imaginary numbers are not supported",
                start,
                word.end(),
            )
        return Token(kind, match.group(kind), start, end)

    def _fail_at(self, start: int) -> NoReturn:
        character = self.text[start]
        if character == "/":
            message = "this comment is never closed: '*/' is missing"
        elif character in "\"'":
            message = "this string is never closed on its line"
        else:
            message = f"unexpected character {character!r}"
        raise self.source.error(message, start, start + 1)

    def advance(self) -> Token:
        """The current token; the cursor moves on to the next."""
        token = self.token
        self.previous_end = token.end
        self.token = self._scan(token.end)
        return token

    def at(self, text: str) -> bool:
        """Whether the current token is the symbol or keyword `text`."""
        return self.token.text == text

    def accept(self, text: str) -> bool:
        """Step over the symbol or keyword `text` if it stands here."""
        if self.at(text):
            self.advance()
            return True
        return False

    def expect(self, text: str, context: str = "") -> Token:
        """Step over `text`, or say that it was expected."""
        if not self.at(text):
            self.fail(f"expected '{text}'{context}, found {self.token}")
        return self.advance()

    def expect_kind(self, kind: str, what: str) -> Token:
        """Step over a token of `kind`, or say that `what` was expected."""
        if self.token.kind != kind:
            self.fail(f"expected {what}, found {self.token}")
        return self.advance()

    def error(self, message: str, start: int, end: int) -> QasmError:
        return self.source.error(message, start, end)

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        """Raise a QasmError at `token`, or at the current one."""
        token = token or self.token
        raise self.source.error(message, token.start, token.end)

    def int_value(self, token: Token) -> int:
        """The value of an int token."""
        digits = token.text
        if len(digits) > _MAX_INT_DIGITS:
            self.fail(f"an integer of {len(digits)} digits is too long; the limit is {_MAX_INT_DIGITS}", token)
        try:
            # int(_, 0) takes the prefixes 0x, 0b and 0o, but refuses the leading zeros that OpenQASM allows.
            return int(digits, 0 if digits[1:2].isalpha() else 10)
        except ValueError:
            self.fail(f"'{digits}' is not an integer: an underscore must stand between two digits", token)

    def float_value(self, token: Token) -> float:
        """The value of a float token."""
        try:
            value = float(token.text)
        except ValueError:
            self.fail(f"'{token.text}' is not a number: an underscore must stand between two digits", token)
        if value in (float("inf"), float("-inf")):
            self.fail(f"{token.text} is too large for a double", token)
        return value
