from . import dynamo  # noqa: F401

__version__ = "0.fake"
