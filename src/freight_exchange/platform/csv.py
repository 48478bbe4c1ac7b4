"""CSV files with named columns. All problems of a file are reported together."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from freight_exchange.base import ValidationError
from freight_exchange.platform.text import fold

T = TypeVar("T")

Parser = Callable[[str, str], Any]
"""Function from the text of a cell and its column to the value; it raises `ValidationError` for a wrong text."""

_COMMENT: Final = "comment"
_MAX_PROBLEMS: Final = 20


def read_csv(
    path: Path, columns: Mapping[str, Parser], required: Collection[str], build: Callable[[int, dict[str, Any]], T]
) -> list[T]:
    """Build a record of each row of a file whose first row names the columns, in any order and case.

    `build` takes the line and the values by column, `None` for an empty cell.

    It is in UTF-8, or in the Western code page of Excel. Cells are separated by commas, by semicolons as some
    spreadsheets write them, or as a first line such as `sep=;` states. Empty rows and a column `comment` are ignored. A
    short row leaves its last cells empty. The `required` columns must exist and have a text in each row.

    Raises:
        ValidationError: Rows are wrong, or `build` refuses them; the message has each problem with its line and column.
        OSError: The file cannot be opened.
    """
    text = _decoded(path)
    header = text.lstrip().partition("\n")[0]
    # Excel states the separator in a first line.
    is_stated = header.lower().startswith("sep=") and len(header) > 4
    delimiter = header[4] if is_stated else ";" if header.count(";") > header.count(",") else ","
    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    filled = (texts for row in table if any(texts := [text.strip() for text in row]))
    records: list[T] = []
    problems: list[str] = []
    try:
        if is_stated:
            next(filled)
        names = [fold(text) for text in next(filled, [])]
        problems += [f"line {table.line_num or 1} {problem}" for problem in _misnamed(names, columns, required)]
        for texts in filled if not problems else ():
            if len(texts) > len(names):
                problem = f"has {len(texts)} cells for {len(names)} columns: a text with a comma needs quotes"
                problems.append(f"line {table.line_num} {problem}")
                continue
            cells = {name: text for name, text in zip(names, texts, strict=False) if text and name != _COMMENT}
            values, errors = dict[str, Any](), list[ValidationError]()
            for name, parse in columns.items():
                try:
                    if name not in cells and name in required:
                        raise ValidationError("is empty", field=name)
                    values[name] = parse(cells[name], name) if name in cells else None
                except ValidationError as error:
                    errors.append(error)
            try:
                if not errors:
                    records.append(build(table.line_num, values))
            except ValidationError as error:
                errors = [error]
            for wrong in errors:
                message = wrong.message.removeprefix(f"{wrong.field} ")
                problems.append(f"line {table.line_num}, column {wrong.field}: {message}")
    except csv.Error as error:
        problems.append(f"line {table.line_num} is not CSV: {error}")
    if problems:
        more = len(problems) - _MAX_PROBLEMS
        problems[_MAX_PROBLEMS:] = [f"and {more} more"] if more > 0 else []
        raise ValidationError(f"{path.name}: {'; '.join(problems)}", field="path")
    return records


def _misnamed(names: Sequence[str], columns: Collection[str], required: Collection[str]) -> Iterator[str]:
    missing = [name for name in columns if name in required and name not in names]
    unknown = [name for name in names if name not in columns and name != _COMMENT]
    repeated = sorted({name for name in names if names.count(name) > 1})
    for problem, found in (("lacks", missing), ("has unknown", unknown), ("repeats", repeated)):
        if found:
            yield f"{problem} column {', '.join(map(repr, found))}; the columns are {', '.join(columns)}"


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


def parser(parse: Callable[[str], T], wanted: str) -> Callable[[str, str], T]:
    """Make a parser of a function that raises `ValueError` or `KeyError` for a wrong text."""

    def parsed(cell: str, column: str) -> T:
        try:
            return parse(cell)
        except (ValueError, KeyError):
            raise ValidationError(f"must be {wanted}, not {cell!r}", field=column) from None

    return parsed


yes_or_no: Final = parser(
    lambda cell: {"yes": True, "true": True, "no": False, "false": False}[cell.casefold()], "yes or no"
)
