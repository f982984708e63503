"""Engine dialects: bytes in, values out, no I/O."""
