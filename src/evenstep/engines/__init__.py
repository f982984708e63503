"""What each engine speaks: bytes in, values out, no I/O."""
