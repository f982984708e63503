"""What running requests had produced when they were last asked about: a length below that is a bad one."""

from __future__ import annotations

from evenstep.errors import InputError
from evenstep.predict.view import Active, Finished

#: Requests remembered; of more, the ones asked about longest ago are forgotten.
MOST = 200_000


class Produced:
    """Ages by request, from every `asked` until `ended`."""

    def __init__(self) -> None:
        self._age: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._age)

    def asked(self, active: Active) -> None:
        """Remember what these requests have produced."""
        self._age.update(zip(active.request_id.tolist(), active.age.tolist(), strict=True))
        if len(self._age) > MOST:
            for request in list(self._age)[: MOST // 2]:
                del self._age[request]

    def ended(self, finished: Finished) -> None:
        """Forget these requests.

        Raises:
            InputError: one ended with fewer tokens than it had produced.
        """
        age = self._age
        for request, length in zip(
            finished.request_id.tolist(), finished.output_tokens.tolist(), strict=True
        ):
            produced = age.pop(request, 0)
            if length < produced:
                raise InputError(
                    f"finished: request {request}", "output_tokens", length, f"at least {produced}",
                    "It had produced that many when its prediction was asked for.",
                )  # fmt: skip
