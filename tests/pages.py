"""Rules that every metrics page has to keep."""

from __future__ import annotations

from collections import Counter

#: Ends of names that OpenMetrics adds to a family's name, which a counter has without _total.
_ENDS = {"counter": ("", "_total", "_created"), "gauge": ("",), "histogram": ("", "_bucket", "_sum", "_count", "_created")}


def clashes(page: str) -> list[str]:
    """Names on a metrics page that belong to two families by the rules of OpenMetrics."""
    lines = (line.split() for line in page.splitlines() if line.startswith("# TYPE "))
    names = [name.removesuffix("_total") + end for _, _, name, kind in lines for end in _ENDS[kind]]
    return sorted(name for name, count in Counter(names).items() if count > 1)
