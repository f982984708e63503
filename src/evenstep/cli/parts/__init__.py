"""What several commands share: flags, parsing and outputs."""
