"""The policy `sjf`, compiled: Sarathi's kernel, since only the queue's order differs, which hosts keep."""

from __future__ import annotations

from evenstep.scheduling.sarathi_kernel import form_batch_into, scratch

__all__ = ["form_batch_into", "scratch"]
