"""What the allocator's own peak does not show of CUDA graphs.

After its capture a graph's private pool counts as allocated only where tensors of it still live; a
replay writes to all of it. The C++ step counts the same (hidden_bytes of step_executor.cpp).
"""

DEFAULT_POOL = (0, 0)


def hidden_bytes(segments):
    """`segments`: of torch.cuda.memory_snapshot(), each with total_size, allocated_size (bytes) and
    segment_pool_id. Bytes of private pools that no living tensor accounts for."""
    return sum(segment["total_size"] - segment["allocated_size"] for segment in segments
               if tuple(segment.get("segment_pool_id", DEFAULT_POOL)) != DEFAULT_POOL)
