"""Runs named checks one after the other, says how each went, and counts.

Not a test framework: a check is a function, a failure is an exception, and the last line carries the
counts that `run` adds up.
"""

import sys
import traceback


class Checks:
    """The checks of one client."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.passed = 0
        self.failed = 0

    def check(self, name: str, body) -> None:
        """Runs one check; whatever it raises is its failure."""
        try:
            body()
        except Exception as fault:  # a check must never end the others
            self.failed += 1
            print(f"FAILED  {name}: {type(fault).__name__}: {fault} (line {_line(fault)})")
        else:
            self.passed += 1
            print(f"ok      {name}")

    def finish(self) -> None:
        """Prints the counts and ends the process: 0 when all is well."""
        print(f"{self.client}: {self.passed} passed, {self.failed} failed", flush=True)
        sys.exit(1 if self.failed else 0)


def _line(fault: Exception) -> int:
    """The line of the check, not of the client or of this file, from which the failure came."""
    program = sys.modules["__main__"].__file__
    frames = traceback.extract_tb(fault.__traceback__)
    return next((frame.lineno for frame in frames if frame.filename == program), 0)


def expect(condition, message: str) -> None:
    """An assertion that always says what it saw."""
    if not condition:
        raise AssertionError(message)


def same(got, wanted, what: str) -> None:
    """Equality, with both sides in the message."""
    expect(got == wanted, f"{what} is {got!r}, expected {wanted!r}")


def raises(kind, body):
    """Runs `body`, which must raise exactly a `kind`, and gives what was raised."""
    try:
        body()
    except Exception as fault:
        expect(type(fault) is kind, f"raised {type(fault).__name__} ({fault}), expected {kind.__name__}")
        return fault
    raise AssertionError(f"nothing was raised, expected {kind.__name__}")
