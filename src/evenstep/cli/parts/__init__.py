"""Code that several commands share: flags, parsing and outputs."""
