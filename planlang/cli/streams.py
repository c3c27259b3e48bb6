"""The standard streams, so that none of them decides over what a command says: closed, of another encoding, given up.

A stream that is closed could be taken by the next file that is opened, so its number is occupied first. A reader that
has gone is no failure: what it left unread is dropped, and the command ends with its own exit code.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STDOUT, _STDERR = 1, 2


class _Output(io.FileIO):
    """A file descriptor whose reader may go away."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Writes as a file does; what nobody reads counts as written, and so does what is said of a failure."""
        try:
            return super().write(data) or 0
        except OSError as error:
            if isinstance(error, BrokenPipeError) or self.fileno() == _STDERR:
                return memoryview(data).nbytes
            raise


class _Closed(io.TextIOBase):
    """Standard output that is closed: only who writes to it learns of it."""

    encoding = "utf-8"

    def write(self, text: str, /) -> int:
        """Raises `OSError`, as a full disk does."""
        raise OSError(errno.EBADF, "standard output is closed")


def prepare() -> None:
    """Makes the streams of this process usable; nothing is changed where they are replaced already, as tests do."""
    with contextlib.suppress(OSError):
        while (free := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
            pass
        os.close(free)
    sys.stdin = sys.stdin or io.TextIOWrapper(io.BytesIO())
    sys.stdout = _output(sys.stdout, _STDOUT) if sys.stdout else _Closed()
    sys.stderr = _output(sys.stderr, _STDERR) if sys.stderr else open(os.devnull, "w")  # noqa: PTH123, SIM115


def discard_output() -> None:
    """Drops what is still to be written: Python would fail once more when it closes the stream."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _output(stream: TextIO, number: int) -> io.TextIOWrapper:
    """The same stream, which neither a gone reader nor a character that its encoding lacks can stop."""
    assert isinstance(stream, io.TextIOWrapper)
    stream.flush()
    stream.reconfigure(errors="backslashreplace")
    try:
        raw = _Output(number, "w", closefd=False)
    except OSError:
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
