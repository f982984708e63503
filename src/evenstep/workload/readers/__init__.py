"""Formats of trace files, one module each: `recognises(head, name)` is True for a file of the format, `read` reads it.

`head` is the decompressed start of the file (`files.HEAD_BYTES`). A bad row is an `InputError` that names file, line, field
and value; with `skip_bad_rows`, which ServeGen lacks, it is left out and counted. A file without rows is an `InputError`.
"""
