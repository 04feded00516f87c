#!/usr/bin/env python3
"""Fails if a folder includes what it must not know, or two types share a full name.

Run by ctest as `architecture`. Two types of one name in one program break the one-definition rule:
the linker keeps one of their destructors for both, and nothing warns.
"""

import pathlib
import re
import sys

MAY_INCLUDE = {
    "harness": {"harness"},
    "kernels": {"harness", "kernels"},
    "profilers": {"harness", "profilers"},
    "workloads": {"harness", "kernels", "workloads"},
    "reports": {"harness", "reports"},
    "viewer": {"harness", "reports", "viewer"},
}
# These wire the folders together: they may include all of ours.
COMPOSITION_ROOTS = {"harness/main.cpp", "workloads/worker_main.cpp", "viewer/main.cpp"}
# The catalog builds without LibTorch and CUDA, unlike the rest of its folder.
CATALOG = "workloads/catalog/"
CATALOG_MAY_INCLUDE = ("harness/", CATALOG)

# Within viewer/, from what is shown to how: data/ builds without ImGui and OpenGL.
VIEWER_MAY_INCLUDE = {
    "data": {"data"},
    "draw": {"data", "draw"},
    "panels": {"data", "draw", "panels"},
    "app": {"data", "draw", "panels", "app"},
}
VIEWER_LEAKS = [
    ("Dear ImGui", re.compile(r"(backends/)?imgui|GLFW/"), {"draw", "panels", "app"}),
    ("OpenGL", re.compile(r"epoxy/|EGL/|GL/|stb_"), {"draw", "app"}),
]

# Third-party headers, and the folders that may know them. tests/ may include what its folder may.
LEAKS = [
    ("LibTorch", re.compile(r"(torch|ATen|c10)/"), {"workloads"}),
    ("CUPTI", re.compile(r"(generated_)?(cupti|nvperf)"), {"profilers"}),
    ("NCCL", re.compile(r"nccl"), {"workloads"}),
    ("MPI", re.compile(r"mpi\.h$"), {"workloads"}),
    ("CUDA", re.compile(r"cuda[._]|cub/|cooperative_groups|mma\.h|cublas"),
     {"kernels", "profilers", "workloads"}),
    ("Dear ImGui", re.compile(r"(backends/)?imgui|implot|GLFW/"), {"viewer"}),
    ("OpenGL", re.compile(r"epoxy/|EGL/|GL/|stb_"), {"viewer"}),
    ("SQLite", re.compile(r"sqlite3"), {"reports"}),
]
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]')
SOURCES = {".h", ".cpp", ".cu", ".cuh", ".in"}
OPENS_NAMESPACE = re.compile(r"^\s*(?:inline )?namespace( [\w:]+)? \{$")
CLOSES_NAMESPACE = re.compile(r"^\s*\}  // namespace")
DEFINES_TYPE = re.compile(r"^(?:struct|class|enum class|union) (\w+)(?: final)?(?: : [^;]*)? ?\{")


def faults(name: str, included: str):
    """Why file `name` must not include `included`; nothing if it may."""
    folder = name.split("/")[0]
    subject = name.split("/")[1] if folder == "tests" and name.count("/") > 1 else folder
    if subject == "benchmarks":  # viewer_bench.cpp is about viewer/.
        subject = name.split("/")[-1].split("_")[0]
    target = included.split("/")[0]
    if folder in MAY_INCLUDE and target in MAY_INCLUDE and name not in COMPOSITION_ROOTS:
        if target not in MAY_INCLUDE[folder]:
            yield f"{folder}/ must not include {target}/"
        elif name.startswith(CATALOG) and not included.startswith(CATALOG_MAY_INCLUDE):
            yield f"{CATALOG} must not include {included}"
    for library, pattern, may in LEAKS:
        if pattern.match(included) and (subject not in may or name.startswith(CATALOG)):
            yield f"{library} is known only to {', '.join(sorted(may))}: not to include {included} here"


def viewer_faults(name: str, included: str):
    """The same for the folders of viewer/."""
    parts = name.split("/")
    if parts[0] != "viewer" or len(parts) < 3:
        return
    target = included.split("/")
    if target[0] == "viewer" and len(target) > 2 and target[1] not in VIEWER_MAY_INCLUDE[parts[1]]:
        yield f"viewer/{parts[1]}/ must not include viewer/{target[1]}/"
    for library, pattern, may in VIEWER_LEAKS:
        if pattern.match(included) and parts[1] not in may:
            yield f"{library} is not for viewer/{parts[1]}/: not to include {included} here"


def violations(root: pathlib.Path):
    for folder in [*MAY_INCLUDE, "tests"]:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            name = path.relative_to(root).as_posix()
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if match := INCLUDE.match(line):
                    for fault in [*faults(name, match[1]), *viewer_faults(name, match[1])]:
                        yield f"{name}:{number}: {fault}"


def types_of(text: str):
    """Line and full name of each type that other files of the program can clash with."""
    namespaces = []
    for number, line in enumerate(text.splitlines(), 1):
        if match := OPENS_NAMESPACE.match(line):
            namespaces.append((match[1] or "").strip())
        elif CLOSES_NAMESPACE.match(line):
            namespaces.pop()
        elif (match := DEFINES_TYPE.match(line)) and all(namespaces):
            yield number, "::".join([*namespaces, match[1]])


def twins(root: pathlib.Path):
    """Types of one full name in two files of the product."""
    seen = {}
    for folder in MAY_INCLUDE:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            name = path.relative_to(root).as_posix()
            for number, full_name in types_of(path.read_text(encoding="utf-8")):
                if full_name in seen:
                    yield f"{name}:{number}: {full_name} is also a type of {seen[full_name]}"
                seen.setdefault(full_name, f"{name}:{number}")


def main() -> int:
    if len(sys.argv) > 1:
        print("usage: check_includes.py\n\n" + __doc__, end="")
        return 0 if sys.argv[1] in {"-h", "--help"} else 2
    root = pathlib.Path(__file__).resolve().parent.parent
    found = [*violations(root), *twins(root)]
    for line in found:
        print(line)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
