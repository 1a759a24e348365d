r"""Files: safetensors and JSON, written whole or not at all, and checked when read."""

from __future__ import annotations

__all__ = [
    "Kinds",
    "StoredFileError",
    "check_object",
    "check_path",
    "make_folder",
    "plain",
    "pretrained_root",
    "read_json",
    "read_tensors",
    "read_text",
    "replacing",
    "write_json",
    "write_tensors",
]

import hashlib
import json
import math
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from reprlib import repr as short
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


Kinds = tuple[type, ...]

# Bytes. The largest weights that come with the package have 3 MB, the largest checkpoint 20 MB.
MAX_BYTES = 2**30


class StoredFileError(ValueError):
    """A stored file cannot be read or written, or is not what it should be; it is named."""


def write_json(path: Path, content: Mapping[str, Any] | list[Any]) -> None:
    """Writes JSON; a file that was there stays whole until the new one is.

    Raises:
        StoredFileError: the file cannot be written, because the disk is full, say.
    """
    _replace(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Reads JSON.

    Raises:
        StoredFileError: the file is missing, unreadable, larger than 1 GiB or no JSON; or it is
            nested too deeply, or has a number with too many digits, for Python.
    """
    content = _read(path)
    try:
        return json.loads(content)
    except RecursionError:
        raise StoredFileError(f"{path}: not valid JSON here (nested too deeply)") from None
    except ValueError as error:
        raise StoredFileError(f"{path}: not valid JSON ({error})") from None


def read_text(path: Path) -> str:
    """Reads text in UTF-8.

    Raises:
        StoredFileError: the file is missing, unreadable, larger than 1 GiB or no such text.
    """
    try:
        return _read(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StoredFileError(f"{path}: not valid text ({error})") from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Writes tensors as safetensors and returns the file's SHA-256.

    Raises:
        StoredFileError: the file cannot be written, because the disk is full, say.
    """
    from safetensors.torch import save  # it imports PyTorch, for which `amci --help` cannot wait

    content = save({name: t.detach().cpu().contiguous() for name, t in tensors.items()})
    _replace(path, content)
    return hashlib.sha256(content).hexdigest()


def read_tensors(path: Path, *, expected_sha256: str | None = None) -> dict[str, Tensor]:
    """Reads safetensors.

    Raises:
        StoredFileError: the file is missing, unreadable, larger than 1 GiB or damaged, or its hash
            is not the one expected.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    content = _read(path)
    if expected_sha256 is not None and hashlib.sha256(content).hexdigest() != expected_sha256:
        raise StoredFileError(
            f"{path}: its SHA-256 is not the recorded {expected_sha256[:12]}...; "
            "the file is damaged or belongs to another training"
        )
    try:
        return load(content)
    except SafetensorError as error:
        raise StoredFileError(f"{path}: not a valid safetensors file ({error})") from None


def check_path(name: str, path: str | Path) -> Path:
    """Returns a path that the system can look up.

    Raises:
        StoredFileError: it is no path or empty, or holds a NUL or what no file name can.
    """
    try:
        if isinstance(path, str | Path) and str(path) and b"\0" not in os.fsencode(path):
            return Path(path)
    except UnicodeEncodeError:
        pass
    raise StoredFileError(f"{name}: expected a path without NUL, got {str(path)!r}")


def make_folder(name: str, path: Path) -> None:
    """Makes a folder where it is missing.

    Raises:
        ValueError: it cannot be made; `name` is the argument's name.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{name}: expected a folder, got {path} ({error.strerror})") from None


def check_object(
    path: Path, entry: Any, kinds: Mapping[str, Kinds], *, within: str = "", only: bool = False
) -> None:
    """Checks that a part of a JSON file is an object with these keys, and others perhaps.

    Arguments:
        path: The file that it comes from.
        entry: What was read.
        kinds: Key to the types that its value may have; `true` and `false` are no numbers.
        within: Where in the file it stands, such as `proposals.q2`.
        only: Whether other keys are refused.

    Raises:
        StoredFileError: a key is missing or unknown, or its value has another type; file and key
            are named.
    """
    if not isinstance(entry, dict):
        raise StoredFileError(
            f"{path}: expected an object as {within or 'its content'}, got {short(entry)}"
        )
    for key in [*kinds, *(entry.keys() - kinds.keys() if only else ())]:
        place = f"{within}.{key}" if within else key
        if key not in kinds or key not in entry:
            what = "missing" if key in kinds else "none of " + ", ".join(kinds)
            raise StoredFileError(f"{path}: {place} is {what}")
        value, allowed = entry[key], kinds[key]
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            names = " or ".join(kind.__name__ for kind in allowed)
            raise StoredFileError(f"{path}: expected {names} as {place}, got {short(value)}")


def _read(path: Path) -> bytes:
    try:
        check_path("file", path)
        found = path.stat()
        if stat.S_ISFIFO(found.st_mode) or stat.S_ISCHR(found.st_mode):
            raise StoredFileError(f"{path}: not a regular file")
        if found.st_size > MAX_BYTES:
            raise StoredFileError(
                f"{path}: {found.st_size:,} bytes; at most {MAX_BYTES:,} allowed"
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise StoredFileError(f"{path}: no such file") from None
    except OSError as error:
        raise StoredFileError(f"{path}: cannot be read ({error.strerror})") from None


@contextmanager
def replacing(path: Path, *, parents: bool = False) -> Iterator[Path]:
    """A new file beside, which takes the place of the path where all went well.

    Arguments:
        path: What is written.
        parents: Whether folders that are missing are made.

    Raises:
        StoredFileError: it cannot be written, because the disk is full, say.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with replacing(Path(folder) / "a.txt") as beside:
        ...         _ = beside.write_text("whole or not at all")
        ...     print(*(path.name for path in Path(folder).iterdir()))
        a.txt
    """
    try:
        if parents:
            path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(handle)
        beside = Path(name)
        try:
            yield beside
            beside.chmod(0o644)
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        why = error.strerror or error
        raise StoredFileError(f"{path}: cannot be written ({why})") from error


def _replace(path: Path, content: bytes) -> None:
    with replacing(path, parents=True) as beside:
        beside.write_bytes(content)


def plain(value: Any) -> Any:
    """The value in JSON's types; a number that is not finite, which JSON lacks, becomes null."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def pretrained_root() -> Path:
    """The folder of trained proposals, laid out as `<problem>/<variant>/`.

    An installed package carries it as `amci_core/_pretrained`; a checkout, or an editable install
    of one, has it as `pretrained` beside `amci_core`.

    Raises:
        FileNotFoundError: neither place has it.
    """
    package = Path(__file__).resolve().parent
    places = (package / "_pretrained", package.parent / "pretrained")
    for place in places:
        if place.is_dir():
            return place
    looked = " nor ".join(str(place) for place in places)
    raise FileNotFoundError(
        f"the trained proposals are missing: found neither {looked}; "
        "install amci-explorer again, or train proposals with `amci train`"
    )
