r"""Files: safetensors and JSON, written whole or not at all; tables; all checked when read."""

from __future__ import annotations

__all__ = [
    "StoredFileError",
    "check_path",
    "plain",
    "pretrained_root",
    "read_columns",
    "read_json",
    "read_tensors",
    "replacing",
    "vacant",
    "write_bytes",
    "write_json",
    "write_tensors",
]

import hashlib
import json
import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from reprlib import repr as short
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from torch import Tensor


class StoredFileError(ValueError):
    """A stored file cannot be read or written, or holds something else; it is named."""


def write_json(path: Path, content: Mapping[str, Any] | list[Any]) -> None:
    """Writes JSON; a file that was there stays whole until the new one is.

    Raises:
        StoredFileError: the file cannot be written, because the disk is full, say.
    """
    write_bytes(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Reads JSON.

    Raises:
        StoredFileError: the file is missing, unreadable or no JSON.
    """
    content = _read(path)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise StoredFileError(f"{path}: not valid JSON ({error})") from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Writes tensors as safetensors and returns the file's SHA-256.

    Raises:
        StoredFileError: the file cannot be written, because the disk is full, say.
    """
    from safetensors.torch import save  # it imports PyTorch, for which `amci --help` cannot wait

    content = save({name: t.detach().cpu().contiguous() for name, t in tensors.items()})
    write_bytes(path, content)
    return hashlib.sha256(content).hexdigest()


def read_tensors(path: Path, *, expected_sha256: str | None = None) -> dict[str, Tensor]:
    """Reads safetensors.

    Raises:
        StoredFileError: the file is missing, unreadable or damaged, or its hash is not the one
            expected.
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


def read_columns(file: str | Path) -> dict[str, Any]:
    """Reads the columns of a table: numbers, with NaN for empty entries, or text.

    Fields of a CSV are separated by commas. Lines that begin with # are passed over.

    Arguments:
        file: Its path, which ends in .csv or .parquet.

    Raises:
        ValueError: the file is missing, damaged or of another kind; or a column is there twice.
    """
    from pyarrow import ArrowException, csv, parquet

    path = check_path("table", file)
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(
            f"table: expected a name that ends in .csv or .parquet, got {path.name!r}"
        )
    try:
        content = path.read_bytes()
        if path.suffix.lower() == ".parquet":
            table = parquet.ParquetFile(BytesIO(content)).read()
        else:
            # With one thread errors name their row.
            in_turn = csv.ReadOptions(use_threads=False)
            table = csv.read_csv(BytesIO(re.sub(rb"(?m)^#.*(?:\n|\Z)", b"", content)), in_turn)
        names = [name.strip() for name in table.column_names]
    except FileNotFoundError:
        raise ValueError(f"table: no such file: {path}") from None
    except (ValueError, OSError, ArrowException) as error:
        raise ValueError(f"table: cannot be read: {error}") from None
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"table: it has the column {twice!r} twice. Rename one")
    return {name: column.to_numpy() for name, column in zip(names, table.columns, strict=True)}


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a file; one that was there stays whole until the new one is.

    Raises:
        StoredFileError: the file cannot be written, because the disk is full, say.
    """
    with replacing(path) as beside:
        beside.write_bytes(content)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StoredFileError(f"{path}: cannot be read ({error.strerror})") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new file beside, which takes the place of the path if all goes well.

    Folders that are missing are made.

    Raises:
        StoredFileError: it cannot be written, because the disk is full, say.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with replacing(Path(folder) / "a.txt") as beside:
        ...         _ = beside.write_text("whole or not at all")
        ...     print(*(path.name for path in Path(folder).iterdir()))
        a.txt
    """
    beside = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.touch(exist_ok=False)  # who may read it is for the umask to say
        try:
            yield beside
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise StoredFileError(f"{path}: cannot be written ({error.strerror or error})") from error


def vacant(folder: Path) -> None:
    """Makes a folder, or takes one that is empty.

    Raises:
        StoredFileError: it holds something, or cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        first = min((path.name for path in folder.iterdir()), default=None)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise StoredFileError(f"folder: {folder} cannot be written ({error.strerror})") from None
    if first is not None:
        raise StoredFileError(
            f"folder: {folder} holds files, such as {first}. Choose a new or empty folder"
        )


def check_path(name: str, value: Any) -> Path:
    """Returns an argument that is the path of a file or folder that is there, or could be.

    Raises:
        StoredFileError: it is not one, too long, within a file, or where nothing may be read.
    """
    try:
        path = Path(value)
        with suppress(FileNotFoundError):
            path.lstat()
    except (TypeError, ValueError, OSError) as error:
        why = getattr(error, "strerror", None) or error
        raise StoredFileError(f"{name}: expected a path, got {short(value)} ({why})") from None
    return path


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

    An installed package has it as `amci_core/_pretrained`; a checkout, or an editable install of
    one, as `pretrained` beside `amci_core`.

    Raises:
        FileNotFoundError: neither place has it.
    """
    package = Path(__file__).resolve().parent
    places = (package / "_pretrained", package.parent / "pretrained")
    for place in places:
        if place.is_dir():
            return place
    raise FileNotFoundError(
        f"the trained proposals are missing: found neither {places[0]} nor {places[1]}; "
        "install amci-explorer again, or train proposals with `amci train`"
    )
