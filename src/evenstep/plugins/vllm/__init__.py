"""A plug-in for vLLM's engine processes: records the content and duration of every step.

vLLM finds `register` by the entry point group ``vllm.general_plugins`` once evenstep is installed in its environment, and
calls it in each of its processes. Nothing is recorded unless ``EVENSTEP_STEPS_FOLDER`` is set.

Source: BalanceRoute App. D.5.
"""

from __future__ import annotations


def register() -> None:
    """Start recording steps, if environment variables ask for it.

    Raises:
        InputError: an invalid or unknown ``EVENSTEP_STEPS...`` variable.
        EngineError: a version of vLLM that is not known here.
    """
    import os

    from evenstep.plugins.vllm.settings import recording

    asked = recording(os.environ)
    if asked is not None:
        from evenstep.plugins.vllm.recorder import install

        install(asked)
