"""CSV files with named columns. All problems of a file are reported together."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from freight_exchange.base import ValidationError
from freight_exchange.platform.text import fold

Parser = Callable[[str, str], Any]
"""Function from the text of a cell and its column to the value; it raises `ValidationError` for a wrong text."""

_COMMENT: Final = "comment"
_MAX_PROBLEMS: Final = 20


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
        # Excel states the separator in a first line.
        is_stated = header.lower().startswith("sep=") and len(header) > 4
        delimiter = header[4] if is_stated else ";" if header.count(";") > header.count(",") else ","
        table = csv.reader(io.StringIO(self._text, newline=""), delimiter=delimiter, strict=True)
        names: list[str] = []
        try:
            for texts in table:
                if not any(text.strip() for text in texts) or (not names and texts[0].lower().startswith("sep=")):
                    continue
                if names:
                    yield from self._parse(table.line_num, names, texts)
                else:
                    names = [fold(text) for text in texts]
                    if not self._check_header(table.line_num, names):
                        return
        except csv.Error as error:
            self._problems.append(f"line {table.line_num} is not CSV: {error}")
        if not names:
            self._check_header(1, [])

    def add_problem(self, line: int, column: str, problem: str | ValidationError) -> None:
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

    def _parse(self, line: int, names: list[str], texts: list[str]) -> Iterator[CsvRow]:
        if len(texts) > len(names):
            problem = f"line {line} has {len(texts)} cells for {len(names)} columns: a text with a comma needs quotes"
            self._problems.append(problem)
            return
        found = len(self._problems)
        filled = {name: text.strip() for name, text in zip(names, texts, strict=False) if text.strip()}
        cells = {name: text for name, text in filled.items() if name != _COMMENT}
        values = dict.fromkeys(self._columns)
        for name, parse in self._columns.items():
            try:
                if name in cells:
                    values[name] = parse(cells[name], name)
                elif name in self._required:
                    self.add_problem(line, name, "is empty")
            except ValidationError as error:
                self.add_problem(line, name, error)
        if len(self._problems) == found:
            yield CsvRow(line, cells, values)


def _decoded(path: Path) -> str:
    content = path.read_bytes()
    try:
        # Spreadsheets begin UTF-8 with a byte order mark.
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text = content.decode("cp1252", "replace")
        # In western words, few letters with accents are neighbours. In text of another encoding, nearly all are.
        runs = re.findall(r"[^\x00-\x7f]+", text)
        is_western = all(len(run) == 1 or (len(run) == 2 and run.isalpha() and run.islower()) for run in runs)
        if is_western and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
            return text
        message = f"{path.name} is not UTF-8 at byte {error.start + 1}: save it as CSV in UTF-8"
        raise ValidationError(message, field="path") from None


def point(cell: str, column: str) -> str:
    """Return a number with a decimal point, from a cell with a decimal comma or with commas at the thousands.

    Raises:
        ValidationError: The comma of the cell may be either.
    """
    plain = cell.replace(",", "")
    if re.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}", cell, re.ASCII):
        message = f"{column} must be {cell.replace(',', '.')} or {plain}, as {cell!r} may mean either"
        raise ValidationError(message, field=column)
    if re.fullmatch(r"[+-]?(\d*|\d{1,3}(\.\d{3})+),\d+", cell, re.ASCII):
        return cell.replace(".", "").replace(",", ".")
    return plain if re.fullmatch(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?", cell, re.ASCII) else cell


def yes_or_no(cell: str, column: str) -> bool:
    if cell.casefold() not in ("yes", "true", "no", "false"):
        raise ValidationError(f"{column} must be yes or no, not {cell!r}", field=column)
    return cell.casefold() in ("yes", "true")
