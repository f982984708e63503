"""How many examples hypothesis takes of a property that says nothing itself: in `make test`, and in `make test-all`."""

FAST, FULL = 6, 40
