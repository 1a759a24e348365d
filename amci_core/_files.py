r"""Where the files that come with the package are."""

__all__ = ["pretrained_root"]

from pathlib import Path


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
