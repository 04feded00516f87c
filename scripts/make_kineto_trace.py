#!/usr/bin/env python3
"""Writes Chrome JSON as torch.profiler's Kineto does, of any size: what the import is measured with.

  scripts/make_kineto_trace.py trace.json                  1.5 million events, 326 MB
  scripts/make_kineto_trace.py small.json --events 10000

Steps of 100 layers; each operator is a cpu_op with two inner ones, a cudaLaunchKernel, a kernel on stream 7 and the
two ends of the arrow between them. Same arguments, same bytes.
"""

import argparse
import itertools

NAMES = ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
         "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
         "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT",
         "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >(Flash_fwd_params)",
         "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(at::native::ReduceOp<float>)")
OPERATORS = ("aten::add", "aten::linear", "aten::scaled_dot_product_attention", "aten::sum")
OPERATORS_PER_STEP = 1000
EVENTS_PER_OPERATOR = 7


def events():
    """Yields events without end, as lines of JSON."""
    yield ('{"name": "process_name", "ph": "M", "ts": 0.0, "pid": 4711, "tid": 0, "args": {"name": "python"}}')
    yield ('{"name": "process_labels", "ph": "M", "ts": 0.0, "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}}')
    for index in itertools.count():
        step, place = divmod(index, OPERATORS_PER_STEP)
        start = 1_000_000_000 + 40 * index
        if place == 0:
            yield (f'{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{step}", "pid": 4711, "tid": 4711, '
                   f'"ts": {start - 1}.000, "dur": {40 * OPERATORS_PER_STEP - 2}.000, '
                   f'"args": {{"External id": {index}, "Ev Idx": {index}}}}}')
        name = OPERATORS[index % 4]
        correlation = index + 1
        yield (f'{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 4711, "tid": 4711, "ts": {start}.125, '
               f'"dur": 36.250, "args": {{"External id": {index}, "Sequence number": {place}, "Fwd thread id": 0, '
               f'"Concrete Inputs": ["", "", "1"], '
               f'"Input Dims": [[32, 1024, 768], [768, 768], []], "Ev Idx": {index}}}}}')
        for inner in range(2):
            yield (f'{{"ph": "X", "cat": "cpu_op", "name": "{name}_{inner}", "pid": 4711, "tid": 4711, '
                   f'"ts": {start + 2 + 15 * inner}.501, "dur": 14.002, "args": {{"External id": {index}, '
                   f'"Ev Idx": {index}}}}}')
        yield (f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4711, "tid": 4711, '
               f'"ts": {start + 19}.003, "dur": 5.117, "args": {{"External id": {index}, "cbid": 211, '
               f'"correlation": {correlation}}}}}')
        yield (f'{{"ph": "s", "id": {correlation}, "pid": 4711, "tid": 4711, "ts": {start + 19}.003, '
               f'"cat": "ac2g", "name": "ac2g"}}')
        yield (f'{{"ph": "X", "cat": "kernel", "name": "{NAMES[index % 4]}", "pid": 0, "tid": 7, '
               f'"ts": {start + 26}.{index % 1000:03}, "dur": {10 + index % 29}.{index % 997:03}, '
               f'"args": {{"queued": 0, "device": 0, "context": 1, "stream": 7, '
               f'"correlation": {correlation}, "registers per thread": 32, "shared memory": 2048, '
               f'"blocks per SM": 4.848485, "warps per SM": 19.393939, "grid": [640, 1, 1], '
               f'"block": [128, 1, 1], "est. achieved occupancy %": 30}}}}')
        yield (f'{{"ph": "f", "id": {correlation}, "pid": 0, "tid": 7, "ts": {start + 26}.{index % 1000:03}, '
               f'"cat": "ac2g", "name": "ac2g", "bp": "e"}}')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output")
    parser.add_argument("--events", type=int, default=1_500_000)
    arguments = parser.parse_args()
    with open(arguments.output, "w", encoding="utf-8") as stream:
        stream.write('{\n  "schemaVersion": 1,\n  "deviceProperties": [{"id": 0, "name": "NVIDIA H200", '
                     '"totalGlobalMem": 150122004480, "computeMajor": 9, "computeMinor": 0, "numSms": 132}],\n'
                     '  "cuda_runtime_version": 13000,\n  "displayTimeUnit": "ms",\n'
                     '  "baseTimeNanoseconds": 1700000000000000000,\n  "traceEvents": [\n  ')
        for index, event in enumerate(itertools.islice(events(), arguments.events)):
            stream.write(f",\n  {event}" if index else event)
        stream.write("\n  ]\n}\n")


if __name__ == "__main__":
    main()
