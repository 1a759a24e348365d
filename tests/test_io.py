"""Files are written whole or not at all, and read with their hash checked."""

import os
import stat

import pytest
import torch

from amci_core.io import (
    StoredFileError,
    read_json,
    read_tensors,
    write_json,
    write_tensors,
)


def test_tensors_come_back_as_they_were_and_damage_is_named(tmp_path):
    tensors = {"a": torch.arange(3.0), "b": torch.tensor([[1, 2]], dtype=torch.int64)}
    path = tmp_path / "new" / "t.safetensors"
    digest = write_tensors(path, tensors)
    back = read_tensors(path, expected_sha256=digest)
    assert back.keys() == tensors.keys()
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StoredFileError, match=r"t\.safetensors: its SHA-256 is not the recorded"):
        read_tensors(path, expected_sha256=digest)


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path):
    write_json(tmp_path / "f.json", {"a": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "f.json", {"a": float("nan")})
    (tmp_path / "folder").mkdir()
    with pytest.raises(StoredFileError, match=r"folder: cannot be written \(Is a directory\)"):
        write_json(tmp_path / "folder", {"a": 1})
    assert read_json(tmp_path / "f.json") == {"a": 1}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f.json", "folder"]


def test_who_may_read_a_file_is_for_the_umask_to_say(tmp_path):
    before = os.umask(0o077)
    try:
        write_json(tmp_path / "f.json", {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "f.json").stat().st_mode) == 0o600


def test_what_is_no_safetensors_or_json_is_said_so(tmp_path):
    path = tmp_path / "t"
    path.write_bytes(b"not at all")
    with pytest.raises(StoredFileError, match="t: not a valid safetensors file"):
        read_tensors(path)
    with pytest.raises(StoredFileError, match="t: not valid JSON"):
        read_json(path)
    for read in (read_json, read_tensors):
        with pytest.raises(StoredFileError, match="absent: cannot be read"):
            read(tmp_path / "absent")
