"""Packages that an arm needs and that a machine may lack."""

import importlib


def one_line(text):
    return " ".join(str(text).split())[:300]


def why_missing(modules, install):
    """A whole sentence, or nothing if all `modules` can be imported. `install` says how to get
    them."""
    for module in modules:
        package = module.split(".")[0]
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            missing = (error.name or module).split(".")[0]
            needed_by = "" if missing == package else f", which {package} needs"
            return f"not available: this Python has no package {missing}{needed_by} ({install})"
        # Built for another PyTorch or CUDA, a package fails to load in ways of its own.
        except Exception as error:
            return (f"not available: {package} is installed and cannot be imported: "
                    f"{type(error).__name__}: {one_line(error)} ({install})")
    return ""


def versions(modules):
    """What goes into block.json's environment."""
    packages = dict.fromkeys(module.split(".")[0] for module in modules)
    return {f"{package}_version": str(getattr(importlib.import_module(package), "__version__", ""))
            for package in packages}
