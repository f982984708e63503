"""Sentences and parts of them that several rooms say."""


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: ``1 policy``, ``1,200 points``; `many` is the plural of the noun `one`, empty = with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def of_other_class(verb: str, answer: object, expected: type) -> str:
    """A sentence on a policy whose method `verb` answers an object of another class than `expected`; else empty."""
    if isinstance(answer, expected):
        return ""
    return f"{verb} answers {type(answer).__name__}; expected a {expected.__name__}"


def install_extra(extra: str) -> str:
    """The hint of an error to install an extra of evenstep, for installations from an index and from a clone."""
    return f"Install it with: pip install 'evenstep[{extra}]', or in a clone: pip install '.[{extra}]'."
