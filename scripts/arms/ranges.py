"""NVTX ranges of a traced arm: the names that Steplens gives a step, forward and backward.

Off unless `enable` was called, and then free. Nsight Systems shows the same ranges.
"""

import contextlib
import threading

import torch

_is_on = False
_open = threading.local()  # .node: a range of the backward pass is open on this thread.


def enable():
    """Before the first step."""
    global _is_on
    _is_on = True


def _is_here():
    # A compiled function has no modules any more: their names would only break its graph.
    return _is_on and not torch.compiler.is_compiling()


@contextlib.contextmanager
def _pushed(name):
    torch.cuda.nvtx.range_push(name)
    try:
        yield
    finally:
        torch.cuda.nvtx.range_pop()


def named(name):
    """Names the enclosing block: step, micro-step, a phase, or a module."""
    return _pushed(name) if _is_here() else contextlib.nullcontext()


def _close_node():
    if getattr(_open, "node", False):
        _open.node = False
        torch.cuda.nvtx.range_pop()


def _begin_node(name):
    if getattr(_open, "node", False):
        torch.cuda.nvtx.range_pop()
    else:
        torch.autograd.Variable._execution_engine.queue_callback(_close_node)
    torch.cuda.nvtx.range_push("backward/" + name)
    _open.node = True


def mark(output, module):
    """`output`: what a module returns. Its backward pass, from here on to the next mark that it
    meets, is named after the module. Returns `output`."""
    if _is_here() and output.requires_grad:
        output.register_hook(lambda _gradient: _begin_node(module))
    return output
