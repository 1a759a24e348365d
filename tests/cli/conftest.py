"""Runs commands in this process."""

from itertools import chain

import pytest

from amci_core.cli import main


@pytest.fixture
def run(capsys):
    """Runs `amci` with words and paths; gives its exit code, stdout and stderr."""

    def call(*parts):
        words = [part.split() if isinstance(part, str) else [str(part)] for part in parts]
        with pytest.raises(SystemExit) as ended:
            main([*chain(*words)])
        captured = capsys.readouterr()
        return ended.value.code, captured.out, captured.err

    return call
