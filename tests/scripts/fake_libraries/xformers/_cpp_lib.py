"""Did the library behind xFormers load? FAKE_XFORMERS_ERROR: no, and why."""

import os

_cpp_library_load_exception = None
if os.environ.get("FAKE_XFORMERS_ERROR"):
    _cpp_library_load_exception = RuntimeError(os.environ["FAKE_XFORMERS_ERROR"])
