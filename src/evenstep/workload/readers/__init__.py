"""Formats of trace files, one a file: `recognises` asks a file's name and first bytes, `read` reads it as a `Trace`.

A bad row is an `InputError` that names file, line, field and value; with `skip_bad_rows` it is left out and counted in the
notes. A file without rows is an `InputError`.
"""
