"""A number with its noun, as tables, reports and notes say it."""


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: ``1 policy``, ``1,200 points``; `many` is the plural of the noun `one`, empty = with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
