"""CSV files with named columns. All problems of a file are reported together."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from freight_exchange.base import ValidationError
from freight_exchange.platform.text import fold

Parser = Callable[[str, str], Any]
"""Function from the text of a cell and its column to the value; it raises `ValidationError` for a wrong text."""

_COMMENT: Final = "comment"
_FLAGS: Final = {"yes": True, "true": True, "no": False, "false": False}
_MAX_PROBLEMS: Final = 20
_SEPARATOR: Final = re.compile(r"sep=(.)", re.IGNORECASE)
"""First line by which Excel states the separator."""
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
_SIGNS: Final = frozenset("–—‘’“”„€°²")  # noqa: RUF001 - signs of texts in the Western code page
_DECIMAL_COMMA: Final = re.compile(r"[+-]?(\d*,(\d{1,2}|\d{4,})|0*,\d+|\d{1,3}(\.\d{3})+,\d+)", re.ASCII)
_THOUSANDS_COMMAS: Final = re.compile(r"[+-]?\d{1,3}((,\d{3})+\.\d+|(,\d{3}){2,})", re.ASCII)
_EITHER: Final = re.compile(r"[+-]?\d{1,3},\d{3}", re.ASCII)


@attrs.frozen
class CsvRow:
    """Row without a problem: its texts without empty cells, and its values with `None` for an empty cell."""

    line: int
    cells: Mapping[str, str]
    values: Mapping[str, Any]


class CsvTable:
    """CSV file whose first row names the columns, in any order and case.

    It is in UTF-8, or in the Western code page of Excel. Cells are separated by commas, by semicolons as some
    spreadsheets write them, or as a first line such as `sep=;` states. Empty rows and a column `comment` are ignored. A
    short row leaves its last cells empty.
    `required` are the columns that must exist and have a text in each row.

    Raises:
        ValidationError: The file is not UTF-8.
        OSError: The file cannot be opened.
    """

    def __init__(self, path: Path, columns: Mapping[str, Parser], required: Collection[str]) -> None:
        self._path = path
        self._columns = columns
        self._required = required
        self._problems: list[str] = []
        self._text = _decoded(path)

    def rows(self) -> Iterator[CsvRow]:
        """Yield the rows without a problem; `check` raises the problems of the others."""
        header = self._text.lstrip().partition("\n")[0]
        delimiter = ";" if header.count(";") > header.count(",") else ","
        if (stated := _SEPARATOR.match(header)) is not None:
            delimiter = stated[1]
        table = csv.reader(io.StringIO(self._text, newline=""), delimiter=delimiter, strict=True)
        names: list[str] = []
        try:
            for texts in table:
                if not any(text.strip() for text in texts) or (not names and _SEPARATOR.match("".join(texts) + ";")):
                    continue
                if not names:
                    names = [fold(text) for text in texts]
                    if not self._check_header(table.line_num, names):
                        return
                elif (row := self._parse(table.line_num, names, texts)) is not None:
                    yield row
        except csv.Error as error:
            self._problems.append(f"line {table.line_num} is not CSV: {error}")
        if not names:
            self._check_header(1, [])

    def add_problem(self, line: int, column: str, problem: str | ValidationError) -> None:
        """Record a problem of a cell."""
        text = problem if isinstance(problem, str) else problem.message.removeprefix(f"{column} ")
        self._problems.append(f"line {line}, column {column}: {text}")

    def check(self) -> None:
        """Raise a `ValidationError` that names all problems of the file, if there are any."""
        if self._problems:
            more = len(self._problems) - _MAX_PROBLEMS
            lines = [*self._problems[:_MAX_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
            raise ValidationError(f"{self._path.name}: " + "; ".join(lines), field="path")

    def _check_header(self, line: int, names: list[str]) -> bool:
        missing = [name for name in self._columns if name in self._required and name not in names]
        unknown = [name for name in names if name not in self._columns and name != _COMMENT]
        repeated = sorted({name for name in names if names.count(name) > 1})
        for problem, found in (("lacks", missing), ("has unknown", unknown), ("repeats", repeated)):
            if found:
                columns = ", ".join(self._columns)
                self._problems.append(
                    f"line {line} {problem} column {', '.join(map(repr, found))}; the columns are {columns}"
                )
        return not (missing or unknown or repeated)

    def _parse(self, line: int, names: list[str], texts: list[str]) -> CsvRow | None:
        if len(texts) > len(names):
            self._problems.append(
                f"line {line} has {len(texts)} cells for {len(names)} columns: a text with a comma needs quotes"
            )
            return None
        found = len(self._problems)
        filled = {name: text.strip() for name, text in zip(names, texts, strict=False) if text.strip()}
        cells = {name: text for name, text in filled.items() if name != _COMMENT}
        values = {name: self._value(line, name, cells.get(name)) for name in self._columns}
        return CsvRow(line, cells, values) if len(self._problems) == found else None

    def _value(self, line: int, column: str, text: str | None) -> Any:
        if text is None:
            if column in self._required:
                self.add_problem(line, column, "is empty")
            return None
        try:
            return self._columns[column](text, column)
        except ValidationError as error:
            self.add_problem(line, column, error)
            return None


def _decoded(path: Path) -> str:
    content = path.read_bytes()
    try:
        # Spreadsheets begin UTF-8 with a byte order mark.
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        with contextlib.suppress(UnicodeDecodeError):
            text = content.decode("cp1252")
            # In western words, few letters with accents are neighbours. In text of another encoding, nearly all are.
            runs = _NOT_ASCII.findall(text)
            is_western = all(
                run in _SIGNS or (run.isalpha() and (len(run) == 1 or (len(run) == 2 and run.islower())))
                for run in runs
            )
            if is_western and not content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
                return text
        raise ValidationError(
            f"{path.name} is not UTF-8 at byte {error.start + 1}: save it as CSV in UTF-8", field="path"
        ) from None


def point(cell: str, column: str) -> str:
    """Return a number with a decimal point, from a cell with a decimal comma or with commas at the thousands.

    Raises:
        ValidationError: The comma of the cell may be either.
    """
    if _EITHER.fullmatch(cell) and not cell.lstrip("+-").startswith("0"):
        plain = cell.replace(",", "")
        message = f"{column} must be {cell.replace(',', '.')} or {plain}, as {cell!r} may mean either"
        raise ValidationError(message, field=column)
    if _DECIMAL_COMMA.fullmatch(cell):
        return cell.replace(".", "").replace(",", ".")
    return cell.replace(",", "") if _THOUSANDS_COMMAS.fullmatch(cell) else cell


def yes_or_no(cell: str, column: str) -> bool:
    """Return the flag that a cell states."""
    if (flag := _FLAGS.get(cell.casefold())) is None:
        raise ValidationError(f"{column} must be yes or no, not {cell!r}", field=column)
    return flag
