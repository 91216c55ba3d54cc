"""A live page: the windows of a running query as charts that move, and the figures of its stream."""

from muntin.watch.board import Board
from muntin.watch.server import serve

__all__ = ["Board", "serve"]
