"""What several commands share: flags, parsing, outputs, and the files that `policy new` writes."""
