"""Gives results as data frames of pandas, which is not one of our dependencies."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from evenstep.errors import InputError


class Tabular:
    """Base of results that `to_arrow` gives as a `pyarrow.Table`: adds the same as a data frame."""

    __slots__ = ()

    def to_arrow(self) -> Any:
        """The result as a `pyarrow.Table`."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """`to_arrow` as a `pandas.DataFrame`.

        Raises:
            InputError: pandas is not installed.
        """
        if find_spec("pandas") is None:
            hint = "Install it with pip install pandas, or use to_arrow()."
            raise InputError("to_pandas", "pandas", "missing", "the package pandas", hint)
        return self.to_arrow().to_pandas()
