#!/usr/bin/env python3
"""Runs clang-tidy 19 on a build folder's sources, and remembers which were clean. See tidy.sh."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("harness", "profilers", "reports", "workloads", "viewer")
# GCC's options that clang does not know are no finding.
# libstdc++ sorts with what it calls deprecated itself; of our own code g++ says so.
OPTIONS = ["--quiet", "--extra-arg=-Wno-unknown-warning-option",
           "--extra-arg=-Wno-deprecated-declarations"]


def included_files(build: pathlib.Path) -> dict[str, list[str]]:
    """Maps each object file to all the files that its compilation read, as ninja recorded them."""
    output = subprocess.run(["ninja", "-C", str(build), "-t", "deps"], check=True, text=True,
                            capture_output=True).stdout
    result, current = {}, []
    for line in output.splitlines():
        if line.startswith(" "):
            current.append(line.strip())
        elif ": #deps" in line:
            current = result.setdefault(line.split(": #deps")[0], [])
    return result


def object_file(command: str) -> str:
    words = shlex.split(command)
    return words[words.index("-o") + 1]


def fingerprint(path: pathlib.Path) -> str:
    """Of our own files the content; of the system's, which are many, name, size and time."""
    if path.is_relative_to(ROOT):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    stat = path.stat()
    return f"{path} {stat.st_size} {stat.st_mtime_ns}"


def main() -> int:
    build = pathlib.Path(sys.argv[1]).resolve()
    wanted = {pathlib.Path(name).resolve() for name in sys.argv[2:]}
    tool = shutil.which("clang-tidy-19")
    if not tool:
        print("clang-tidy 19 is not installed: run scripts/setup.sh --dev")
        return 1
    version = subprocess.run([tool, "--version"], check=True, text=True, capture_output=True).stdout
    rules = version + (ROOT / ".clang-tidy").read_text() + " ".join(OPTIONS)
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "steplens/tidy"
    cache.mkdir(parents=True, exist_ok=True)
    includes = included_files(build)
    prints: dict[str, str] = {}

    todo = []
    num_clean = 0
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if not path.is_relative_to(ROOT) or path.relative_to(ROOT).parts[0] not in FOLDERS:
            continue
        if wanted and path not in wanted:
            continue
        key = hashlib.sha256((rules + entry["command"].replace(str(ROOT), "")).encode())
        for name in [str(path), *sorted(includes.get(object_file(entry["command"]), []))]:
            full = pathlib.Path(os.path.normpath(build / name))
            if str(full) not in prints:
                prints[str(full)] = fingerprint(full)
            key.update(prints[str(full)].encode())
        mark = cache / key.hexdigest()
        if mark.exists():
            os.utime(mark)
            num_clean += 1
        else:
            todo.append((path, mark))

    def check(path: pathlib.Path, mark: pathlib.Path):
        done = subprocess.run([tool, *OPTIONS, "-p", str(build), str(path)], text=True, capture_output=True,
                              check=False)
        if done.returncode == 0:
            mark.touch()
        return path, done

    print(f"tidy: {num_clean} files known to be clean, {len(todo)} to check", flush=True)
    failed = []
    jobs = int(os.environ.get("STEPLENS_JOBS") or os.cpu_count() or 1)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(check, *item) for item in todo]
        for number, future in enumerate(concurrent.futures.as_completed(futures), 1):
            path, done = future.result()
            name = path.relative_to(ROOT)
            print(f"[{number}/{len(todo)}] {name}{' FAILED' if done.returncode else ''}", flush=True)
            if done.returncode:
                failed.append(name)
                print(done.stdout, flush=True)  # stderr only counts what the rules suppress.
    for mark in cache.iterdir():
        if mark.stat().st_mtime < time.time() - 90 * 86400:
            mark.unlink(missing_ok=True)
    if failed:
        print(f"tidy: {len(failed)} files with findings: {', '.join(map(str, failed))}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
