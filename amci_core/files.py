r"""Files: safetensors and JSON, written beside and renamed, read with their hash checked."""

from __future__ import annotations

__all__ = [
    "StoredFileError",
    "plain",
    "pretrained_root",
    "read_json",
    "read_tensors",
    "write_json",
    "write_tensors",
]

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


class StoredFileError(ValueError):
    """A stored file is missing, damaged, or not what it should be; the message names it."""


def write_json(path: Path, content: Mapping[str, Any] | list[Any]) -> None:
    """Writes JSON; a file that was there stays whole until the new one is."""
    _replace(path, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Reads JSON.

    Raises:
        StoredFileError: the file is missing, unreadable or no JSON.
    """
    content = _read(path)
    try:
        return json.loads(content)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise StoredFileError(f"{path}: not valid JSON ({error})") from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> str:
    """Writes tensors as safetensors and returns the file's SHA-256."""
    from safetensors.torch import save  # it imports PyTorch, for which `amci --help` cannot wait

    content = save({name: t.detach().cpu().contiguous() for name, t in tensors.items()})
    _replace(path, content)
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


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise StoredFileError(f"{path}: no such file") from None
    except OSError as error:
        raise StoredFileError(f"{path}: cannot be read ({error.strerror})") from None


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(beside, 0o644)
        os.replace(beside, path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


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
    """Finds the folder of trained proposals, laid out as `<problem>/<variant>/`.

    An installed package carries it as `amci_core/_pretrained`; a checkout, or an editable install
    of one, has it as `pretrained` beside `amci_core`.

    Returns:
        The folder's path. It exists.

    Raises:
        FileNotFoundError: If neither place has it.
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
