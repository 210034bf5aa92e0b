"""QasmError: what was wrong in an OpenQASM program, and where."""

from __future__ import annotations

from ..errors import CircuitError

# How much of a source line an error shows on either side of the place it points at.
_CONTEXT = 60
# Names and literals can be as long as the program that holds them; messages are not.
_MAX_MESSAGE = 400


class QasmError(CircuitError):
    """An OpenQASM program that cannot be read, or a circuit that cannot be written as one.

    Attributes:
        message: what is wrong, without the position.
        line, column: the position in the program, counted from 1; None for a circuit that cannot be written.
        text: the offending piece of the program.
        filename: the file, where the program came from one.
    """

    def __init__(
        self,
        message: str,
        *,
        line: int | None = None,
        column: int | None = None,
        text: str = "",
        filename: str | None = None,
        excerpt: str = "",
    ) -> None:
        self.message = message
        self.line = line
        self.column = column
        self.text = text
        self.filename = filename
        self._excerpt = excerpt
        where = "" if line is None else f"line {line}, column {column}: "
        if filename is not None:
            where = f"{filename}, {where}"
        super().__init__(f"{where}{message}{excerpt}")

    def with_hint(self, hint: str) -> QasmError:
        """The same error, whose message ends with a way out."""
        return QasmError(
            f"{self.message}; {hint}",
            line=self.line,
            column=self.column,
            text=self.text,
            filename=self.filename,
            excerpt=self._excerpt,
        )


class Source:
    """A program's text and its name; turns an offset into a line, a column and an excerpt."""

    __slots__ = ("filename", "text")

    def __init__(self, text: str, filename: str | None = None) -> None:
        self.text = text
        self.filename = filename

    def error(self, message: str, start: int, end: int) -> QasmError:
        """The QasmError for the piece `text[start:end]`."""
        text = self.text
        if len(message) > _MAX_MESSAGE:
            message = f"{message[: _MAX_MESSAGE // 2]} ... {message[-_MAX_MESSAGE // 2 :]}"
        start = min(start, len(text))
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", start)
        line_end = len(text) if line_end < 0 else line_end
        left = max(line_start, start - _CONTEXT)
        shown = text[left : min(line_end, start + _CONTEXT)].rstrip()
        # A tab must stay a tab under it, or the caret stands in the wrong place.
        pad = "".join("\t" if char == "\t" else " " for char in text[left:start])
        return QasmError(
            message,
            line=text.count("\n", 0, start) + 1,
            column=start - line_start + 1,
            text=text[start : min(end, line_end)],
            filename=self.filename,
            excerpt=f"\n    {shown}\n    {pad}^" if shown.strip() else "",
        )
