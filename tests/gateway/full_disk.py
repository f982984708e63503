"""A disk without room, as the system itself tells of it."""

from __future__ import annotations

import resource
from contextlib import contextmanager


@contextmanager
def no_file_beyond(size):
    """No file of this process can grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
