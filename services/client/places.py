"""Places of savepoints: directories of this machine, and of object stores by their URL, such as s3://bucket/jobs.

An object store is reached by fsspec and the package of its protocol, which are extras. A store renames nothing at once:
so its files lie under their names as they come, and the manifest, written last, makes them a savepoint. Source: JOBS
"holdfast savepoint".
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from holdfast.services.kernel.errors import USAGE, CommandFailed

COMMAND = "pip install 'holdfast-streams[objectstore]'"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


class StorePlace:
    """A file or folder of an object store.

    url: the URL without a slash at its end.

    Raises CommandFailed for an unknown protocol, or one whose package is not installed.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._files, self._path = _opened(self._url)

    @property
    def name(self) -> str:
        return self._url.rpartition("/")[2]

    def __str__(self) -> str:
        return self._url

    def __truediv__(self, name: str) -> StorePlace:
        below = object.__new__(StorePlace)
        below._url, below._files, below._path = f"{self._url}/{name}", self._files, f"{self._path}/{name}"
        return below

    def exists(self) -> bool:
        return bool(self._asked("exists"))

    def is_file(self) -> bool:
        return bool(self._asked("isfile"))

    def is_dir(self) -> bool:
        return bool(self._asked("isdir"))

    def read_bytes(self) -> bytes:
        return bytes(self._asked("cat_file"))

    def unlink(self) -> None:
        self._asked("rm_file")

    def remove(self) -> None:
        """Removes the folder with its content, if it exists."""
        if self._asked("exists"):
            self._asked("rm", recursive=True)

    def open(self, mode: str) -> IO[bytes]:
        """Opens the file.

        mode: rb or wb. Written bytes are in the store once the file is closed.
        """
        found: IO[bytes] = self._asked("open", mode=mode)
        return found

    def make(self) -> None:
        """Makes a folder, in a store that has folders."""
        self._asked("makedirs", exist_ok=True)

    def iterdir(self) -> Iterator[StorePlace]:
        for path in self._asked("ls", detail=False):
            yield self / str(path).rstrip("/").rpartition("/")[2]

    def _asked(self, what: str, **how: Any) -> Any:
        """The store's answer. Turns every error of the store's client into OSError, so that a person reads one line."""
        try:
            self._files.invalidate_cache()  # others write there, too
            return getattr(self._files, what)(self._path, **how)
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error) or type(error).__name__) from error
        except Exception as error:
            raise OSError(None, f"{type(error).__name__}: {error}") from error


def place_of(text: str) -> Path | StorePlace:
    """The place that a person names: a path, or a URL. Raises CommandFailed."""
    return StorePlace(text) if _URL.fullmatch(text) else Path(text)


def _opened(url: str) -> tuple[Any, str]:
    """A file system of fsspec, and the path there."""
    found = _URL.fullmatch(url)
    assert found is not None, f"{url} is no URL"
    protocol = found[1]
    if importlib.util.find_spec("fsspec") is None:
        raise CommandFailed(f"{url} lies in an object store, and fsspec is not installed here", COMMAND, USAGE)
    from fsspec.core import url_to_fs
    from fsspec.registry import available_protocols, known_implementations

    if protocol not in available_protocols():
        hint = f"such as s3://, gs://, abfs:// or file://; this one is none of {len(available_protocols())} known ones"
        raise CommandFailed(f"{url} names the protocol '{protocol}', which nobody knows", hint, USAGE)
    try:
        files, path = url_to_fs(url)
    except ImportError as error:
        said = known_implementations.get(protocol, {}).get("err") or str(error)
        raise CommandFailed(f"{url} needs a package that is not installed here", said, USAGE) from None
    except Exception as error:
        raise CommandFailed(
            f"{url} cannot be opened: {error}", "check the URL and the store's settings", USAGE
        ) from None
    return files, str(path).rstrip("/")
