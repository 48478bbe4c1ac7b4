"""Draw the packages and their imports, from the code, into `docs/img/architecture.svg`.

An arrow leads from a package to one that it imports. Imports that a longer path implies are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import grimp

__all__ = ["DRAWING", "draw", "read_imports"]

ROOT: Final = Path(__file__).resolve().parent.parent
DRAWING: Final = ROOT / "docs" / "img" / "architecture.svg"
_PACKAGE: Final = "freight_exchange"
_WIDTH, _NARROW, _TALL, _ROW, _GAP, _MARGIN = 800, 120, 40, 66, 20, 12
_STYLE: Final = """
    text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #24292f; text-anchor: middle; }
    .inner { font-size: 10.5px; fill: #57606a; }
    .box { fill: #eef1fe; stroke: #4f6bed; }
    .import { fill: none; stroke: #8c959f; stroke-width: 1.3; marker-end: url(#tip); }
    .tip { fill: #8c959f; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .inner { fill: #9da7b1; }
      .box { fill: #1f2740; stroke: #6d86f5; }
      .import { stroke: #6e7681; }
      .tip { fill: #6e7681; }
    }
"""

Imports = Mapping[str, frozenset[str]]


class _Box(NamedTuple):
    x: int
    top: int
    width: int

    @property
    def bottom(self) -> int:
        return self.top + _TALL


def read_imports() -> tuple[Imports, Mapping[str, list[str]]]:
    """Read the imports between packages, without implied ones, and the packages inside each."""
    graph = grimp.build_graph(_PACKAGE, cache_dir=None)
    # The plugin imports `testing` when a test uses it, and is imported by it: a circle that no layers can show.
    packages = sorted(graph.find_children(_PACKAGE) - {f"{_PACKAGE}.__main__", f"{_PACKAGE}.pytest_plugin"})
    direct = {
        importer: {
            imported
            for imported in packages
            if imported != importer
            and graph.direct_import_exists(importer=importer, imported=imported, as_packages=True)
        }
        for importer in packages
    }

    def reachable(start: Iterable[str]) -> set[str]:
        found: set[str] = set()
        queue = [*start]
        while queue:
            if (package := queue.pop()) not in found:
                found.add(package)
                queue.extend(direct[package])
        return found

    needed = {
        _name(importer): frozenset(_name(one) for one in imported if one not in reachable(imported - {one}))
        for importer, imported in direct.items()
    }
    inner = {
        _name(package): [_name(child) for child in sorted(graph.find_children(package)) if graph.find_children(child)]
        for package in packages
    }
    return needed, inner


def draw(imports: Imports, inner: Mapping[str, list[str]]) -> str:
    """Draw the packages in layers, each above what it imports."""
    boxes = _place(imports, inner)
    height = max(box.bottom for box in boxes.values()) + _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        'aria-labelledby="title about">',
        '  <title id="title">Packages and imports</title>',
        f'  <desc id="about">{_describe(imports)}</desc>',
        f"  <style>{_STYLE}  </style>",
        '  <defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="tip" d="M0 0l8 4l-8 4z"/></marker></defs>',
        *(f'  <path class="import" d="{path}"/>' for path in _route(imports, boxes)),
    ]
    for name, box in sorted(boxes.items()):
        x, y, width = box.x - box.width // 2, box.top, box.width
        lines.append(f'  <rect class="box" x="{x}" y="{y}" width="{width}" height="{_TALL}" rx="5"/>')
        lines.append(f'  <text x="{box.x}" y="{y + (17 if inner[name] else 25)}">{name}</text>')
        if inner[name]:
            lines.append(f'  <text class="inner" x="{box.x}" y="{y + 32}">{" · ".join(inner[name])}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _name(module: str) -> str:
    return module.rpartition(".")[2]


def _describe(imports: Imports) -> str:
    return "; ".join(f"{name} imports {', '.join(sorted(imports[name]))}" for name in sorted(imports) if imports[name])


def _layers(imports: Imports) -> dict[str, int]:
    """Number the layers from the top: one more than the lowest importer."""
    layer = dict.fromkeys(imports, 0)
    for _ in imports:
        for importer, imported in imports.items():
            for one in imported:
                layer[one] = max(layer[one], layer[importer] + 1)
    return layer


def _place(imports: Imports, inner: Mapping[str, list[str]]) -> dict[str, _Box]:
    """Place the packages of each layer side by side, in the order of their importers."""
    layer = _layers(imports)
    boxes: dict[str, _Box] = {}
    for number in range(max(layer.values()) + 1):
        row = [name for name in sorted(imports) if layer[name] == number]
        above = {name: [boxes[one].x for one in boxes if name in imports[one]] for name in row}
        row.sort(key=lambda name: sum(above[name]) / len(above[name]) if above[name] else 0)
        widths = [max(_NARROW, 6 * len(" · ".join(inner[name])) + 16) for name in row]
        left = (_WIDTH - sum(widths) - _GAP * (len(row) - 1)) // 2
        for name, width in zip(row, widths, strict=True):
            boxes[name] = _Box(left + width // 2, _MARGIN + number * _ROW, width)
            left += width + _GAP
    return boxes


def _route(imports: Imports, boxes: Mapping[str, _Box]) -> Iterator[str]:
    """Draw each import as an arrow from box to box; an arrow that passes other layers runs beside them."""
    lanes = {-1: 0, 1: 0}
    for importer in sorted(imports):
        for imported in sorted(imports[importer]):
            start, end = boxes[importer], boxes[imported]
            if end.top - start.top == _ROW:
                yield f"M{start.x} {start.bottom}{_curve(start.x, start.bottom, end.x, end.top - 1)}"
                continue
            side = -1 if start.x < _WIDTH // 2 else 1
            passed = [box for box in boxes.values() if start.top < box.top < end.top]
            lane = max(side * box.x + box.width // 2 for box in passed) * side
            lane += side * (_GAP + 10 * lanes[side])
            lanes[side] += 1
            turn, back = start.top + _ROW, end.top - _ROW + _TALL
            yield (
                f"M{start.x} {start.bottom}{_curve(start.x, start.bottom, lane, turn)}V{back}"
                f"{_curve(lane, back, end.x, end.top - 1)}"
            )


def _curve(x: int, y: int, to_x: int, to_y: int) -> str:
    middle = (y + to_y) // 2
    return f"V{to_y}" if x == to_x else f"C{x} {middle} {to_x} {middle} {to_x} {to_y}"


def main() -> int:
    DRAWING.write_text(draw(*read_imports()))
    print(f"drawn: {DRAWING.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
