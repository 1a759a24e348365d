r"""Every sentence that is made from numbers."""

from app.words.numbers import number, percent

__all__ = ["number", "percent"]
