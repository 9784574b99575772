"""One run per folder: a lock that the system lets go of when its process dies, however it dies."""

from __future__ import annotations

from pathlib import Path

try:
    import fcntl
except ImportError:  # not on every system; there, nobody is kept from running twice
    fcntl = None  # type: ignore[assignment]


class FolderLock:
    """Held from the start, if nobody else holds it."""

    NAME = ".nitro-batch.lock"

    def __init__(self, folder: Path) -> None:
        self._file = (folder / self.NAME).open("ab")
        self.held = True
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.held = False
                self._file.close()
            except OSError:  # a file system without locks
                pass

    def release(self) -> None:
        """Let others in. May be called twice."""
        self._file.close()
