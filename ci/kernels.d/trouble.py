"""What keeps a run from being done at all."""


class Trouble(Exception):
    """This machine can't: one line that says what and what to do (exit status 3)."""


class BadArguments(Exception):
    """The command line can't be meant so (exit status 2)."""
