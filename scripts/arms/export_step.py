#!/usr/bin/env python3
"""Exports forward and backward of one micro-batch as an AOTInductor package for compile=aoti.

Reads the block config named by STEPLENS_BLOCK_CONFIG, as a block does, and leaves NAME.pt2 and
NAME.json in STEPLENS_PACKAGES or, without it, in ~/.cache/steplens/packages. A package that is
there already and fits this machine is kept. `steplens matrix` and `run` call it before their
first block; by hand:
  STEPLENS_BLOCK_CONFIG=block_config.json python3 export_step.py

The package takes tokens (B, T), targets (B, T), the scale of the loss (scalar), cos and sin of the
rotary embedding (T, D) and the parameters, and returns the loss sum (unscaled) and the gradients of
the trained parameters (scaled).
workloads/catalog/package_info.h names it and checks the JSON.

Exit codes: 0 the package is there; 2 the config is wrong; 4 not available here, with the reason.
"""

import hashlib
import json
import os
import pathlib
import sys
import tempfile
import time

import block_protocol

# Of what a package computes and how it is called: raised when either changes.
STEP_VERSION = 2
CONFIG_KEYS = ("device", "num_layers", "d_model", "num_heads", "num_kv_heads", "head_dim",
               "ffn_width", "vocab_size", "sequence_length", "precision", "attention", "frozen",
               "norm_epsilon", "rope_base")


class NotAvailable(Exception):
    """One sentence: why no package can be made here."""


def packages_folder():
    folder = os.environ.get("STEPLENS_PACKAGES")
    if folder:
        return pathlib.Path(folder)
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "steplens" / "packages"


def package_config(config):
    """What decides the package's computation."""
    held = config.get("accumulation_holds", "global_batch") == "micro_batch"
    rows = config["global_batch"] // (1 if held else config["accumulation"])
    values = {key: config[key] for key in CONFIG_KEYS}
    return values | {"micro_batch": rows // config["world_size"]}


def package_name(values):
    text = "".join(f"{key}={json.dumps(values[key])}\n" for key in sorted(values))
    digest = hashlib.sha256(text.encode()).hexdigest()
    return (f"L{values['num_layers']}-d{values['d_model']}-B{values['micro_batch']}"
            f"-T{values['sequence_length']}-{values['precision']}-{values['attention']}"
            f"-{values['device']}-{digest[:12]}")


def lacks(error):
    return NotAvailable(f"this Python has no package {error.name}, which compile=aoti needs to export")


def import_torch(config):
    try:
        import torch
    except ImportError as error:
        raise lacks(error) from error
    if config["device"] == "cuda" and not torch.cuda.is_available():
        raise NotAvailable("PyTorch finds no GPU here")
    return torch


def import_compiler(config):
    """Seconds more than torch alone, which a package that is there already need not wait for."""
    try:
        import torch._inductor.compile_fx  # noqa: F401
        if config["device"] == "cuda":
            import triton  # noqa: F401
    except ImportError as error:
        raise lacks(error) from error


def source_hash():
    """Of the programs that a package is made from: after a change it is made anew."""
    folder = pathlib.Path(__file__).resolve().parent
    digest = hashlib.sha256()
    for name in ("export_step.py", "torch_model.py"):
        digest.update((folder / name).read_bytes())
    return digest.hexdigest()


def place(torch, config):
    """What a package is bound to beside its config."""
    if config["device"] == "cuda":
        major, minor = torch.cuda.get_device_capability()
        architecture = f"sm_{major}{minor}"
    else:
        architecture = torch.backends.cpu.get_cpu_capability()
    return {"step_version": STEP_VERSION, "torch_version": torch.__version__.split("+")[0],
            "architecture": architecture, "source_sha256": source_hash()}


def trace(torch, config, num_rows):
    """The joint graph as an exported program, and what it was exported with."""
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.nn.attention import sdpa_kernel

    import torch_step
    import torch_train_step
    from torch_model import Model

    device = torch.device("cuda:0" if config["device"] == "cuda" else "cpu")
    model = Model(config | {"checkpoint": "off"}, device)
    model.has_separate_products = True
    is_trained = [parameter.requires_grad for parameter in model.parameters]
    dtype = torch_train_step.AUTOCAST_TYPES.get(config["precision"])

    def joint(tokens_BT, targets_BT, scale, cos_TD, sin_TD, *parameters):
        # Tables that the graph made itself would be computed anew in every kernel that reads them.
        model.parameters, model.cos_TD, model.sin_TD = list(parameters), cos_TD, sin_TD
        # Without the cache: its entries would outlive the trace.
        with torch.autocast(device.type, dtype=dtype, enabled=dtype is not None,
                            cache_enabled=False):
            loss_sum = model.loss_sum(tokens_BT, targets_BT)
            root = loss_sum * scale
        trained = [p for p, is_on in zip(parameters, is_trained) if is_on]
        return (loss_sum.detach(), *torch.autograd.grad(root, trained))

    tokens_BT = torch.zeros(num_rows, config["sequence_length"], dtype=torch.int64, device=device)
    inputs = (tokens_BT, tokens_BT.clone(), torch.ones((), device=device), model.cos_TD,
              model.sin_TD, *model.parameters)
    with sdpa_kernel([torch_step.BACKENDS[config["attention"]]]):
        graph = make_fx(joint, tracing_mode="fake")(*inputs)
        detached = tuple(tensor.detach() for tensor in inputs)
        with torch.no_grad():
            return torch.export.export(graph, detached, strict=False)


def write_atomically(path, data):
    handle, temporary = tempfile.mkstemp(prefix=path.name + ".tmp-", dir=path.parent)
    try:
        os.fchmod(handle, 0o644)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        pathlib.Path(temporary).unlink(missing_ok=True)
        raise


def fits(folder, name, wanted):
    try:
        info = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        data = (folder / f"{name}.pt2").read_bytes()
    except (OSError, ValueError):
        return False
    return (all(info.get(key) == value for key, value in wanted.items()) and
            info.get("package_sha256") == hashlib.sha256(data).hexdigest())


def export(config):
    torch = import_torch(config)
    values = package_config(config)
    folder, name = packages_folder(), package_name(values)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = place(torch, config) | {"config": values}
    if fits(folder, name, wanted):
        return f"{name}: there already"  # harness/package_export.cpp knows these words.
    import_compiler(config)
    torch.set_num_threads(config["num_threads"])
    torch.set_float32_matmul_precision("high" if config["precision"] == "tf32" else "highest")
    start_ns = time.perf_counter_ns()
    program = trace(torch, config, values["micro_batch"])
    traced_ns = time.perf_counter_ns()
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        path = torch._inductor.aoti_compile_and_package(
            program, package_path=str(pathlib.Path(temporary) / "step.pt2"))
        data = pathlib.Path(path).read_bytes()
    end_ns = time.perf_counter_ns()
    # The package first: a JSON without its package fits nothing.
    write_atomically(folder / f"{name}.pt2", data)
    info = wanted | {"trace_ns": traced_ns - start_ns, "export_ns": end_ns - start_ns,
                     "package_bytes": len(data), "package_sha256": hashlib.sha256(data).hexdigest()}
    write_atomically(folder / f"{name}.json",
                     (json.dumps(info, indent=2, sort_keys=True) + "\n").encode())
    return f"{name}: exported in {(end_ns - start_ns) / 1e9:.1f} s"


def last_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1][:250]}" if lines else type(error).__name__


def main():
    if len(sys.argv) > 1:
        is_asked = sys.argv[1] in ("-h", "--help")
        print(__doc__.strip(), file=sys.stdout if is_asked else sys.stderr)
        return 0 if is_asked else 2
    try:
        print(export(block_protocol.read_block_config()["config"]))
    except block_protocol.UsageError as error:
        print(f"export_step.py: {error}", file=sys.stderr)
        return 2
    except NotAvailable as error:
        print(error, file=sys.stderr)
        return 4
    except Exception as error:  # Whatever Inductor or its compiler says: one line for the report.
        print(f"the export failed: {last_line(error)}", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
