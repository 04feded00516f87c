"""Drops files onto a window, as a file manager does: the source's side of XDND, version 5.

Protocol: https://www.freedesktop.org/wiki/Specifications/XDND/
"""

import pathlib
import time

from Xlib import X, display
from Xlib.protocol import event

TIMEOUT_S = 20


def drop(window_id, paths):
    """Returns once the target says that it is finished; raises TimeoutError if it never does."""
    connection = display.Display()
    atoms = {name: connection.intern_atom(name) for name in (
        "XdndEnter", "XdndPosition", "XdndStatus", "XdndDrop", "XdndFinished", "XdndSelection",
        "XdndActionCopy", "text/uri-list")}
    root = connection.screen().root
    source = root.create_window(0, 0, 1, 1, 0, X.CopyFromParent)
    target = connection.create_resource_object("window", window_id)
    text = "".join(pathlib.Path(path).resolve().as_uri() + "\r\n" for path in paths).encode()
    source.set_selection_owner(atoms["XdndSelection"], X.CurrentTime)

    def tell(kind, *data):
        message = event.ClientMessage(window=target, client_type=atoms[kind],
                                      data=(32, [source.id, *data] + [0] * (4 - len(data))))
        target.send_event(message, event_mask=X.NoEventMask)
        connection.flush()

    def answer(request):
        request.requestor.change_property(request.property, request.target, 8, text)
        notice = event.SelectionNotify(time=request.time, requestor=request.requestor,
                                       selection=request.selection, target=request.target,
                                       property=request.property)
        request.requestor.send_event(notice, event_mask=X.NoEventMask)
        connection.flush()

    def wait_for(kind):
        """The message of that kind; answers requests for the list of files meanwhile."""
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            if not connection.pending_events():
                time.sleep(0.02)
                continue
            got = connection.next_event()
            if got.type == X.SelectionRequest:
                answer(got)
            elif got.type == X.ClientMessage and got.client_type == atoms[kind]:
                return got
        raise TimeoutError(f"the window never sent {kind}")

    tell("XdndEnter", 5 << 24, atoms["text/uri-list"])
    tell("XdndPosition", 0, (40 << 16) | 40, X.CurrentTime, atoms["XdndActionCopy"])
    status = wait_for("XdndStatus")
    if not status.data[1][1] & 1:
        raise RuntimeError("the window does not take files")
    tell("XdndDrop", 0, X.CurrentTime)
    wait_for("XdndFinished")
    connection.close()
